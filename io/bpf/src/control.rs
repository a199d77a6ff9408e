//! Running the `control` program: what changes tables that only programs write.

use core::mem::offset_of;

use libbpf_rs::{Object, ProgramInput};
use moorline_types::Instant;

use crate::error::Result;
use crate::load;
use crate::skel::types;

/// A new context begins in the slot.
pub(crate) fn reset(object: &Object, slot: u32) -> Result<()> {
    run(object, types::control_op::CONTROL_RESET, slot, 0)
}

/// The context changed: what is due is reported, the timer set.
pub(crate) fn look(object: &Object, slot: u32) -> Result<()> {
    run(object, types::control_op::CONTROL_LOOK, slot, 0)
}

/// The current locators changed.
pub(crate) fn moved(object: &Object, slot: u32) -> Result<()> {
    run(object, types::control_op::CONTROL_MOVED, slot, 0)
}

/// Another process goes on with the context, which may have changed.
pub(crate) fn adopted(object: &Object, slot: u32) -> Result<()> {
    run(object, types::control_op::CONTROL_ADOPTED, slot, 0)
}

/// The peer was heard from.
pub(crate) fn heard(object: &Object, slot: u32, at: Instant) -> Result<()> {
    run(object, types::control_op::CONTROL_HEARD, slot, at.as_nanos())
}

/// The context is gone.
pub(crate) fn cancel(object: &Object, slot: u32) -> Result<()> {
    run(object, types::control_op::CONTROL_CANCEL, slot, 0)
}

fn run(object: &Object, op: types::control_op, slot: u32, at: u64) -> Result<()> {
    // The program looks at no packet, but the kernel wants to see one.
    let packet = [0; 64];
    let mut context = [0; size_of::<types::__sk_buff>()];
    let [a, b, c, d, e, f, g, h] = at.to_be_bytes();
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
