//! How we move towards them.
