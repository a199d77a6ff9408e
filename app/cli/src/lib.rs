//! The Moorline command line.
