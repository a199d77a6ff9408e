//! From the object to loaded programs and tables.

use core::mem::offset_of;

use libbpf_rs::{Object, ObjectBuilder, OpenObject};
use moorline_datapath::ilnp::ChecksumMode;

use crate::error::{Error, Result};
use crate::ilnp::settings::IlnpSettings;
use crate::skel::{self, ilnp::types};
use moorline_datapath::ilnp::Wanted;

/// # Errors
///
/// [`Error::Load`].
pub(crate) fn load(settings: &IlnpSettings, virtual_clock: bool) -> Result<Object> {
    let mut open = ObjectBuilder::default()
        .name("ilnp")
        .and_then(|builder| builder.open_memory(skel::ilnp_object()))
        .map_err(Error::Load)?;
    size_tables(&mut open, settings)?;
    set_constants(&mut open, settings, virtual_clock)?;
    open.load().map_err(Error::Load)
}

fn size_tables(open: &mut OpenObject, settings: &IlnpSettings) -> Result<()> {
    let sessions = settings.max_sessions.max(1);
    for mut map in open.maps_mut() {
        let size = match map.name().to_str() {
            Some("sessions" | "lives" | "remotes" | "by_pair" | "by_nids") => sessions,
            // One that was learned, and one that took its place.
            Some("by_nonce") => sessions.saturating_mul(2),
            _ => continue,
        };
        map.set_max_entries(size).map_err(Error::Load)?;
    }
    Ok(())
}

fn set_constants(
    open: &mut OpenObject,
    settings: &IlnpSettings,
    virtual_clock: bool,
) -> Result<()> {
    let wanted = match settings.wanted {
        Wanted::Connected => types::ilnp_socket::SOCKET_CONNECTED,
        Wanted::All => types::ilnp_socket::SOCKET_NONE,
    };
    let constants = [
        (offset_of!(types::rodata, virtual_clock), virtual_clock.into()),
        (offset_of!(types::rodata, wanted), u8::try_from(wanted.0).unwrap_or(0)),
        (
            offset_of!(types::rodata, full_checksum),
            (settings.checksum == ChecksumMode::Full).into(),
        ),
        (offset_of!(types::rodata, initiator_type), settings.types.initiator),
        (offset_of!(types::rodata, responder_type), settings.types.responder),
    ];
    for mut map in open.maps_mut() {
        if map.name().to_str().is_some_and(|name| name.ends_with(".rodata")) {
            let data = map.initial_value_mut().ok_or(Error::Missing(".rodata"))?;
            for (at, value) in constants {
                *data.get_mut(at).ok_or(Error::Missing("a constant"))? = value;
            }
        }
    }
    Ok(())
}
