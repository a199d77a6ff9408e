use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use libbpf_rs::{MapHandle, Object, ProgramInput};
use moorline_datapath::Plane;
use moorline_datapath::ilnp::{Report, Socket, Update};
use moorline_types::{DropReason, IlvPair, Instant, L64, Nid};
use moorline_wire::ip6::packet;

use crate::attach::{self, Attachments, Hook, Place};
use crate::error::{Error, Result};
use crate::ilnp::convert;
use crate::ilnp::sessions::Sessions;
use crate::ilnp::settings::IlnpSettings;
use crate::load;
use crate::pins;
use crate::rings::Rings;
use crate::skel::ilnp::types;
use crate::tables::{self, Table};

/// The loaded programs and their tables.
///
/// When this value is dropped, the programs stay on their interfaces, with the tables as they are then, until
/// [`IlnpDatapath::close`], or until another process attaches its own programs in their place.
pub struct IlnpDatapath {
    pub(crate) object: Object,
    pub(crate) sessions: Sessions,
    uplinks: Table<u64, u32>,
    own_nids: Table<u64, u8>,
    nids: BTreeSet<Nid>,
    drops: MapHandle,
    rings: Rings,
    attachments: Attachments,
}

impl IlnpDatapath {
    /// Loads the programs.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Load`] if the privileges or the kernel do not suffice.
    pub fn open(settings: &IlnpSettings) -> Result<Self> {
        let pins = pins::of_ilnp(&settings.pin_dir);
        pins::create(&pins)?;
        Self::open_with(settings, pins, false)
    }

    /// Loads the programs, and pins attachments in this folder.
    pub(crate) fn open_with(
        settings: &IlnpSettings,
        pins: PathBuf,
        virtual_clock: bool,
    ) -> Result<Self> {
        let object = load::ilnp(settings, virtual_clock)?;
        Ok(Self {
            sessions: Sessions::new(&object)?,
            uplinks: Table::of(&object, "uplinks")?,
            own_nids: Table::of(&object, "own_nids")?,
            nids: BTreeSet::new(),
            drops: tables::handle(&object, "drops")?,
            rings: Rings::new(&object, &["reports", "controls"])?,
            attachments: Attachments::new(settings.attach, Place::First, pins),
            object,
        })
    }

    /// Attaches the programs to an uplink, in front of those of Shim6.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Attach`].
    pub fn attach_uplink(&mut self, ifindex: u32) -> Result<()> {
        let ethernet = ["ilnp_ingress", "ilnp_egress"];
        let bare = ["ilnp_ingress_l3", "ilnp_egress_l3"];
        self.attachments.attach_uplink(&self.object, ifindex, ethernet, bare)
    }

    /// Detaches the programs from an uplink; no error if there are none.
    pub fn detach_uplink(&mut self, ifindex: u32) {
        self.attachments.detach(ifindex);
    }

    /// Attaches the programs to the segmentation path, which packets of moved sessions take too. Super-packets of TCP
    /// leave it whole at `moor0`; only those of UDP are segmented.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Attach`].
    pub fn attach_moor(&mut self, moor0: u32, moor1: u32) -> Result<()> {
        self.attachments.attach(&self.object, "ilnp_moor_ingress", moor1, Hook::Ingress)?;
        self.attachments.attach(&self.object, "ilnp_moor_egress", moor0, Hook::Egress)?;
        self.sessions.set_segment(moor0)
    }

    /// Interfaces to which an earlier process attached programs: attach to them again, or detach them.
    #[must_use]
    pub fn attached_before(&self) -> Vec<u32> {
        self.attachments.pinned()
    }

    /// Detaches the programs of an earlier process: for a process without ILNP.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Pins`].
    pub fn remove_left(pin_dir: &Path) -> Result<()> {
        let left = pins::of_ilnp(pin_dir);
        attach::detach_pinned(&left);
        pins::remove_tree(&left)
    }

    /// Sets the identifiers of this host, with those that only sessions still have. The programs ignore options and
    /// control messages in packets for other identifiers: the host forwards these packets.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Table`].
    pub fn set_nids(&mut self, nids: &BTreeSet<Nid>) -> Result<()> {
        for nid in nids.difference(&self.nids) {
            self.own_nids.insert(&convert::nid(*nid), &1)?;
        }
        for nid in self.nids.difference(nids) {
            self.own_nids.remove(&convert::nid(*nid))?;
        }
        if self.nids == *nids {
            return Ok(());
        }
        self.nids.clone_from(nids);
        self.sessions.note_change()
    }

    /// Sets the uplink by which packets with this source locator leave.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Table`].
    pub fn set_locator(&mut self, l64: L64, ifindex: u32) -> Result<()> {
        self.uplinks.insert(&convert::l64(l64), &ifindex)?;
        self.sessions.note_change()
    }

    /// Removes a locator that no uplink has.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Table`].
    pub fn unset_locator(&mut self, l64: L64) -> Result<()> {
        self.uplinks.remove(&convert::l64(l64))?;
        self.sessions.note_change()
    }

    /// Number of sessions in the tables.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Descriptor that is readable when there are reports or control packets.
    #[must_use]
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.rings.fd()
    }

    /// Returns the next report. Skips reports about sessions that are gone.
    pub(crate) fn next_report(&self) -> Result<Option<Report>> {
        while let Some(raw) = self.rings.next::<types::ilnp_report>(REPORTS)? {
            let Some(report) = convert::report(&raw) else { continue };
            if matches!(report, Report::Candidate { .. })
                || self.sessions.is_current(raw.slot, raw.generation)
            {
                return Ok(Some(report));
            }
        }
        Ok(None)
    }

    /// Gives a batch of the packets for the machine of the sessions to `sink`, each whole, from its IPv6 header on.
    /// The stack does not get these packets. Returns whether there may be more; [`Self::poll_fd`] does not signal
    /// these again.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Table`].
    pub fn drain_control(&self, sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        for _ in 0..CONTROLS_AT_ONCE {
            let next = self.rings.next::<types::ilnp_control>(CONTROLS)?;
            let Some(control) = next else { return Ok(false) };
            control.octet.get(..control.len as usize).into_iter().for_each(&mut *sink);
        }
        Ok(true)
    }

    /// Returns the best kind of socket in this network namespace for a packet of this protocol between these
    /// addresses and ports, ours first: the answer of [`moorline_datapath::ilnp::Sockets::kind`]. Takes some
    /// microseconds.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Control`].
    pub fn socket_kind(&self, pair: IlvPair, protocol: u8, ports: (u16, u16)) -> Result<Socket> {
        self.socket_of(pair, protocol, ports).map(convert::socket)
    }

    /// The kind of socket as the programs encode it: `enum ilnp_socket`.
    pub(crate) fn socket_of(&self, pair: IlvPair, protocol: u8, ports: (u16, u16)) -> Result<u32> {
        let frame = arriving(pair, protocol, ports);
        let input = ProgramInput { data_in: Some(&frame), ..ProgramInput::default() };
        let output = load::run(&self.object, "ilnp_socket", input)?;
        Ok(output.return_value)
    }

    /// Ends the data plane: removes all programs and marks.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Pins`].
    pub fn close(mut self) -> Result<()> {
        self.attachments.detach_all();
        pins::remove_tree(self.attachments.pins())
    }
}

impl Plane for IlnpDatapath {
    type Update = Update;
    type Report = Report;
    type Error = Error;

    fn apply(&mut self, update: &Update, _now: Instant) -> Result<()> {
        match update {
            Update::Upsert(entry) => self.sessions.upsert(entry),
            Update::Remove { session } => self.sessions.remove(*session),
        }
    }

    fn poll_report(&mut self) -> Result<Option<Report>> {
        self.next_report()
    }

    fn drops(&self) -> Result<Vec<(DropReason, u64)>> {
        tables::drops(&self.drops)
    }
}

/// The part of a received Ethernet frame that a look for its socket reads.
fn arriving(pair: IlvPair, protocol: u8, (local, remote): (u16, u16)) -> Vec<u8> {
    let ports = u32::from(remote) << 16 | u32::from(local);
    let upper = [&ports.to_be_bytes()[..], &[0; 16]].concat();
    let packet = packet(protocol, pair.remote.address(), pair.local.address(), &upper);
    [&[0; 12], &0x86dd_u16.to_be_bytes()[..], &packet].concat()
}

/// Numbers of the rings, in the order in which they are opened.
const REPORTS: u32 = 0;
const CONTROLS: u32 = 1;
/// Number of packets in a batch. Each may cost a look for a socket and a packet to send.
pub(super) const CONTROLS_AT_ONCE: u32 = 64;
