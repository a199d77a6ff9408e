//! Attaches programs to interfaces: by tcx links, or as filters of classic tc.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use libbpf_rs::query::{LinkInfo, LinkTypeInfo, TcxLinkInfo};
use libbpf_rs::{
    AsRawLibbpf, ErrorKind, Link, Object, Program, ProgramAttachType, TC_EGRESS, TC_INGRESS,
    TcHook, TcHookBuilder,
};
use moorline_link::has_link_layer;

use crate::error::{Error, Result};
use crate::load::program;
use crate::pins;
use crate::qdisc;
use crate::settings::AttachMode;

/// Handle and priorities of our filters on classic tc. Filters of others hardly have them.
const TC_HANDLE: u32 = 0x4d;
/// Number of links on a hook of an interface for which the kernel has room (`BPF_MPROG_MAX`).
const MAX_LINKS: u32 = 64;
const TC_PRIORITY: u32 = 0x4d6f;
const TC_PRIORITY_FIRST: u32 = TC_PRIORITY - 1;

/// Place of a program among those on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In front of all others.
    First,
    /// Behind all others.
    Last,
}

/// Direction at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hook {
    Ingress,
    Egress,
}

impl Hook {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        }
    }
}

impl Place {
    /// Name of the hook in names of marks.
    const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Last => "filter",
        }
    }

    const fn priority(self) -> u32 {
        match self {
            Self::First => TC_PRIORITY_FIRST,
            Self::Last => TC_PRIORITY,
        }
    }
}

/// The attached programs, and their kind of attachment.
pub(crate) struct Attachments {
    mode: AttachMode,
    place: Place,
    /// Folder in which links are pinned and filters are marked.
    pins: PathBuf,
    held: Vec<(u32, Hook, Held)>,
}

enum Held {
    Link(Link),
    Filter,
}

impl Attachments {
    pub(crate) fn new(mode: AttachMode, place: Place, pins: PathBuf) -> Self {
        Self { mode, place, pins, held: Vec::new() }
    }

    /// Kind of hook in use, once a program is attached.
    pub(crate) fn mode(&self) -> AttachMode {
        self.mode
    }

    /// Attaches a program, or replaces the one that an earlier process attached.
    pub(crate) fn attach(
        &mut self,
        object: &Object,
        name: &'static str,
        ifindex: u32,
        hook: Hook,
    ) -> Result<()> {
        let program = program(object, name)?;
        self.held.retain(|(other, at, _)| (*other, *at) != (ifindex, hook));
        let held = match self.mode {
            AttachMode::Tcx => self.attach_tcx(&program, ifindex, hook),
            AttachMode::Tc => self.attach_tc(&program, ifindex, hook),
            AttachMode::Auto => self.attach_auto(&program, ifindex, hook),
        }?;
        self.take_off_other(ifindex, hook, &held);
        self.held.push((ifindex, hook, held));
        Ok(())
    }

    /// Attaches programs to an uplink, one for each direction: the `ethernet` ones, or the `bare` ones if packets
    /// have no link layer header.
    pub(crate) fn attach_uplink(
        &mut self,
        object: &Object,
        ifindex: u32,
        ethernet: [&'static str; 2],
        bare: [&'static str; 2],
    ) -> Result<()> {
        let has_link_layer = has_link_layer(ifindex);
        let has_link_layer =
            has_link_layer.map_err(|source| failed("find", ifindex, source.into()))?;
        let [ingress, egress] = if has_link_layer { ethernet } else { bare };
        self.attach(object, ingress, ifindex, Hook::Ingress)?;
        self.attach(object, egress, ifindex, Hook::Egress)
    }

    /// Detaches the program that an earlier process attached there by the other kind of hook.
    fn take_off_other(&mut self, ifindex: u32, hook: Hook, held: &Held) {
        let other = match held {
            Held::Link(_) => self.filter_path(ifindex, hook),
            Held::Filter => link_path(&self.pins, ifindex, hook),
        };
        if other.exists() {
            detach(mark(other).into_iter());
            qdisc::leave_marked(&self.pins, |other| other == ifindex);
        }
    }

    /// Attaches by tcx. If this kernel has no tcx, uses classic tc from now on.
    fn attach_auto(&mut self, program: &Program<'_>, ifindex: u32, hook: Hook) -> Result<Held> {
        match self.attach_tcx(program, ifindex, hook) {
            Ok(held) => {
                self.mode = AttachMode::Tcx;
                Ok(held)
            }
            Err(Error::Attach { source, .. })
                if matches!(source.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) =>
            {
                let held = self.attach_tc(program, ifindex, hook)?;
                self.mode = AttachMode::Tc;
                tracing::info!("no tcx in this kernel: classic tc");
                Ok(held)
            }
            Err(error) => Err(error),
        }
    }

    fn attach_tcx(&self, program: &Program<'_>, ifindex: u32, hook: Hook) -> Result<Held> {
        let pin = link_path(&self.pins, ifindex, hook);
        if let Some(link) = take_over(&pin, program, ifindex) {
            return Ok(Held::Link(link));
        }
        let mut link = link_tcx(program, ifindex, self.place)
            .map_err(|source| failed("attach to", ifindex, source))?;
        // Somebody may have removed the folder.
        pins::create(&self.pins)?;
        link.pin(pin).map_err(|source| failed("pin the link of", ifindex, source))?;
        Ok(Held::Link(link))
    }

    fn attach_tc(&self, program: &Program<'_>, ifindex: u32, hook: Hook) -> Result<Held> {
        let mut filter = tc_hook(program.as_fd(), ifindex, hook, self.place);
        qdisc::ensure(&self.pins, ifindex)?;
        // The mark comes before the filter: a filter without a mark would not be found again.
        pins::create(&self.filter_path(ifindex, hook))?;
        filter.attach().map_err(|source| failed("attach to", ifindex, source))?;
        Ok(Held::Filter)
    }

    /// Path of the mark of a filter.
    fn filter_path(&self, ifindex: u32, hook: Hook) -> PathBuf {
        self.pins.join(format!("{}-{ifindex}-{}", self.place.as_str(), hook.as_str()))
    }

    /// Detaches our programs from the interface. No error if there are none, or if the interface is gone.
    pub(crate) fn detach(&mut self, ifindex: u32) {
        for (_, hook, held) in self.held.extract_if(.., |(other, _, _)| *other == ifindex) {
            match held {
                Held::Link(link) => {
                    let _ = link.detach();
                }
                Held::Filter => remove_filter(ifindex, hook, self.place),
            }
        }
        detach_marked(&self.pins, |other| other == ifindex);
        qdisc::leave_marked(&self.pins, |other| other == ifindex);
    }

    /// Detaches our programs from every interface, also those of an earlier process.
    pub(crate) fn detach_all(&mut self) {
        let mut all: Vec<u32> = self.held.iter().map(|(ifindex, _, _)| *ifindex).collect();
        all.dedup();
        for ifindex in all {
            self.detach(ifindex);
        }
        detach_pinned(&self.pins);
    }

    /// Folder of links and marks.
    pub(crate) fn pins(&self) -> &Path {
        &self.pins
    }

    /// Interfaces to which an earlier process attached programs.
    pub(crate) fn pinned(&self) -> Vec<u32> {
        let mut all: Vec<u32> = marks(&self.pins).iter().map(|mark| mark.ifindex).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

fn failed(action: &'static str, ifindex: u32, source: libbpf_rs::Error) -> Error {
    Error::Attach { action, ifindex, source }
}

/// Makes a tcx link. This is the only call that libbpf-rs does not wrap.
fn link_tcx(program: &Program<'_>, ifindex: u32, place: Place) -> libbpf_rs::Result<Link> {
    let ifindex =
        i32::try_from(ifindex).map_err(|_| libbpf_rs::Error::from_raw_os_error(libc::EINVAL))?;
    let options = libbpf_rs::libbpf_sys::bpf_tcx_opts {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_tcx_opts>() as _,
        // A flag without a reference program: before or behind all others.
        flags: match place {
            Place::First => libbpf_rs::libbpf_sys::BPF_F_BEFORE,
            Place::Last => 0,
        },
        ..Default::default()
    };
    // SAFETY: the program is loaded and lives for the call, as do the options. The result is a link of our own,
    // or null with errno set.
    let link = unsafe {
        libbpf_rs::libbpf_sys::bpf_program__attach_tcx(
            program.as_libbpf_object().as_ptr(),
            ifindex,
            &raw const options,
        )
    };
    let link = core::ptr::NonNull::new(link).ok_or_else(std::io::Error::last_os_error)?;
    // SAFETY: just made, not used by anyone else.
    Ok(unsafe { Link::from_ptr(link) })
}

/// Puts our program into the link that an earlier process left, so that at each moment a program sees the packets.
fn take_over(pin: &Path, program: &Program<'_>, ifindex: u32) -> Option<Link> {
    if !pin.exists() {
        return None;
    }
    let replaced = Link::open(pin).and_then(|mut link| {
        // The interface of that index may be another one by now, or one of another network namespace.
        let LinkInfo { info, id, .. } = link.info()?;
        let LinkTypeInfo::Tcx(TcxLinkInfo { ifindex: at, attach_type, .. }) = info else {
            return Err(libbpf_rs::Error::from_raw_os_error(libc::ENODEV));
        };
        if at != ifindex || !is_on(ifindex, attach_type, id) {
            return Err(libbpf_rs::Error::from_raw_os_error(libc::ENODEV));
        }
        link.update_prog(program)?;
        Ok(link)
    });
    replaced
        .inspect_err(|error| {
            tracing::debug!(%error, ifindex, "stale link");
            let _ = fs::remove_file(pin);
        })
        .ok()
}

/// Whether a link is on this interface of this network namespace.
fn is_on(ifindex: u32, hook: ProgramAttachType, link: u32) -> bool {
    let Ok(ifindex) = i32::try_from(ifindex) else { return false };
    let (mut programs, mut links) = ([0_u32; MAX_LINKS as usize], [0_u32; MAX_LINKS as usize]);
    let mut options = libbpf_rs::libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_prog_query_opts>() as _,
        prog_ids: programs.as_mut_ptr(),
        link_ids: links.as_mut_ptr(),
        ..Default::default()
    };
    options.__bindgen_anon_1.count = MAX_LINKS;
    // SAFETY: the options and both arrays, whose length they tell, live for the call.
    let outcome = unsafe {
        libbpf_rs::libbpf_sys::bpf_prog_query_opts(ifindex, hook as u32, &raw mut options)
    };
    // If the kernel cannot list links, the existing link is kept.
    outcome != 0 || links.contains(&link)
}

fn link_path(pins: &Path, ifindex: u32, hook: Hook) -> PathBuf {
    pins.join(format!("link-{ifindex}-{}", hook.as_str()))
}

fn tc_hook(fd: std::os::fd::BorrowedFd<'_>, ifindex: u32, hook: Hook, place: Place) -> TcHook {
    let mut builder = TcHookBuilder::new(fd);
    builder.ifindex(i32::try_from(ifindex).unwrap_or(0)).replace(true).handle(TC_HANDLE);
    builder.priority(place.priority()).hook(match hook {
        Hook::Ingress => TC_INGRESS,
        Hook::Egress => TC_EGRESS,
    })
}

fn remove_filter(ifindex: u32, hook: Hook, place: Place) {
    // The call requires a descriptor, and does not use it.
    if let Ok(any) = File::open("/dev/null") {
        let _ = tc_hook(any.as_fd(), ifindex, hook, place).detach();
    }
}

/// A pin or folder that marks an attachment.
struct Mark {
    path: PathBuf,
    kind: MarkKind,
    ifindex: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MarkKind {
    Link,
    Filter(Hook, Place),
}

fn marks(pins: &Path) -> Vec<Mark> {
    let entries = fs::read_dir(pins).into_iter().flatten().flatten();
    entries.filter_map(|entry| mark(entry.path())).collect()
}

fn mark(path: PathBuf) -> Option<Mark> {
    let mut words = path.file_name()?.to_str()?.split('-');
    let kind = words.next()?;
    let ifindex = words.next()?.parse().ok()?;
    let hook = words.next()?;
    let hook = [Hook::Ingress, Hook::Egress].into_iter().find(|one| one.as_str() == hook)?;
    let place = || [Place::First, Place::Last].into_iter().find(|one| one.as_str() == kind);
    let kind = if kind == "link" { MarkKind::Link } else { MarkKind::Filter(hook, place()?) };
    Some(Mark { path, kind, ifindex })
}

/// Undoes all attachments that are marked in the folder.
pub(crate) fn detach_pinned(pins: &Path) {
    detach_marked(pins, |_| true);
    qdisc::leave_marked(pins, |_| true);
}

/// Undoes the attachments that are marked in the folder of another layout, except filters that those in `ours` have
/// replaced.
pub(crate) fn detach_replaced(pins: &Path, ours: &Path) {
    let ours = marks(ours);
    let is_replaced = |mark: &Mark| {
        mark.kind != MarkKind::Link
            && ours.iter().any(|own| own.kind == mark.kind && own.ifindex == mark.ifindex)
    };
    detach(marks(pins).into_iter().filter(|mark| !is_replaced(mark)));
    qdisc::leave_marked(pins, |_| true);
}

fn detach_marked(pins: &Path, wanted: impl Fn(u32) -> bool) {
    detach(marks(pins).into_iter().filter(|mark| wanted(mark.ifindex)));
}

fn detach(marks: impl Iterator<Item = Mark>) {
    for mark in marks {
        match mark.kind {
            MarkKind::Link => {
                if let Ok(link) = Link::open(&mark.path) {
                    let _ = link.detach();
                }
                let _ = fs::remove_file(&mark.path);
                continue;
            }
            MarkKind::Filter(hook, place) => remove_filter(mark.ifindex, hook, place),
        }
        let _ = fs::remove_dir(&mark.path);
    }
}
