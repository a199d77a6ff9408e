//! Deterministic network of Moorline hosts on a virtual clock.
