use std::path::PathBuf;

use moorline_datapath::ilnp::{ChecksumMode, Wanted};
use moorline_wire::ilnp::AdmissionTypes;

use crate::settings::AttachMode;

/// How the data plane of ILNP is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IlnpSettings {
    /// Sessions: as many as the machine's.
    pub max_sessions: u32,
    /// Which packets without a session are reported.
    pub wanted: Wanted,
    /// ICMPv6 types of the handshake.
    pub types: AdmissionTypes,
    /// Of packets that have a nonce and no session.
    pub checksum: ChecksumMode,
    /// Folder of a bpffs for marks of what is attached, where the kernel has no tcx: the one of
    /// [`crate::Settings`].
    pub pin_dir: PathBuf,
    /// Kind of hook.
    pub attach: AttachMode,
}

impl Default for IlnpSettings {
    fn default() -> Self {
        Self {
            max_sessions: 65_536,
            wanted: Wanted::Connected,
            types: AdmissionTypes::default(),
            checksum: ChecksumMode::NidOnly,
            pin_dir: PathBuf::new(),
            attach: AttachMode::Auto,
        }
    }
}
