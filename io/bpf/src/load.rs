//! From the object to loaded programs and tables.

use core::mem::offset_of;
use std::path::Path;

use libbpf_rs::{Object, ObjectBuilder, OpenObject, Program, ProgramInput, ProgramOutput};

use crate::error::{Error, Result};
use crate::index;
use crate::settings::Settings;
use crate::skel::{self, types};

/// A slot and one more fit 24 bits of a cell.
const MAX_CONTEXTS: u32 = (1 << 24) - 1;

/// Contexts that the tables have room for.
pub(crate) fn contexts(settings: &Settings) -> u32 {
    settings.max_contexts.clamp(1, MAX_CONTEXTS)
}

/// Loads the object; tables pinned in `pins` are taken over.
///
/// # Errors
///
/// [`Error::Load`] also if a pinned table has another shape.
pub(crate) fn load(
    settings: &Settings,
    pins: Option<&Path>,
    virtual_clock: bool,
) -> Result<Object> {
    let mut open = ObjectBuilder::default()
        .name("moorline")
        .and_then(|builder| builder.open_memory(skel::object()))
        .map_err(Error::Load)?;
    size_tables(&mut open, settings)?;
    if let Some(pins) = pins {
        pin_tables(&mut open, pins)?;
    }
    set_flag(&mut open, offset_of!(types::rodata, virtual_clock), virtual_clock)?;
    open.load().map_err(Error::Load)
}

fn size_tables(open: &mut OpenObject, settings: &Settings) -> Result<()> {
    let contexts = contexts(settings);
    for mut map in open.maps_mut() {
        let size = match map.name().to_str() {
            Some("contexts" | "lives" | "more_peers") => contexts,
            Some("groups") => contexts.div_ceil(types::sizes::GROUP_SLOTS.0),
            Some("by_ulids" | "by_tag" | "by_quote") => index::buckets(contexts),
            Some("flows") => settings.max_flows.max(1),
            _ => continue,
        };
        map.set_max_entries(size).map_err(Error::Load)?;
    }
    Ok(())
}

fn pin_tables(open: &mut OpenObject, pins: &Path) -> Result<()> {
    for mut map in open.maps_mut() {
        let Some(name) = map.name().to_str().map(str::to_owned) else { continue };
        // Read-only data belongs to one load of the programs.
        if !name.contains('.') {
            map.set_pin_path(pins.join(name)).map_err(Error::Load)?;
        }
    }
    Ok(())
}

/// Sets a flag among the read-only data.
fn set_flag(open: &mut OpenObject, offset: usize, value: bool) -> Result<()> {
    for mut map in open.maps_mut() {
        if map.name().to_str().is_some_and(|name| name.ends_with(".rodata")) {
            let flag = map
                .initial_value_mut()
                .and_then(|value| value.get_mut(offset))
                .ok_or(Error::Missing("read-only data"))?;
            *flag = value.into();
        }
    }
    Ok(())
}

/// A program by the name of its function.
pub(crate) fn program<'object>(
    object: &'object Object,
    name: &'static str,
) -> Result<Program<'object>> {
    object.progs().find(|program| program.name() == name).ok_or(Error::Missing(name))
}

/// Runs a program without a packet on the wire.
pub(crate) fn run<'data>(
    object: &Object,
    name: &'static str,
    input: ProgramInput<'data>,
) -> Result<ProgramOutput<'data>> {
    let program = object.progs_mut().find(|program| program.name() == name);
    program.ok_or(Error::Missing(name))?.test_run(input).map_err(Error::Control)
}
