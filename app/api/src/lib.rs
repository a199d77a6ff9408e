//! Versioned control types and client of the daemon.
