//! A world with a transfer in it.

use std::cell::RefCell;
use std::net::Ipv6Addr;
use std::rc::Rc;
use std::time::Duration;

use moorline_cga::Sec;
use moorline_contexts::{Contexts, EstablishedView, EventKind};
use moorline_datapath::ilnp::USED_INTERVAL;
use moorline_host::model::{contested, difference};
use moorline_ilnp::consts::{MAX_FIRST_RETRANSMISSION, MAX_QUESTION_PAUSE, SILENT_TRIES};
use moorline_ilnp::{Event as SessionEvent, SessionView, State};
use moorline_protected::world::{Plan, Seen, Transfer, World, fill};
use moorline_protected::{Config, News};
use moorline_stack::stack::{Event, WireId};
use moorline_stack::udp;
use moorline_types::Instant;

/// A world, and what its hosts have told.
pub(crate) struct Lab {
    pub(crate) world: World,
    pub(crate) events: [Vec<Event>; 2],
    pub(crate) news: [Vec<(Instant, News)>; 2],
    transfer: Option<Transfer>,
    pair: Option<(Ipv6Addr, Ipv6Addr)>,
    plan: Plan,
    seed: u64,
    sent: u64,
    received: u64,
}

/// Frames, each with its time.
pub(crate) type Frames = Rc<RefCell<Vec<(Instant, Vec<u8>)>>>;

/// The settings of the daemon, with addresses that take one try.
pub(crate) fn config() -> Config {
    Config { sec: Sec::ZERO, ..Config::default() }
}

/// As [`config`], with ILNP.
pub(crate) fn with_ilnp() -> Config {
    Config { ilnp: Some(moorline_ilnp::Config::default()), ..config() }
}

impl Lab {
    pub(crate) fn new(plan: &Plan, config: &Config, seed: u64) -> Self {
        Self::with_configs(plan, [config; 2], seed)
    }

    pub(crate) fn with_configs(plan: &Plan, configs: [&Config; 2], seed: u64) -> Self {
        Self {
            world: World::with_configs(plan, configs, seed),
            events: Default::default(),
            news: Default::default(),
            transfer: None,
            pair: None,
            plan: plan.clone(),
            seed,
            sent: 0,
            received: 0,
        }
    }

    pub(crate) fn transfer(&self) -> &Transfer {
        self.transfer.as_ref().expect("a transfer")
    }

    /// Lets the next thing happen. Returns false if there is nothing until then.
    pub(crate) fn step(&mut self, until: Instant) -> bool {
        let has_happened = self.world.step(until);
        for host in 0..2 {
            while let Some(event) = self.world.host_mut(host).poll_event() {
                self.on_event(host, &event);
                self.events[host].push(event);
            }
            while let Some(news) = self.world.host_mut(host).poll_news() {
                self.news[host].push((self.world.now(), news));
            }
        }
        has_happened
    }

    fn on_event(&mut self, host: usize, event: &Event) {
        let (seed, sent, received) = (self.seed, &mut self.sent, &mut self.received);
        let Some(transfer) = &mut self.transfer else { return };
        transfer.handle_event(&mut self.world, host, event, |seen| match seen {
            Seen::Sent(octets) => *sent += octets.len() as u64,
            Seen::Received(octets) => {
                let mut expected = vec![0; octets.len()];
                fill(seed, *received, &mut expected);
                assert!(octets == expected, "octets from {received} on are as they were sent");
                *received += octets.len() as u64;
            }
        });
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let until = self.world.now() + time;
        while self.step(until) {}
    }

    /// Restarts the program of a host.
    pub(crate) fn restart(&mut self, host: usize, config: &Config) {
        self.world.restart(host, &self.plan, config, !self.seed);
    }

    pub(crate) fn run_while(&mut self, most: Duration, mut goes_on: impl FnMut(&Self) -> bool) {
        let until = self.world.now() + most;
        while goes_on(self) {
            assert!(self.step(until), "nothing happens any more: {}", self.describe());
        }
    }

    /// Until each host has an address of each ISP.
    pub(crate) fn run_until_ready(&mut self) {
        self.run_while(Duration::from_secs(60), |lab| {
            (0..2).any(|host| lab.world.addresses(host).len() < 2)
        });
    }

    /// Begins to send octets from host 0 to host 1, between addresses of ISP 0.
    pub(crate) fn begin_transfer(&mut self, total: u64) {
        let addresses = self.world.addresses(1);
        let peer = addresses.into_iter().find(|one| self.world.isp_of(*one) == Some(0));
        let peer = (peer.expect("an address of ISP 0"), 5001);
        let begun = Transfer::begin(&mut self.world, (0, 1), peer, total, self.seed);
        self.transfer = Some(begun.expect("a connection"));
        (self.sent, self.received) = (0, 0);
        let pair = self.transfer().addresses(&self.world).expect("a flow");
        assert_eq!(self.world.isp_of(pair.0), Some(0), "RFC 6724 rule 8");
        self.pair = Some(pair);
    }

    pub(crate) fn run_until_received(&mut self, octets: u64) {
        self.run_while(Duration::from_secs(60), |lab| lab.transfer().received() < octets);
    }

    pub(crate) fn run_until_complete(&mut self, most: Duration) {
        self.run_while(most, |lab| !lab.transfer().is_complete());
        assert_eq!(self.sent, self.received);
    }

    /// Has a connection outlive ISP 1, ISP 2 and ISP 1 again, each with the other one alive.
    pub(crate) fn outlive_one_isp_after_the_other(&mut self) {
        self.run_until_ready();
        self.begin_transfer(6_000_000);
        for (round, dead) in [(1, 0), (2, 1), (3, 0)] {
            self.run_until_received(round * 1_500_000);
            (0..2).for_each(|isp| self.world.set_alive(isp, isp != dead));
        }
        self.run_until_complete(Duration::from_secs(240));
        assert_eq!(self.world.filtered(), 0);
    }

    /// Has the first host send a datagram of 4,000 octets to the second one between the addresses of the transfer. The
    /// datagram arrives. Returns the frames of the second that follows.
    pub(crate) fn send_large(&mut self) -> Frames {
        let ((local, peer), now) = (self.transfer_pair(), self.world.now());
        let frames = self.record();
        let to = self.world.host_mut(1).udp_bind(None, Some(9)).expect("a socket");
        let socket = self.world.host_mut(0).udp_bind(Some(local), None).expect("a socket");
        let (to_peer, options) = (Some((peer, 9)), udp::Options::default());
        let sent = self.world.host_mut(0).udp_send_to(socket, &LARGE, to_peer, options, now);
        sent.expect("a route");
        self.world.settle();
        self.run_for(Duration::from_secs(1));
        let received = self.world.host_mut(1).udp_recv(to).expect("a datagram");
        assert_eq!((&*received.payload, received.source), (&LARGE[..], local));
        frames
    }

    pub(crate) fn contexts(&self, host: usize) -> &Contexts {
        self.world.host(host).protocols().shim6()
    }

    pub(crate) fn established(&self, host: usize) -> Vec<EstablishedView> {
        self.contexts(host).contexts().filter_map(|context| context.established).collect()
    }

    /// Local and peer address of the transfer.
    pub(crate) fn transfer_pair(&self) -> (Ipv6Addr, Ipv6Addr) {
        self.pair.expect("a transfer")
    }

    /// Time of the first move of a host.
    pub(crate) fn moved_at(&self, host: usize) -> Option<Instant> {
        let is_move = |news: &News| match news {
            News::Context(event) => matches!(event.kind, EventKind::Moved { .. }),
            News::Session { event, .. } => matches!(event, SessionEvent::Moved { .. }),
            News::Address(_) => false,
        };
        self.news[host].iter().find(|(_, news)| is_move(news)).map(|(at, _)| *at)
    }

    /// Records the frames of the links of host 0 from now on.
    pub(crate) fn record(&mut self) -> Frames {
        let frames = Frames::default();
        let seen = Rc::clone(&frames);
        self.world
            .set_tap(0, Box::new(move |at, frame| seen.borrow_mut().push((at, frame.to_vec()))));
        frames
    }

    /// Takes the link of a wire down.
    pub(crate) fn lose_link(&mut self, host: usize, wire: u32) {
        let now = self.world.now();
        self.world.host_mut(host).handle_link(WireId(wire), false, now);
        self.world.settle();
    }

    /// The sessions of a host that the correspondent knows.
    pub(crate) fn sessions(&self, host: usize) -> Vec<SessionView> {
        let sessions = self.world.host(host).protocols().ilnp().into_iter();
        let all = sessions.flat_map(|sessions| sessions.sessions(self.world.now()));
        all.filter(|session| session.state == State::Established).collect()
    }

    /// Whether each host has a context or a session.
    pub(crate) fn is_protected(&self) -> bool {
        (0..2).all(|host| !self.established(host).is_empty() || !self.sessions(host).is_empty())
    }

    /// Checks that each pair has one owner, and that the planes have what the protocols say.
    pub(crate) fn check_owners(&self) {
        for host in (0..2).map(|host| self.world.host(host)) {
            let (protocols, planes) = (host.protocols(), host.planes());
            assert_eq!(contested(protocols), None);
            let sessions = planes.ilnp.iter().flat_map(|plane| plane.sessions());
            let contexts = planes.shim6.contexts();
            assert_eq!(difference(protocols, contexts, sessions, self.world.now()), None);
        }
    }

    /// The longest time that the RFCs' timers leave for a recovery if one pair of four is left. It is `recovery_bound` of the simulator, which
    /// says why: detection by both ends and InboundOk, a walk of four probes, and the exchange after it.
    pub(crate) fn bound(&self) -> Duration {
        if self.world.host(0).protocols().ilnp().is_some() {
            return self.bound_of_sessions();
        }
        let (one_way, gap) = (Duration::from_millis(200), Duration::from_secs(1));
        let detection = SEND_TIMEOUT * 3 + gap + one_way * 2;
        // RFC 5534 s7: Initial Probe Timeout 0.5 s, and the fourth interval is twice as long.
        let (walk, probe) = (Duration::from_millis(2500), Duration::from_millis(500));
        detection + walk + one_way * 4 + probe
    }

    /// The longest time in which a session in use leaves locators that bring nothing (decision 148). The plane reports a use each 10 s, and
    /// TCP, which has backed off, repeats a segment within twice that time. Then three questions go by the pair in use, and one by each other pair.
    fn bound_of_sessions(&self) -> Duration {
        let used = USED_INTERVAL * 2;
        let silence = MAX_FIRST_RETRANSMISSION * ((1 << SILENT_TRIES) - 1);
        used + silence + MAX_QUESTION_PAUSE * 3
    }

    pub(crate) fn describe(&self) -> String {
        let received = self.transfer.as_ref().map(Transfer::received);
        let states = self.transfer.as_ref().map(|transfer| transfer.states(&self.world));
        let contexts = [0, 1].map(|host| self.contexts(host).contexts().count());
        let drops = [0, 1].map(|host| self.world.host(host).netstat(self.world.now()).drops);
        let sessions = [0, 1].map(|host| self.sessions(host).len());
        let addresses = [0, 1].map(|host| self.world.addresses(host));
        format!(
            "received {received:?}, states {states:?}, contexts {contexts:?}, sessions {sessions:?}, drops {drops:?}, addresses {addresses:?}, news {:?}",
            self.news[0]
        )
    }
}

/// Send Timeout of the daemon (decision 003).
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Payload of a datagram that takes three packets.
const LARGE: [u8; 4000] = [7; 4000];
