use std::collections::BTreeMap;
use std::time::Duration;

use moorline_cga::{HbaKey, HbaSet, Sec, generate_hba};
use moorline_host::{Config, Host, LocalState};
use moorline_plane::{Plane, Settings};
use moorline_types::{Instant, Locator};

use crate::random::Random;
use crate::workload::Socket;

/// A host: core, data plane, addresses and sockets.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) host: Host,
    pub(crate) plane: Plane,
    /// False: plain IPv6, as if neither were there.
    pub(crate) has_moorline: bool,
    /// False: the data plane is alone.
    pub(crate) has_daemon: bool,
    config: Config,
    /// One on each ISP.
    pub(crate) addresses: Vec<Locator>,
    set: HbaSet,
    /// By port.
    pub(crate) sockets: BTreeMap<u16, Socket>,
}

impl Node {
    pub(crate) fn new(
        index: usize,
        isps: usize,
        send_timeout: Duration,
        has_moorline: bool,
        random: &mut Random,
        now: Instant,
    ) -> Self {
        let prefixes: Vec<[u8; 8]> = (0..isps).map(|isp| prefix(index, isp)).collect();
        let key = HbaKey::extended_modifier(random.octets());
        let sec = Sec::new(0).expect("0 is a Sec");
        let set = generate_hba(&prefixes, sec, &key, random.octets(), 1)
            .expect("with Sec 0 the first try is the last");
        let mut config = Config::default();
        config.shim6.send_timeout = send_timeout;
        Self {
            host: Host::new(config.clone(), random.octets(), now),
            plane: Plane::new(Settings::default()),
            has_moorline,
            has_daemon: has_moorline,
            config,
            addresses: set.locators().to_vec(),
            set,
            sockets: BTreeMap::new(),
        }
    }

    /// A new daemon takes over from one that was killed: it reads what that one had written down, and
    /// finds the data plane as it is. False if it could not.
    pub(crate) fn restart(
        &mut self,
        is_usable: impl Fn(usize) -> bool,
        random: &mut Random,
        now: Instant,
    ) -> bool {
        let snapshots: Vec<_> = self.host.snapshot().collect();
        self.host = Host::new(self.config.clone(), random.octets(), now);
        self.has_daemon = true;
        self.set_usable(is_usable, now);
        snapshots.into_iter().all(|snapshot| self.host.restore(snapshot, now).is_ok())
    }

    /// Which of its addresses can be used now.
    pub(crate) fn set_usable(&mut self, is_usable: impl Fn(usize) -> bool, now: Instant) {
        let mut usable = Vec::new();
        for (isp, &address) in self.addresses.iter().enumerate() {
            if is_usable(isp) {
                self.plane.set_local(address);
                usable.push(address);
            } else {
                self.plane.unset_local(address);
            }
        }
        self.host.handle_local(&LocalState { set: Some(self.set.clone()), usable }, now);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let sockets = self.sockets.values().filter_map(Socket::poll_timeout).min();
        let core = self.host.poll_timeout().map(|(at, _)| at).filter(|_| self.has_daemon);
        let plane = self.plane.poll_timeout();
        if !self.has_moorline {
            return sockets;
        }
        [sockets, core, plane].into_iter().flatten().min()
    }
}

/// 2001:db8:<isp>:<host>::/64, both counted from 1.
fn prefix(host: usize, isp: usize) -> [u8; 8] {
    let octet = |number: usize| u8::try_from(number + 1).unwrap_or(u8::MAX);
    [0x20, 0x01, 0x0d, 0xb8, 0, octet(isp), 0, octet(host)]
}
