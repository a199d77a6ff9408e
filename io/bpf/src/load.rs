//! Loads objects: programs and tables.

use core::mem::offset_of;
use std::path::Path;

use libbpf_rs::{Object, ObjectBuilder, Program, ProgramInput, ProgramOutput};
use moorline_datapath::ilnp::{ChecksumMode, Wanted};

use crate::error::{Error, Result};
use crate::ilnp::IlnpSettings;
use crate::index;
use crate::settings::Settings;
use crate::skel::{self, ilnp, types};

/// Largest number of contexts: a slot plus one must fit the 24 bits of a cell.
const MAX_CONTEXTS: u32 = (1 << 24) - 1;

/// Number of contexts for which the tables have room.
pub(crate) fn contexts(settings: &Settings) -> u32 {
    settings.max_contexts.clamp(1, MAX_CONTEXTS)
}

/// Loads the programs of Shim6, over the tables that are pinned in `pins`.
///
/// # Errors
///
/// [`Error::Load`], also if a pinned table has another shape.
pub(crate) fn shim6(
    settings: &Settings,
    pins: Option<&Path>,
    virtual_clock: bool,
) -> Result<Object> {
    let contexts = contexts(settings);
    let size = |table: &str| match table {
        "contexts" | "lives" | "more_peers" => Some(contexts),
        "groups" => Some(contexts.div_ceil(types::sizes::GROUP_SLOTS.0)),
        "by_ulids" | "by_tag" | "by_quote" => Some(index::buckets(contexts)),
        "flows" => Some(settings.max_flows.max(1)),
        _ => None,
    };
    let constants = [(offset_of!(types::rodata, virtual_clock), virtual_clock.into())];
    load("moorline", &skel::SHIM6.0, size, &constants, pins)
}

/// Loads the programs of ILNP.
///
/// # Errors
///
/// [`Error::Load`].
pub(crate) fn ilnp(settings: &IlnpSettings, virtual_clock: bool) -> Result<Object> {
    let sessions = settings.max_sessions.max(1);
    let size = |table: &str| match table {
        "sessions" | "lives" | "remotes" | "by_pair" | "by_nids" => Some(sessions),
        // Room for a nonce that was learned and for one that replaces it.
        "by_nonce" => Some(sessions.saturating_mul(2)),
        _ => None,
    };
    let wanted = match settings.wanted {
        Wanted::Connected => ilnp::types::ilnp_socket::SOCKET_CONNECTED,
        Wanted::All => ilnp::types::ilnp_socket::SOCKET_NONE,
    };
    let is_full = settings.checksum == ChecksumMode::Full;
    let constants = [
        (offset_of!(ilnp::types::rodata, virtual_clock), virtual_clock.into()),
        (offset_of!(ilnp::types::rodata, wanted), u8::try_from(wanted.0).unwrap_or(0)),
        (offset_of!(ilnp::types::rodata, full_checksum), is_full.into()),
        (offset_of!(ilnp::types::rodata, initiator_type), settings.types.initiator),
        (offset_of!(ilnp::types::rodata, responder_type), settings.types.responder),
    ];
    load("ilnp", &skel::ILNP.0, size, &constants, None)
}

/// Loads an object, with these sizes of tables and these octets of its read-only data.
///
/// # Errors
///
/// [`Error::Load`].
pub(crate) fn load(
    name: &str,
    object: &'static [u8],
    size: impl Fn(&str) -> Option<u32>,
    constants: &[(usize, u8)],
    pins: Option<&Path>,
) -> Result<Object> {
    quiet_libbpf();
    let builder = ObjectBuilder::default().name(name).map_err(Error::Load)?.open_memory(object);
    let mut open = builder.map_err(Error::Load)?;
    for mut map in open.maps_mut() {
        let Some(name) = map.name().to_str().map(str::to_owned) else { continue };
        if let Some(size) = size(&name) {
            map.set_max_entries(size).map_err(Error::Load)?;
        }
        // Read-only data belong to one load of the programs.
        if let Some(pins) = pins.filter(|_| !name.contains('.')) {
            map.set_pin_path(pins.join(&name)).map_err(Error::Load)?;
        }
        if name.ends_with(".rodata") && !constants.is_empty() {
            let data = map.initial_value_mut().ok_or(Error::Missing(".rodata"))?;
            for (at, value) in constants {
                *data.get_mut(*at).ok_or(Error::Missing("a constant"))? = *value;
            }
        }
    }
    open.load().map_err(Error::Load)
}

/// Returns a program by the name of its function.
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

/// Redirects the messages of libbpf from standard error to the log.
fn quiet_libbpf() {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, |_, text| {
        tracing::debug!(target: "libbpf", "{}", text.trim_end());
        #[cfg(test)]
        eprintln!("libbpf: {}", text.trim_end());
    })));
}
