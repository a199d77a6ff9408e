use std::path::PathBuf;

use moorline_datapath::ilnp::{ChecksumMode, Wanted};
use moorline_wire::ilnp::AdmissionTypes;

use crate::settings::AttachMode;

/// Settings of the data plane of ILNP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IlnpSettings {
    /// Largest number of sessions: as many as the machine has.
    pub max_sessions: u32,
    /// Packets without a session that are reported.
    pub wanted: Wanted,
    /// ICMPv6 types of the handshake messages.
    pub types: AdmissionTypes,
    /// Checksum of packets that have a nonce and no session.
    pub checksum: ChecksumMode,
    /// Folder of a bpffs for links and marks of attached programs: the folder of [`crate::Settings`].
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
