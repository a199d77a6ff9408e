//! Network-namespace testbed and experiments.
