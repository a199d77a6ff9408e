//! The thread that speaks for all nodes of the soak, at the routers of both ISPs.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use moorline_link::FrameSocket;
use moorline_types::Ilv;
use moorline_wire::ilnp::{AdmissionTypes, Control};
use moorline_wire::ip6::Ip6;
use moorline_wire::{MessageType, PROTOCOL};

use super::cast::Cast;
use super::ilnp::ELSEWHERE;
use super::ledger::Ledger;
use crate::hop::{ETHERNET_LEN, Hop};
use crate::lab::Lab;
use crate::netns::Worker;
use crate::topology::{HOSTS, ISPS, host_address};
use crate::workload::Pacer;

/// Traffic of the soak so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Packets to the host.
    pub(super) packets: u64,
    /// Messages of the daemon, by kind.
    pub(super) heard: BTreeMap<String, u64>,
    /// Messages of the daemon to sources that had proved nothing.
    pub(super) unproved: u64,
    /// Packets of the host to locators of third parties.
    pub(super) elsewhere: u64,
    /// Broken promises, the first ones.
    pub(super) broken: Vec<String>,
}

impl Tally {
    fn note(&mut self, broken: String) {
        if self.broken.len() < MOST_TOLD {
            self.broken.push(broken);
        }
    }
}

/// The running thread.
#[derive(Debug)]
pub(super) struct Speaker {
    tally: Arc<Mutex<Tally>>,
    worker: Worker<()>,
}

/// A router's end of the cable to the host.
struct Mouth {
    socket: FrameSocket,
    header: [u8; ETHERNET_LEN],
}

impl Speaker {
    /// Starts to send `rate` packets a second.
    pub(super) fn start(lab: &Lab, cast: Cast, rate: u64) -> anyhow::Result<Self> {
        let mouths = [1, 2].map(|isp: u16| Mouth::open(lab, isp));
        let [one, two] = mouths;
        let mouths = [one?, two?];
        let tally = Arc::<Mutex<Tally>>::default();
        let shared = Arc::clone(&tally);
        let work = move |stop: &AtomicBool| speak(&mouths, cast, rate, stop, &shared);
        Ok(Self { tally, worker: Worker::start("soak", work)? })
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn is_finished(&self) -> bool {
        self.worker.is_finished()
    }

    pub(super) fn finish(self) -> anyhow::Result<Tally> {
        let Self { tally, worker } = self;
        worker.finish()?;
        Ok(tally.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Mouth {
    fn open(lab: &Lab, isp: u16) -> anyhow::Result<Self> {
        let router = lab.namespace(ISPS[usize::from(isp) - 1])?;
        // The packet socket gets the answers before this rule. Without the rule, the router would send errors to the host.
        router.nft(
            "table inet soak { chain received { type filter hook prerouting priority 0; ip6 daddr 2a00::/15 drop; }; }",
        )?;
        let (hop, _) = Hop::towards(router, host_address(HOSTS[0], isp))?;
        let open = || FrameSocket::receiver(&hop.interface, WAITING).context("packet socket");
        Ok(Self { socket: router.enter(open)?, header: hop.header() })
    }
}

fn speak(
    mouths: &[Mouth; 2],
    mut cast: Cast,
    rate: u64,
    stop: &AtomicBool,
    shared: &Mutex<Tally>,
) -> anyhow::Result<()> {
    let (mut ledger, mut tally) = (Ledger::default(), Tally::default());
    let begin = Instant::now();
    for address in cast.reached_of_wanted() {
        ledger.prove(address, begin);
    }
    let pacer = Pacer::start(rate);
    let (mut turns, mut told) = (0, begin);
    while !stop.load(Ordering::Relaxed) {
        for mouth in mouths {
            hear(mouth, &mut cast, &mut ledger, &mut tally)?;
        }
        let due = pacer.due(turns).min(BATCH);
        for _ in 0..due {
            say(mouths, &mut cast, &mut ledger, &mut tally)?;
        }
        turns += due;
        if told.elapsed() > TELL_AGAIN {
            told = Instant::now();
            ledger.age(told);
            (tally.unproved, tally.elsewhere) = (ledger.unproved, ledger.elsewhere);
            shared.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&tally);
        }
        if due == 0 {
            mouths[0].socket.wait(LOOK_AROUND)?;
        }
    }
    *shared.lock().unwrap_or_else(PoisonError::into_inner) = tally;
    Ok(())
}

fn say(
    mouths: &[Mouth; 2],
    cast: &mut Cast,
    ledger: &mut Ledger,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let turn = cast.say()?;
    let now = Instant::now();
    for address in turn.proved {
        ledger.prove(address, now);
    }
    for said in turn.said {
        ledger.came(&said.packet, now);
        let mouth = &mouths[said.isp];
        mouth.socket.send(&[&mouth.header[..], &said.packet].concat());
        tally.packets += 1;
    }
    Ok(())
}

fn hear(
    mouth: &Mouth,
    cast: &mut Cast,
    ledger: &mut Ledger,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let mut buffer = [0; LARGEST];
    for _ in 0..BATCH {
        let Some(length) = mouth.socket.receive(&mut buffer)? else { break };
        let packet = buffer.get(ETHERNET_LEN..length).unwrap_or_default();
        let Some(ip6) = Ip6::read(packet) else { continue };
        if is_elsewhere(ip6.destination)
            && let Err(broken) = ledger.went_elsewhere(packet, Instant::now())
        {
            tally.note(broken);
        }
        if !is_of_soak(ip6.destination) {
            continue;
        }
        if let Some(kind) = kind_of(packet, &ip6) {
            *tally.heard.entry(kind).or_default() += 1;
        }
        if let Err(broken) = ledger.went(packet, Instant::now()) {
            tally.note(broken);
        }
        cast.hear(ip6.destination, packet);
    }
    Ok(())
}

/// Whether an address is one of a node of the soak, and not of a host of the lab.
const fn is_of_soak(address: Ipv6Addr) -> bool {
    matches!(address.octets(), [0x2a, 0 | 1, ..])
}

/// Whether an address has one of the locators that nodes name and nobody has.
fn is_elsewhere(address: Ipv6Addr) -> bool {
    Ilv::of(address).l64.0 >> 60 == ELSEWHERE >> 60
}

/// Name of a message of the daemon. `None` for packets of the kernel and of programs.
fn kind_of(packet: &[u8], ip6: &Ip6) -> Option<String> {
    if ip6.next_header == PROTOCOL {
        let kind = *ip6.payload(packet).get(2)?;
        let is_payload = kind & 0x80 != 0;
        return Some(if is_payload {
            "payload".into()
        } else {
            MessageType::new(kind).to_string()
        });
    }
    let control = Control::read(packet).ok()?;
    if !Control::is_of_sessions(packet, AdmissionTypes::default()) {
        return None;
    }
    let name = match *control.message.first_chunk()? {
        [200, 0] => "Propose",
        [200, _] => "Confirm",
        [201, 0] => "Accept",
        [201, _] => "Refuse",
        [156, _] => "Locator Update",
        _ => "ILNP echo",
    };
    Some(name.into())
}

/// Octets of the largest packet that comes to the router.
const LARGEST: usize = 2048;
/// Packets between two looks at the other direction.
const BATCH: u64 = 32;
/// Packets of the host that may wait.
const WAITING: u16 = 16_384;
const LOOK_AROUND: Duration = Duration::from_millis(2);
const TELL_AGAIN: Duration = Duration::from_millis(200);
/// Broken promises that are told.
const MOST_TOLD: usize = 10;
