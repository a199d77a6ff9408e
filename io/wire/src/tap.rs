use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use crate::interface::{Interface, ask, request};
use crate::vnet;

/// Opens the TAP interface of this name and brings it up. If the interface does not exist, it is made, and it ends with the descriptor.
pub(crate) fn open_tap(name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = open(DEVICE, flags, Mode::empty())
        .map_err(|error| explain(error, "cannot open /dev/net/tun"))?;
    let mut wanted = request(name);
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    wanted.ifr_ifru.ifru_flags = libc::c_short::try_from(flags).map_err(io::Error::other)?;
    ask(&fd, libc::TUNSETIFF, wanted).map_err(|error| explain_open(error, name))?;
    set_notes_len(&fd)?;
    set_super_segments(&fd, false)?;
    Interface::new(name)?.bring_up()?;
    Ok(fd)
}

/// Says whether the kernel may give large TCP segments and leave checksums to us. The setting belongs to the interface, and outlives
/// the program if the interface does.
pub(crate) fn set_super_segments(fd: &OwnedFd, takes: bool) -> io::Result<()> {
    let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    let offloads = libc::c_ulong::from(if takes { offloads } else { 0 });
    // SAFETY: the argument of this request is a number.
    let outcome = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, offloads) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets the length of the notes, which an earlier program may have changed.
fn set_notes_len(fd: &OwnedFd) -> io::Result<()> {
    let len = libc::c_int::try_from(vnet::LEN).map_err(io::Error::other)?;
    // SAFETY: the argument of this request is a pointer to an int, which is live.
    let outcome = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const len) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn explain_open(error: io::Error, name: &str) -> io::Error {
    let reason = match Errno::from_io_error(&error) {
        Some(Errno::BUSY) => "another program uses this TAP interface",
        Some(Errno::INVAL) => "there is an interface of this name that is no TAP interface",
        Some(Errno::PERM) => {
            "it takes CAP_NET_ADMIN, or a TAP interface of yours: ip tuntap add NAME mode tap user USER"
        }
        _ => "the kernel refuses",
    };
    io::Error::new(
        error.kind(),
        format!("cannot open the TAP interface {name}: {reason} ({error})"),
    )
}

fn explain(error: Errno, what: &str) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

const DEVICE: &str = "/dev/net/tun";
