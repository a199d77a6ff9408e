//! A data plane on a virtual clock, in a network namespace with an interface of 1,500 octets.

use moorline_datapath::Plane as _;
use moorline_datapath::shim6::ContextPlane as _;
use moorline_types::Instant;
use std::fs::File;
use std::net::Ipv6Addr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object, ProgramInput};
use moorline_datapath::shim6::{Report, Triggers, Update};
use rustix::thread::{
    CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_getcpu, sched_setaffinity,
};

use crate::control::{self, Op};
use crate::skel::types;
use crate::tables::{self, Table};
use crate::{Datapath, Result, Settings, load};

pub(crate) const ETHERNET: [u8; 14] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
/// The loopback, which is the first interface of any namespace.
pub(crate) const IFINDEX: u32 = 1;

/// A network namespace that this thread has entered. It ends with the process that holds it.
pub(crate) struct Namespace {
    holder: Child,
    home: File,
}

impl Namespace {
    pub(crate) fn new() -> Self {
        stay_on_this_processor();
        let home = File::open("/proc/thread-self/ns/net").unwrap();
        let script = "ip link set lo mtu 1500 && echo ready && exec sleep 1000";
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", script])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 6];
        std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut said).unwrap();
        assert_eq!(&said, b"ready\n");
        let there = File::open(format!("/proc/{}/ns/net", holder.id())).unwrap();
        move_into_link_name_space(there.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        Self { holder, home }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = move_into_link_name_space(self.home.as_fd(), Some(LinkNameSpaceType::Network));
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Result of a program for a packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) action: i32,
    pub(crate) packet: Vec<u8>,
}

/// Properties of a packet besides its octets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin {
    pub(crate) segments: u32,
    /// Octets in each segment; 0: the packet is no super-packet.
    pub(crate) segment_size: u32,
    pub(crate) cgroup: u32,
    pub(crate) mark: u32,
    /// Interface by which the packet came in; 0: this host has sent it.
    pub(crate) came_by: u32,
}

impl Datapath {
    /// Opens tables that are not pinned, and programs that are not attached.
    pub(crate) fn open_unpinned(settings: &Settings, virtual_clock: bool) -> Result<Self> {
        let object = load::shim6(settings, None, virtual_clock)?;
        Self::over(object, settings, PathBuf::new(), Vec::new())
    }
}

pub(crate) struct Harness {
    pub(crate) plane: Datapath,
    _namespace: Namespace,
}

impl Harness {
    pub(crate) fn new(triggers: &Triggers) -> Self {
        let namespace = Namespace::new();
        // In older kernels (such as 6.1) each processor takes 128 entries of an LRU table for itself, so a smaller
        // table forgets early.
        let triggers = triggers.clone();
        let settings =
            Settings { max_contexts: 64, max_flows: 4096, triggers, ..Settings::default() };
        let plane = Datapath::open_unpinned(&settings, true).unwrap();
        Self { plane, _namespace: namespace }
    }

    /// Resets the harness to its initial state: loading the programs takes longer than most tests.
    pub(crate) fn clear(&mut self, triggers: &Triggers) {
        for entry in self.plane.contexts().unwrap() {
            self.apply(&Update::Remove { context: entry.id });
        }
        for flow in self.plane.tables.flows.keys() {
            self.plane.tables.flows.remove(&flow).unwrap();
        }
        for (local, _) in self.plane.locals().unwrap() {
            self.plane.unset_local(local).unwrap();
        }
        clear_flows(&self.plane.object);
        clear_drops(&self.plane.tables.drops);
        for section in
            [".data.shared", ".data.unknown", ".data.unproven", ".data.budget", ".data.prefixes"]
        {
            let budgets = tables::handle(&self.plane.object, section).unwrap();
            let zeros = vec![0; usize::try_from(budgets.value_size()).unwrap()];
            budgets.update(&0_u32.to_ne_bytes(), &zeros, MapFlags::ANY).unwrap();
        }
        self.reports();
        self.plane.set_triggers(triggers).unwrap();
    }

    pub(crate) fn set_local(&self, address: Ipv6Addr) {
        self.plane.set_local(address, IFINDEX).unwrap();
    }

    /// Sets the time that the programs see, in nanoseconds.
    pub(crate) fn set_now(&self, now: u64) {
        Table::of(&self.plane.object, ".data.clock").unwrap().insert(&0_u32, &now).unwrap();
    }

    pub(crate) fn apply(&mut self, update: &Update) {
        self.plane.apply(update, Instant::ZERO).unwrap();
    }

    /// Looks at the timers of all contexts, in order of their ids.
    pub(crate) fn tick(&self) {
        for entry in self.plane.contexts().unwrap() {
            control::run(&self.plane.object, Op::CONTROL_LOOK, entry.id.0, Instant::ZERO).unwrap();
        }
    }

    pub(crate) fn reports(&self) -> Vec<Report> {
        std::iter::from_fn(|| self.plane.next_report().unwrap()).collect()
    }

    /// Runs a program on an IPv6 packet that has so many segments.
    pub(crate) fn run(&self, program: &'static str, packet: &[u8], segments: u32) -> Outcome {
        self.run_of(program, packet, Origin { segments, ..Origin::default() })
    }

    /// Runs a program on an IPv6 packet with these properties.
    pub(crate) fn run_of(&self, program: &'static str, packet: &[u8], origin: Origin) -> Outcome {
        let frame = [&ETHERNET, packet].concat();
        let mut out = vec![0; frame.len() + 64];
        let mut context = [0; size_of::<types::__sk_buff>()];
        for (offset, value) in [
            (core::mem::offset_of!(types::__sk_buff, gso_segs), origin.segments),
            (core::mem::offset_of!(types::__sk_buff, gso_size), origin.segment_size),
            (core::mem::offset_of!(types::__sk_buff, cb), origin.cgroup),
            (core::mem::offset_of!(types::__sk_buff, mark), origin.mark),
            (core::mem::offset_of!(types::__sk_buff, ingress_ifindex), origin.came_by),
        ] {
            context[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
        }
        let input = ProgramInput {
            context_in: Some(&mut context),
            data_in: Some(&frame),
            data_out: Some(&mut out),
            ..ProgramInput::default()
        };
        let output = load::run(&self.plane.object, program, input).unwrap();
        let frame = output.data.unwrap();
        assert_eq!(frame[..14], ETHERNET, "link layer header changed");
        Outcome { action: output.return_value.cast_signed(), packet: frame[14..].to_vec() }
    }
}

/// Empties the tables of flows.
pub(crate) fn clear_flows(object: &Object) {
    let segments = Table::<u32, types::segment>::of(object, "segments").unwrap();
    for (place, segment) in (0..).zip(segments.all().unwrap()) {
        if segment.flow != 0 {
            segments.insert(&place, &types::segment::default()).unwrap();
        }
    }
    let labels = Table::<u32, types::label>::of(object, "labels").unwrap();
    for (place, label) in (0..).zip(labels.all().unwrap()) {
        if label.flow != 0 {
            labels.insert(&place, &types::label::default()).unwrap();
        }
    }
}

/// Sets all counters of drops to zero.
pub(crate) fn clear_drops(drops: &MapHandle) {
    let zeros = vec![vec![0; 8]; libbpf_rs::num_possible_cpus().unwrap()];
    for reason in 0..drops.max_entries() {
        drops.update_percpu(&reason.to_ne_bytes(), &zeros, MapFlags::ANY).unwrap();
    }
}

/// Keeps the thread on its processor. Each processor learns next hops for itself, so on another one a test would see
/// other actions.
fn stay_on_this_processor() {
    let mut processors = CpuSet::new();
    processors.set(sched_getcpu());
    sched_setaffinity(None, &processors).unwrap();
}
