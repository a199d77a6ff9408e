//! Runs the `control` program, which changes tables that only programs write.

use core::mem::offset_of;

use libbpf_rs::{Object, ProgramInput};
use moorline_types::Instant;

use crate::error::Result;
use crate::load;
use crate::skel::types;

pub(crate) use types::control_op as Op;

/// Runs an operation on a slot. `at` is the time for [`Op::CONTROL_HEARD`].
pub(crate) fn run(object: &Object, op: Op, slot: u32, at: Instant) -> Result<()> {
    // The program reads no packet, but the kernel requires one.
    let packet = [0; 64];
    let mut context = [0; size_of::<types::__sk_buff>()];
    let [a, b, c, d, e, f, g, h] = at.as_nanos().to_be_bytes();
    let upper = u32::from_be_bytes([a, b, c, d]);
    let lower = u32::from_be_bytes([e, f, g, h]);
    for (index, word) in [op.0, slot, upper, lower].into_iter().enumerate() {
        let offset = offset_of!(types::__sk_buff, cb) + 4 * index;
        context[offset..offset + 4].copy_from_slice(&word.to_ne_bytes());
    }
    let input = ProgramInput {
        context_in: Some(&mut context),
        data_in: Some(&packet),
        ..ProgramInput::default()
    };
    load::run(object, "control", input).map(|_| ())
}
