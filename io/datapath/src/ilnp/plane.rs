use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use moorline_ilnp::Socket;
use moorline_ilnp::datapath::{ChecksumMode, Report, Update};
use moorline_types::{DropReason, IlvPair, L64};
use moorline_wire::ilnp::AdmissionTypes;

use crate::error::Result;
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
    pub pin_dir: Option<PathBuf>,
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
            pin_dir: None,
            attach: AttachMode::Auto,
        }
    }
}

/// Which packets without a session are reported: what the policy says of each [`Socket`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Those of connected sockets: `admit`.
    #[default]
    Connected,
    /// All, even without a socket: `open`.
    All,
}

/// The loaded programs and their tables. All of it ends with this value, and the sessions are classic IPv6 again.
pub struct IlnpDatapath {
    reports: std::fs::File,
}

impl IlnpDatapath {
    /// Loads the programs.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Load`] without the privileges or the kernel for it.
    pub fn open(_settings: &IlnpSettings) -> Result<Self> {
        let source = |error: std::io::Error| crate::Error::Load(error.into());
        Ok(Self { reports: std::fs::File::open("/dev/null").map_err(source)? })
    }

    /// Puts the programs on an uplink, in front of those of Shim6.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Attach`].
    pub fn attach_uplink(&mut self, _ifindex: u32) -> Result<()> {
        Ok(())
    }

    /// Takes the programs off an uplink; none there is no error.
    pub fn detach_uplink(&mut self, _ifindex: u32) {}

    /// Puts the programs on the segmentation path, which packets of moved sessions take too: super-packets of TCP
    /// leave it whole, at `moor0`, and only those of UDP are segmented.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Attach`].
    pub fn attach_moor(&mut self, _moor0: u32, _moor1: u32) -> Result<()> {
        Ok(())
    }

    /// Takes all programs off all interfaces; tables stay.
    pub fn detach_all(&mut self) {}

    /// Tells which uplink packets with this source locator leave by.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Table`].
    pub fn set_locator(&self, _l64: L64, _ifindex: u32) -> Result<()> {
        Ok(())
    }

    /// Tells that no uplink has this locator.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Table`].
    pub fn unset_locator(&self, _l64: L64) -> Result<()> {
        Ok(())
    }

    /// Does what the sessions decided.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Table`] when a table is full.
    pub fn apply(&mut self, _update: &Update) -> Result<()> {
        Ok(())
    }

    /// Readable when there are reports or control packets.
    #[must_use]
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.reports.as_fd()
    }

    /// Hands over the reports there are. Those about sessions that are gone are left out.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Table`].
    pub fn drain_reports(&self, _sink: &mut dyn FnMut(Report)) -> Result<()> {
        Ok(())
    }

    /// Hands over the packets there are for [`moorline_ilnp::Machine::handle_control`], whole, from the IPv6 header
    /// on. The stack does not see them.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Table`].
    pub fn drain_control(&self, _sink: &mut dyn FnMut(&[u8])) -> Result<()> {
        Ok(())
    }

    /// The best socket of this network namespace for a packet of this protocol between these addresses and ports,
    /// ours first: what [`moorline_ilnp::datapath::Sockets::kind`] asks for.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Control`].
    pub fn socket_kind(&self, _pair: IlvPair, _protocol: u8, _ports: (u16, u16)) -> Result<Socket> {
        Ok(Socket::None)
    }

    /// What the programs dropped, all reasons that are not zero.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Table`].
    pub fn drops(&self) -> Result<Vec<(DropReason, u64)>> {
        Ok(Vec::new())
    }

    /// Ends it: no programs, no marks.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Pins`].
    pub fn close(mut self) -> Result<()> {
        self.detach_all();
        Ok(())
    }
}

impl AsFd for IlnpDatapath {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll_fd()
    }
}
