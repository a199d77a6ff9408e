//! The clsact qdiscs for filters of classic tc. We remove a qdisc only if we made it and nobody else has put filters
//! on it.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use libbpf_rs::{
    TC_EGRESS, TC_H_CLSACT, TC_H_MIN_EGRESS, TC_H_MIN_INGRESS, TC_INGRESS, TcHook, TcHookBuilder,
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType};

use crate::error::{Error, Result};
use crate::pins;

/// Makes a qdisc where there is none. The mark is made first, so that the qdisc is found again in any case. The mark
/// is in the folder of these pins, which the programs of Shim6 and of ILNP share.
pub(crate) fn ensure(pins: &Path, ifindex: u32) -> Result<()> {
    let failed = |source| Error::Attach { action: "add a clsact qdisc to", ifindex, source };
    if is_there(ifindex).map_err(|error| failed(error.into()))? {
        return Ok(());
    }
    pins::create(&mark(shared(pins), ifindex))?;
    make(ifindex).map_err(failed)
}

/// Removes the qdiscs that are marked for these pins, if no filters are on them. So the last of Shim6 and ILNP
/// removes the qdisc.
pub(crate) fn leave_marked(pins: &Path, wanted: impl Fn(u32) -> bool) {
    leave_in(shared(pins), wanted);
}

fn leave_in(folder: &Path, wanted: impl Fn(u32) -> bool) {
    for ifindex in marked(folder).into_iter().filter(|ifindex| wanted(*ifindex)) {
        if leave(ifindex) {
            let _ = fs::remove_dir(mark(folder, ifindex));
        }
    }
}

/// Removes all qdiscs that are marked in the folder. A qdisc with filters of others stays, without its mark.
pub(crate) fn forget_marked(folder: &Path) {
    leave_in(folder, |_| true);
    for ifindex in marked(folder) {
        let _ = fs::remove_dir(mark(folder, ifindex));
    }
}

fn shared(pins: &Path) -> &Path {
    pins.parent().unwrap_or(pins)
}

fn mark(folder: &Path, ifindex: u32) -> PathBuf {
    folder.join(format!("{PREFIX}{ifindex}"))
}

fn marked(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let read = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix(PREFIX)?.parse().ok();
    entries.filter_map(read).collect()
}

/// Removes a qdisc without filters. True if it is gone.
fn leave(ifindex: u32) -> bool {
    match has_filters(ifindex) {
        Ok(true) => false,
        Ok(false) => {
            let _ = remove(ifindex);
            true
        }
        Err(error) => {
            tracing::debug!(%error, ifindex, "filters on a qdisc of ours");
            false
        }
    }
}

fn make(ifindex: u32) -> libbpf_rs::Result<()> {
    both_hooks(File::open(ANY)?.as_fd(), ifindex).create().map(drop)
}

fn remove(ifindex: u32) -> libbpf_rs::Result<()> {
    both_hooks(File::open(ANY)?.as_fd(), ifindex).destroy()
}

fn both_hooks(any: BorrowedFd<'_>, ifindex: u32) -> TcHook {
    let mut builder = TcHookBuilder::new(any);
    builder.ifindex(i32::try_from(ifindex).unwrap_or(0)).hook(TC_INGRESS | TC_EGRESS)
}

fn is_there(ifindex: u32) -> io::Result<bool> {
    match ask(libc::RTM_GETQDISC, ACK, [ifindex, TC_H_CLSACT & MAJOR, 0]) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether there are any filters in either direction, ours or others'.
fn has_filters(ifindex: u32) -> io::Result<bool> {
    for direction in [TC_H_MIN_INGRESS, TC_H_MIN_EGRESS] {
        let parent = TC_H_CLSACT & MAJOR | direction;
        if ask(libc::RTM_GETTFILTER, DUMP, [ifindex, 0, parent])? == libc::RTM_NEWTFILTER {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Asks the kernel about an interface, a handle and a parent. Returns the kind of the first message of the answer.
fn ask(kind: u16, flags: u16, about: [u32; 3]) -> io::Result<u16> {
    // Protocol NETLINK_ROUTE.
    let socket = rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    rustix::net::send(&socket, &request(kind, flags, about), SendFlags::empty())?;
    let mut answer = vec![0; ROOM];
    let (length, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    answer.truncate(length);
    first_kind(&answer)
}

/// Builds a `struct nlmsghdr` and a `struct tcmsg`.
fn request(kind: u16, flags: u16, [ifindex, handle, parent]: [u32; 3]) -> Vec<u8> {
    let kind = [kind, flags | REQUEST].map(u16::to_ne_bytes);
    let rest = [0, 0, 0, ifindex, handle, parent, 0].map(u32::to_ne_bytes);
    [&REQUEST_LENGTH.to_ne_bytes(), kind.as_flattened(), rest.as_flattened()].concat()
}

fn first_kind(answer: &[u8]) -> io::Result<u16> {
    let kind = answer.get(4..).and_then(<[u8]>::first_chunk);
    let kind = u16::from_ne_bytes(*kind.ok_or(io::ErrorKind::UnexpectedEof)?);
    let code = answer.get(16..).and_then(<[u8]>::first_chunk).filter(|_| kind == ERROR);
    match code.map_or(0, |code| i32::from_ne_bytes(*code)) {
        0 => Ok(kind),
        code => Err(io::Error::from_raw_os_error(code.wrapping_neg())),
    }
}

/// Prefix of the names of marks.
const PREFIX: &str = "clsact-";
/// Calls of hooks need a descriptor, and do not use it here.
const ANY: &str = "/dev/null";
/// Mask of the major number of a handle: `TC_H_MAJ_MASK` of `linux/pkt_sched.h`.
const MAJOR: u32 = 0xffff_0000;
const REQUEST_LENGTH: u32 = 36;
/// Room for the first datagram of an answer, in octets.
const ROOM: usize = 32_768;
/// Flags and a type of `linux/netlink.h`.
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const DUMP: u16 = 0x300;
const ERROR: u16 = 2;
