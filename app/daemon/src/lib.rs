//! The Moorline daemon.
