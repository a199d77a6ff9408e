//! The engines of x86-64. This is the only place in the protocol crates with `unsafe`: it uses instructions
//! that not every processor has.
#![allow(unsafe_code, reason = "the instructions of vector units have no safe form")]

/// Defines the proof that processor and operating system have the instructions of an engine.
macro_rules! proof {
    ($($feature:tt),+) => {
        cpufeatures::new!(detected, $($feature),+);

        /// Proof that processor and operating system have the instructions of this engine.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(in crate::search) struct Proof(());

        impl Proof {
            pub(in crate::search) fn find() -> Option<Self> {
                detected::get().then_some(Self(()))
            }
        }
    };
}

pub(super) mod avx2;
pub(super) mod avx512;
pub(super) mod sha_ni;
