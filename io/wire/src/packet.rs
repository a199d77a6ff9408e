use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use moorline_ip::{Mac, ethernet};
use moorline_link::filter::{ALL, NONE, attach, instruction};
use nix::net::if_::if_nametoindex;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Opens a socket for the frames of an interface: those of IPv6, IPv4 and ARP that come in for `mac` or for a group, without a VLAN tag.
pub(crate) fn open_packet(name: &str, mac: Mac) -> io::Result<OwnedFd> {
    let index = if_nametoindex(name).map_err(|error| {
        io::Error::new(io::Error::from(error).kind(), format!("no interface {name}: {error}"))
    })?;
    let index = libc::c_int::try_from(index).map_err(io::Error::other)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // With protocol zero, the socket receives nothing before it is bound: no frames of other interfaces.
    let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    set_option(&fd, PACKET_IGNORE_OUTGOING, &1_i32)?;
    set_option(&fd, PACKET_VNET_HDR, &1_i32)?;
    accept(&fd, mac)?;
    bind(&fd, index)?;
    join(&fd, index, PACKET_MR_ALLMULTI)?;
    Ok(fd)
}

/// Changes the address for which frames come in.
pub(crate) fn accept(fd: &OwnedFd, mac: Mac) -> io::Result<()> {
    attach(&fd.as_fd(), &mut program(mac))
}

/// Whether the interface of a socket has been removed. `false` for a descriptor that is no socket.
pub(crate) fn is_gone(fd: &OwnedFd) -> io::Result<bool> {
    // SAFETY: all zeros is a value of this structure of integers.
    let mut address: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
    let mut length = libc::socklen_t::try_from(size_of_val(&address)).map_err(io::Error::other)?;
    // SAFETY: `address` is live and has room for the length that is passed.
    let outcome = unsafe {
        let address: *mut libc::sockaddr_ll = &raw mut address;
        libc::getsockname(fd.as_raw_fd(), address.cast(), &raw mut length)
    };
    // The kernel sets the index to -1 when it removes the interface (packet(7) does not say so).
    Ok(outcome == 0 && address.sll_ifindex == -1)
}

/// Makes the interface receive the frames for all addresses; the filter chooses among them.
pub(crate) fn listen_to_all(fd: &OwnedFd, name: &str) -> io::Result<()> {
    let index = if_nametoindex(name)?.try_into().map_err(io::Error::other)?;
    join(fd, index, PACKET_MR_PROMISC)
}

fn bind(fd: &OwnedFd, index: libc::c_int) -> io::Result<()> {
    let unsigned = |value: libc::c_int| u16::try_from(value).map_err(io::Error::other);
    let address = libc::sockaddr_ll {
        sll_family: unsigned(libc::AF_PACKET)?,
        // All protocols: a socket of one protocol gets packets only behind programs on tc.
        sll_protocol: unsigned(libc::ETH_P_ALL)?.to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = libc::socklen_t::try_from(size_of_val(&address)).map_err(io::Error::other)?;
    // SAFETY: `address` is a live sockaddr_ll of the length that is passed.
    let outcome = unsafe {
        let address: *const libc::sockaddr_ll = &address;
        libc::bind(fd.as_raw_fd(), address.cast(), length)
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Adds to the frames that the interface receives, for as long as the socket is open.
fn join(fd: &OwnedFd, index: libc::c_int, kind: libc::c_ushort) -> io::Result<()> {
    let membership =
        PacketMreq { mr_ifindex: index, mr_type: kind, mr_alen: 0, mr_address: [0; 8] };
    set_option(fd, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// Sets an option of the level SOL_PACKET. `value` must be of the type that the option has.
fn set_option<T: Copy>(fd: &OwnedFd, name: libc::c_int, value: &T) -> io::Result<()> {
    let len = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    // SAFETY: `value` is live and of the length that is passed; the kernel only reads it.
    let outcome = unsafe {
        let value = core::ptr::from_ref(value).cast();
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_PACKET, name, value, len)
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Filter for frames of IPv6, IPv4 and ARP without a VLAN tag, for `mac` or a group.
fn program(mac: Mac) -> [libc::sock_filter; 14] {
    let [a, b, c, d, e, f] = mac.0;
    let (high, low) = (u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f]));
    let half = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
    let word = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let octet = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let has = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    let end = libc::BPF_RET | libc::BPF_K;
    [
        // The kernel has taken the tag out of the frame, so the type behind it looks like the type of the frame.
        instruction(word, VLAN_TAG_PRESENT, 0, 0),
        instruction(equal, 0, 0, 11),
        instruction(half, TYPE_AT, 0, 0),
        instruction(equal, ethernet::IPV6.into(), 2, 0),
        instruction(equal, ethernet::IPV4.into(), 1, 0),
        instruction(equal, ethernet::ARP.into(), 0, 7),
        // The first bit on the wire is the lowest bit of the first octet: the bit of groups.
        instruction(octet, 0, 0, 0),
        instruction(has, 1, 4, 0),
        instruction(half, 0, 0, 0),
        instruction(equal, high.into(), 0, 3),
        instruction(word, 2, 0, 0),
        instruction(equal, low, 0, 1),
        instruction(end, ALL, 0, 0),
        instruction(end, NONE, 0, 0),
    ]
}

/// `struct packet_mreq` of linux/if_packet.h; `libc` has it for other systems only.
#[repr(C)]
#[derive(Clone, Copy)]
struct PacketMreq {
    mr_ifindex: libc::c_int,
    mr_type: libc::c_ushort,
    mr_alen: libc::c_ushort,
    mr_address: [libc::c_uchar; 8],
}

// From linux/if_packet.h.
const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const PACKET_MR_PROMISC: libc::c_ushort = 1;
const PACKET_MR_ALLMULTI: libc::c_ushort = 2;
/// Offset of the type in the Ethernet header.
const TYPE_AT: u32 = 12;
/// Address at which a filter finds whether the frame had a VLAN tag: `SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT` of linux/filter.h.
const VLAN_TAG_PRESENT: u32 = 0xffff_f000 + 48;
