//! The engines of x86-64. The one place in the protocol crates with `unsafe`: instructions that not
//! every processor has.
#![allow(unsafe_code, reason = "the instructions of vector units have no safe form")]

/// Says that the processor and the operating system have what an engine needs.
macro_rules! proof {
    ($($feature:tt),+) => {
        cpufeatures::new!(detected, $($feature),+);

        /// The processor and the operating system have the instructions of this engine.
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
