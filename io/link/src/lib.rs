//! Raw sockets and links.
