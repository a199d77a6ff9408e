use std::net::Ipv6Addr;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use libbpf_rs::Object;
use moorline_datapath::Plane;
use moorline_datapath::shim6::{
    ContextCounters, ContextEntry, ContextPlane, PathCounters, Report, Triggers, Update,
};
use moorline_types::{ContextId, DropReason, Instant};

use crate::attach::{self, Attachments, Hook, Place};
use crate::contexts::Contexts;
use crate::control::{self, Op};
use crate::convert;
use crate::error::{Error, Result};
use crate::index;
use crate::load;
use crate::pins;
use crate::qdisc;
use crate::reports;
use crate::rings::Rings;
use crate::settings::{AttachMode, Settings};
use crate::skel::types;
use crate::tables::{self, Tables};

/// The loaded programs and their tables.
///
/// When this value is dropped, or the process is killed, programs and tables stay at work, for the next
/// [`Datapath::open`] to take over. [`Datapath::close`] ends them.
pub struct Datapath {
    pub(crate) object: Object,
    pub(crate) tables: Tables,
    reports: Rings,
    pub(crate) contexts: Contexts,
    attachments: Attachments,
    pin_dir: PathBuf,
    /// Folders of pins of an earlier process that this process cannot take over.
    stale: Vec<PathBuf>,
}

impl Datapath {
    /// Loads the programs, or loads new programs over the tables that an earlier process pinned.
    ///
    /// Programs of another version or size, with the contexts in their tables, stay at work beside these until
    /// [`Datapath::remove_stale`]. After a takeover, the caller should compare [`Datapath::contexts`],
    /// [`Datapath::locals`] and [`Datapath::attached_before`] with its own state, and remove entries that no longer
    /// hold: until then all of them are in force.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Load`] if the privileges or the kernel do not suffice; [`crate::Error::Pins`] if the pin
    /// folder cannot be made.
    pub fn open(settings: &Settings) -> Result<Self> {
        let (pins, mut stale) = pins::prepare(&settings.pin_dir)?;
        let object = load_over(settings, &pins, &mut stale)?;
        Self::over(object, settings, pins, stale)
    }

    pub(crate) fn over(
        object: Object,
        settings: &Settings,
        pins: PathBuf,
        stale: Vec<PathBuf>,
    ) -> Result<Self> {
        let tables = Tables::of(&object)?;
        let datapath = Self {
            reports: Rings::new(&object, &["reports"])?,
            contexts: Contexts::found_in(&object, index::buckets(load::contexts(settings)))?,
            attachments: Attachments::new(settings.attach, Place::Last, pins),
            pin_dir: settings.pin_dir.clone(),
            stale,
            object,
            tables,
        };
        datapath.write_triggers(&settings.triggers)?;
        datapath.change_settings(|old| convert::with_path_mark(&old, settings.path_mark))?;
        // The table was pinned, but not the word that tells whether it has entries.
        datapath.forget_bound()?;
        Ok(datapath)
    }

    /// Puts all rules in force at once.
    fn write_triggers(&self, triggers: &Triggers) -> Result<()> {
        // The rules go into the half that is not in force.
        let half = convert::MAX_RULES;
        let first = if self.settings()?.first_rule == 0 { half } else { 0 };
        for (index, rule) in (u32::from(first)..).zip(triggers.rules()) {
            self.tables.rules.insert(&index, &convert::rule(rule))?;
        }
        self.change_settings(|old| convert::settings(triggers, first, &old))
    }

    fn settings(&self) -> Result<types::settings> {
        Ok(self.tables.settings.lookup(&0)?.unwrap_or_default())
    }

    fn change_settings(
        &self,
        change: impl FnOnce(types::settings) -> types::settings,
    ) -> Result<()> {
        self.tables.settings.insert(&0, &change(self.settings()?))
    }

    /// Attaches the programs to an uplink.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Attach`].
    pub fn attach_uplink(&mut self, ifindex: u32) -> Result<()> {
        let ethernet = ["uplink_ingress", "uplink_egress"];
        let bare = ["uplink_ingress_l3", "uplink_egress_l3"];
        self.attachments.attach_uplink(&self.object, ifindex, ethernet, bare)
    }

    /// Detaches the programs from an uplink; no error if there are none.
    pub fn detach_uplink(&mut self, ifindex: u32) {
        self.attachments.detach(ifindex);
    }

    /// Attaches the programs to the segmentation path: to `moor0`, for packets that need no segmenting, and to
    /// `moor1`, where the segments of the kernel come out. If the kernel `gathers` in the other direction (GRO on
    /// `moor0`), received TCP segments without their header go there, and return to their uplink merged.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Attach`], [`crate::Error::Table`].
    pub fn attach_moor(&mut self, moor0: u32, moor1: u32, gathers: bool) -> Result<()> {
        self.attachments.attach(&self.object, "moor_ingress", moor1, Hook::Ingress)?;
        self.attachments.attach(&self.object, "moor_egress", moor0, Hook::Egress)?;
        self.attachments.attach(&self.object, "moor_gathered", moor0, Hook::Ingress)?;
        let gather = if gathers { moor1 } else { 0 };
        self.change_settings(|old| types::settings { gather, segment: moor0, ..old })
    }

    /// Interfaces to which an earlier process attached programs: attach to them again, or detach them.
    #[must_use]
    pub fn attached_before(&self) -> Vec<u32> {
        self.attachments.pinned()
    }

    /// Sets an address of this host, and the uplink by which packets from it leave.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Table`].
    pub fn set_local(&self, address: Ipv6Addr, ifindex: u32) -> Result<()> {
        self.tables.locals.insert(&convert::address(address.octets()), &ifindex)?;
        self.forget_locals()
    }

    /// Removes an address that the host no longer has.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Table`].
    pub fn unset_local(&self, address: Ipv6Addr) -> Result<()> {
        self.tables.locals.remove(&convert::address(address.octets()))?;
        self.forget_locals()
    }

    /// Forgets bound sockets of addresses that the host no longer has.
    pub(crate) fn forget_bound(&self) -> Result<()> {
        let locals = &self.tables.locals;
        self.tables.bound.retain(|address| Ok(locals.lookup(address)?.is_some()))
    }

    /// Makes the programs discard what they have cached about addresses.
    fn forget_locals(&self) -> Result<()> {
        let next = |locals: u32| locals.checked_add(1).unwrap_or(1);
        self.change_settings(|old| types::settings { locals: next(old.locals), ..old })
    }

    /// All addresses that are set, with those of an earlier process.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Table`].
    pub fn locals(&self) -> Result<Vec<(Ipv6Addr, u32)>> {
        let mut locals = Vec::new();
        for key in self.tables.locals.keys() {
            if let Some(ifindex) = self.tables.locals.lookup(&key)? {
                locals.push((Ipv6Addr::from(convert::octets(key)), ifindex));
            }
        }
        locals.sort_unstable();
        Ok(locals)
    }

    /// Detaches the programs of another version or size that an earlier process left, and removes their tables. Call
    /// it once the tables here have the contexts.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Pins`].
    pub fn remove_stale(&mut self) -> Result<()> {
        let ours = self.attachments.pins();
        self.stale.iter().try_for_each(|stale| pins::remove_stale(stale, ours))?;
        self.stale.clear();
        Ok(())
    }

    /// Makes traffic without a context count from zero. Traffic that the programs reported to an earlier process is
    /// then reported again.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Table`].
    pub fn forget_traffic(&self) -> Result<()> {
        let pairs = self.tables.flows.keys();
        pairs.iter().try_for_each(|pair| self.tables.flows.remove(pair))
    }

    /// Contexts in the tables: after [`Datapath::open`], those of the earlier process.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Table`].
    pub fn contexts(&self) -> Result<Vec<ContextEntry>> {
        self.contexts.entries()
    }

    /// Contexts of the earlier process that no update has taken over or removed.
    pub fn contexts_left(&self) -> impl Iterator<Item = ContextId> + '_ {
        self.contexts.left()
    }

    /// Descriptor that is readable when there are reports.
    #[must_use]
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.reports.fd()
    }

    /// Returns the next report. Skips reports about contexts that are gone.
    pub(crate) fn next_report(&self) -> Result<Option<Report>> {
        while let Some(raw) = self.reports.next::<types::report>(0)? {
            let Some(report) = reports::report(&raw) else { continue };
            if matches!(report, Report::Trigger { .. })
                || self.contexts.is_current(raw.slot, raw.generation)?
            {
                return Ok(Some(report));
            }
        }
        Ok(None)
    }

    /// Kind of hook in use: `tcx`, `tc`, or `auto` until the first program is attached.
    #[must_use]
    pub fn mode(&self) -> &'static str {
        match self.attachments.mode() {
            AttachMode::Auto => "auto",
            AttachMode::Tcx => "tcx",
            AttachMode::Tc => "tc",
        }
    }

    /// Detaches all programs from all interfaces; tables stay.
    pub fn detach_all(&mut self) {
        self.attachments.detach_all();
    }

    /// Ends the data plane: removes all programs and pins.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Pins`].
    pub fn close(mut self) -> Result<()> {
        self.detach_all();
        Self::remove_pins(&self.pin_dir)
    }

    /// Makes the folder for pins, and mounts a bpffs if there is none.
    ///
    /// # Errors
    /// The system refuses the folder or the mount, most often because this process is not root.
    pub fn make_pin_dir(pin_dir: &Path) -> Result<()> {
        pins::ensure_bpffs(pin_dir)
    }

    /// Undoes [`Self::make_pin_dir`]. A folder with pins in it stays.
    ///
    /// # Errors
    /// The bpffs that was mounted for the folder cannot be unmounted.
    pub fn remove_pin_dir(pin_dir: &Path) -> Result<()> {
        if pins::folders(pin_dir)?.is_empty() { pins::remove_root(pin_dir) } else { Ok(()) }
    }

    /// Whether the tables outlive a crash for the next process: their pins exist.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        pins::has_tables(self.attachments.pins())
    }

    /// Whether an earlier process has left programs and tables in the folder.
    #[must_use]
    pub fn has_pins(pin_dir: &Path) -> bool {
        pins::folders(pin_dir).is_ok_and(|all| all.iter().any(|folder| pins::has_tables(folder)))
    }

    /// Detaches and removes everything that a process pinned in the folder: for `moorline down`.
    ///
    /// Programs of classic tc are found only in the network namespace of the caller.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Pins`].
    pub fn remove_pins(pin_dir: &Path) -> Result<()> {
        for folder in pins::folders(pin_dir)? {
            attach::detach_pinned(&folder);
            pins::remove_tree(&folder)?;
        }
        qdisc::forget_marked(pin_dir);
        pins::remove_root(pin_dir)
    }
}

impl Plane for Datapath {
    type Update = Update;
    type Report = Report;
    type Error = Error;

    fn apply(&mut self, update: &Update, _now: Instant) -> Result<()> {
        match update {
            Update::Upsert(entry) => self.contexts.upsert(&self.tables, &self.object, entry),
            Update::Heard { context, at } => {
                control::run(&self.object, Op::CONTROL_HEARD, context.0, *at)
            }
            Update::Remove { context } => {
                self.contexts.remove(&self.tables, &self.object, *context)
            }
            Update::Rearm { ulids } => self.tables.flows.remove(&convert::ulids(*ulids)),
        }
    }

    fn poll_report(&mut self) -> Result<Option<Report>> {
        self.next_report()
    }

    fn drops(&self) -> Result<Vec<(DropReason, u64)>> {
        tables::drops(&self.tables.drops)
    }
}

impl ContextPlane for Datapath {
    fn set_triggers(&mut self, triggers: &Triggers) -> Result<()> {
        self.write_triggers(triggers)
    }

    fn counters(&self, context: ContextId) -> Result<ContextCounters> {
        let live = self.tables.lives.lookup(&context.0)?.unwrap_or_default();
        Ok(ContextCounters {
            tx_packets: live.tx_packets,
            tx_bytes: live.tx_bytes,
            rx_packets: live.rx_packets,
            rx_bytes: live.rx_bytes,
            last_tx: Instant::from_nanos(live.last_tx),
            last_rx: Instant::from_nanos(live.last_rx),
        })
    }

    fn path_counters(&self, context: ContextId) -> Result<Option<PathCounters>> {
        let congestion = self.contexts.congestions.lookup(&context.0)?;
        Ok(congestion.as_ref().map(convert::path_counters))
    }
}

/// Loads over pinned tables. If they do not fit, sets them aside and makes new ones.
fn load_over(settings: &Settings, pins: &Path, stale: &mut Vec<PathBuf>) -> Result<Object> {
    load::shim6(settings, Some(pins), false).or_else(|error| {
        tracing::info!(%error, "pinned tables do not fit: making others");
        let aside = pins::set_aside(pins)?;
        stale.retain(|folder| *folder != aside);
        stale.push(aside);
        load::shim6(settings, Some(pins), false)
    })
}
