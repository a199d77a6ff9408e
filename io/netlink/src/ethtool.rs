//! Offloads of a link, by the ethtool ioctl.
//!
//! The kernel has one bit for each feature, with a name that is stable while its position is not.

use std::ffi::c_char;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// What one of our links leaves to others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offloads {
    /// The kernel puts together what comes in by NAPI (GRO).
    pub(crate) gathers: bool,
    /// Checksums of what is sent are left to whoever comes next.
    pub(crate) leaves_checksums: bool,
}

/// Turns off all that lets packets larger than the MTU out of the link, and turns the rest on or off.
pub(crate) fn set_offloads(name: &str, wanted: Offloads) -> io::Result<()> {
    let decide = |feature: &str| match feature {
        GRO => Some(wanted.gathers),
        feature if is_aggregating(feature) => Some(false),
        feature if is_checksum(feature) => Some(wanted.leaves_checksums),
        _ => None,
    };
    change(name, decide)
}

/// Whether checksums of what is sent out of the link are left to whoever comes next.
pub(crate) fn leave_checksums(name: &str, leave: bool) -> io::Result<()> {
    change(name, |feature| is_checksum(feature).then_some(leave))
}

/// Whether packets that come in by NAPI are put together.
pub(crate) fn gathers(name: &str) -> io::Result<bool> {
    is_active(name, GRO)
}

/// Whether the link sums whatever it is told to, behind headers that it does not know too.
pub(crate) fn sums_anything(name: &str) -> io::Result<bool> {
    is_active(name, "tx-checksum-ip-generic")
}

fn change(name: &str, decide: impl Fn(&str) -> Option<bool>) -> io::Result<()> {
    let control = Control::open(name)?;
    let names = control.feature_names()?;
    let mut change = Features::<Change>::new(ETHTOOL_SFEATURES, names.len());
    for (index, name) in names.iter().enumerate() {
        if let (Some(on), Some(block)) = (decide(name), change.blocks.get_mut(index / 32)) {
            block.valid |= 1 << (index % 32);
            block.requested |= u32::from(on) << (index % 32);
        }
    }
    control.call(&mut change)
}

fn is_active(name: &str, feature: &str) -> io::Result<bool> {
    let control = Control::open(name)?;
    let names = control.feature_names()?;
    let mut state = Features::<State>::new(ETHTOOL_GFEATURES, names.len());
    control.call(&mut state)?;
    let index = names.iter().position(|name| name == feature);
    let block = index.and_then(|index| state.blocks.get(index / 32));
    Ok(index.zip(block).is_some_and(|(index, block)| block.active >> (index % 32) & 1 == 1))
}

/// Whether a feature makes or takes packets of more than one segment.
fn is_aggregating(feature: &str) -> bool {
    feature.starts_with("tx-") && feature.ends_with("-segmentation")
        || feature.starts_with("tx-gso-")
        || feature.starts_with("rx-gro")
        || feature.starts_with("rx-udp-gro")
        || feature == "rx-lro"
}

/// Whether a feature leaves the checksum of what is sent to the hardware.
fn is_checksum(feature: &str) -> bool {
    feature.starts_with("tx-checksum-")
}

struct Control {
    socket: OwnedFd,
    name: [c_char; libc::IFNAMSIZ],
}

impl Control {
    fn open(name: &str) -> io::Result<Self> {
        if name.len() >= libc::IFNAMSIZ {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut octets = [0; libc::IFNAMSIZ];
        for (to, from) in octets.iter_mut().zip(name.bytes()) {
            *to = c_char::from_ne_bytes([from]);
        }
        // SAFETY: no pointers are passed; the result is checked below.
        let fd = unsafe { libc::socket(libc::AF_INET6, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is fresh from a successful socket(), and nobody else has it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { socket, name: octets })
    }

    fn feature_names(&self) -> io::Result<Vec<String>> {
        let mut info = SetInfo {
            command: ETHTOOL_GSSET_INFO,
            mask: 1 << ETH_SS_FEATURES,
            ..SetInfo::default()
        };
        self.call(&mut info)?;
        let count = if info.mask == 0 { 0 } else { info.length };
        let mut strings = Strings::default();
        if count > MAX_FEATURES {
            return Err(io::Error::other("more features than this version knows to name"));
        }
        strings.set = ETH_SS_FEATURES;
        strings.count = count;
        self.call(&mut strings)?;
        let count = usize::try_from(strings.count.min(count)).unwrap_or_default();
        Ok(strings
            .names
            .iter()
            .take(count)
            .map(|name| crate::attributes::read_text(name))
            .collect())
    }

    fn call<C: Command>(&self, command: &mut C) -> io::Result<()> {
        let mut request = Request {
            name: self.name,
            data: std::ptr::from_mut(command).cast(),
            padding: [0; PADDING],
        };
        // SAFETY: `request` is laid out as `struct ifreq`. Its data pointer leads to a `repr(C)`
        // struct that outlives the call and is as large as the kernel reads and writes for the
        // command in its first field: `Command` is only implemented for those below.
        let done = unsafe {
            libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL, std::ptr::from_mut(&mut request))
        };
        // Set-features answers above zero when it did less, or more, than asked: fixed features.
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// A `repr(C)` struct that starts with the number of an ethtool command and is whole for it.
///
/// # Safety
/// The kernel must not read or write behind the struct for the command and counts in it.
unsafe trait Command {}

/// `struct ifreq` with a data pointer.
#[repr(C)]
struct Request {
    name: [c_char; libc::IFNAMSIZ],
    data: *mut u8,
    padding: [u8; PADDING],
}

const PADDING: usize = size_of::<libc::ifreq>() - libc::IFNAMSIZ - size_of::<*mut u8>();
const _: () = assert!(size_of::<Request>() == size_of::<libc::ifreq>());

/// `struct ethtool_sset_info` for one set.
#[repr(C)]
#[derive(Default)]
struct SetInfo {
    command: u32,
    reserved: u32,
    mask: u64,
    length: u32,
    padding: u32,
}

// SAFETY: one bit is set in the mask, so the kernel writes one length.
unsafe impl Command for SetInfo {}

/// `struct ethtool_gstrings` with room for the names.
#[repr(C)]
struct Strings {
    command: u32,
    set: u32,
    count: u32,
    names: [[u8; ETH_GSTRING_LEN]; MAX_FEATURES as usize],
}

impl Default for Strings {
    fn default() -> Self {
        Self {
            command: ETHTOOL_GSTRINGS,
            set: ETH_SS_FEATURES,
            count: 0,
            names: [[0; ETH_GSTRING_LEN]; MAX_FEATURES as usize],
        }
    }
}

// SAFETY: the kernel writes as many names as the set has. The number of network device features is
// fixed when the kernel is built, was asked for just before, and is at most MAX_FEATURES.
unsafe impl Command for Strings {}

/// `struct ethtool_gfeatures` or `struct ethtool_sfeatures` with room for the blocks of 32 features.
#[repr(C)]
struct Features<Block> {
    command: u32,
    size: u32,
    blocks: [Block; MAX_FEATURES as usize / 32],
}

impl<Block: Copy + Default> Features<Block> {
    /// Of so many features, all that there is room for at most.
    fn new(command: u32, count: usize) -> Self {
        let blocks = [Block::default(); MAX_FEATURES as usize / 32];
        let size = count.div_ceil(32).min(blocks.len());
        Self { command, size: u32::try_from(size).unwrap_or_default(), blocks }
    }
}

/// `struct ethtool_set_features_block`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Change {
    valid: u32,
    requested: u32,
}

/// `struct ethtool_get_features_block`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct State {
    available: u32,
    requested: u32,
    active: u32,
    never_changed: u32,
}

// SAFETY: the kernel reads `size` blocks, of which `new` makes no more than there is room for.
unsafe impl Command for Features<Change> {}

// SAFETY: the kernel writes at most `size` blocks, of which `new` makes no more than there is room for.
unsafe impl Command for Features<State> {}

const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_FEATURES: u32 = 4;
const GRO: &str = "rx-gro";
const ETH_GSTRING_LEN: usize = 32;
/// Room for features: Linux 6.18 has 64, and could have 128 without a new interface.
const MAX_FEATURES: u32 = 256;
