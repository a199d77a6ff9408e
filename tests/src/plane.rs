//! Vectors of the data plane contracts, and the players for `proto/plane`: [`shim6`] has the format of Shim6, [`ilnp`] that of
//! ILNP. This module has what both formats share.

pub mod ilnp;
pub mod shim6;

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::net::Ipv6Addr;

use moorline_datapath::Plane;
use moorline_plane::{Inbound, Outbound};
use moorline_types::Instant;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A case of either contract.
pub trait Vector: DeserializeOwned {
    /// What comes in.
    type Input;
    /// What must be so.
    type Check;
    /// Folder of the files, in `tests/vectors`.
    const FOLDER: &'static str;
    /// The behaviour that the case shows.
    fn name(&self) -> &str;
    /// The planes that the case is for: `kernel`, `user`.
    fn planes(&self) -> &[String];
    /// What happens, and what must be so then.
    fn steps(&self) -> &[Step<Self::Input, Self::Check>];
    /// The packet, if the input is one.
    fn packet(input: &Self::Input) -> Option<&Packet>;
}

/// One object in `steps`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Step<I, C> {
    /// With a time.
    Input {
        /// Nanoseconds.
        at: u64,
        /// What comes in.
        #[serde(flatten)]
        input: I,
    },
    /// Without.
    Check(C),
}

/// A packet at a hook, and its fate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packet {
    /// Hexadecimal, from the IPv6 header on.
    packet: String,
    /// Where the packet enters the plane.
    pub hook: Hook,
    /// Segments of a super-packet.
    #[serde(default)]
    pub gso: Option<u32>,
    /// Octets in each segment of a super-packet.
    #[serde(default)]
    pub segment: Option<u32>,
    /// Cgroup of the socket.
    #[serde(default)]
    pub cgroup: Option<u32>,
    /// Packet mark.
    #[serde(default)]
    pub mark: Option<u32>,
    /// `pass`, `up`, `deliver`, `send`, `redirect`, `drop:<reason>`.
    verdict: String,
    /// Source of the uplink by which the packet leaves.
    #[serde(default)]
    via: Option<Ipv6Addr>,
    /// The packet as it comes out, if not unchanged.
    #[serde(default)]
    out: Option<String>,
}

/// Where a packet enters a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the README of the vectors says what they are")]
pub enum Hook {
    UplinkEgress,
    MoorIngress,
    UplinkIngress,
}

/// The fate of a packet in a plane.
#[derive(Debug)]
pub struct Fate {
    /// The verdicts that it may be: a plane may not tell some from others.
    pub verdicts: Vec<String>,
    /// The source by whose uplink the packet leaves; `None` if the plane does not say.
    pub via: Option<Ipv6Addr>,
    /// The packet as it comes out; `None` if it is gone.
    pub octets: Option<Vec<u8>>,
}

impl Fate {
    /// A packet with one verdict goes on.
    #[must_use]
    pub fn new(verdict: &str, octets: Vec<u8>) -> Self {
        Self { verdicts: vec![verdict.to_owned()], via: None, octets: Some(octets) }
    }

    /// A packet is gone.
    #[must_use]
    pub fn dropped(reason: impl Display) -> Self {
        Self { verdicts: vec![format!("drop:{reason}")], via: None, octets: None }
    }

    /// What a user-space plane says of a packet from the network.
    #[must_use]
    pub fn inbound(verdict: Inbound, octets: Vec<u8>) -> Self {
        match verdict {
            Inbound::Pass => Self::new("pass", octets),
            Inbound::Deliver => Self::new("deliver", octets),
            Inbound::Up => Self::new("up", octets),
            Inbound::Drop(reason) => Self::dropped(reason),
        }
    }

    /// What a user-space plane says of a packet that a socket sends.
    #[must_use]
    pub fn outbound(verdict: Outbound, octets: Vec<u8>) -> Self {
        match verdict {
            Outbound::Pass => Self::new("pass", octets),
            Outbound::Send { source } => {
                Self { via: Some(source), ..Self::new("redirect", octets) }
            }
            Outbound::Drop(reason) => Self::dropped(reason),
        }
    }

    fn is(&self, verdict: &str, octets: &[u8]) -> bool {
        self.verdicts.iter().any(|one| one == verdict)
            && self.octets.as_deref().is_none_or(|seen| seen == octets)
    }
}

impl Packet {
    /// The octets as they come in.
    ///
    /// # Panics
    /// If they are not hexadecimal.
    #[must_use]
    pub fn octets(&self) -> Vec<u8> {
        hex::decode(&self.packet).expect("a packet is hexadecimal")
    }

    fn out(&self) -> Vec<u8> {
        hex::decode(self.out.as_ref().unwrap_or(&self.packet)).expect("a packet is hexadecimal")
    }

    fn check(&self, fate: &Fate) -> Result<(), String> {
        if fate.via.is_some() {
            compare("source", &fate.via, &self.via)?;
        }
        if fate.is(&self.verdict, &self.out()) {
            return Ok(());
        }
        let Fate { verdicts, octets, .. } = fate;
        let octets = octets.as_ref().map(hex::encode).unwrap_or_default();
        Err(format!("{verdicts:?} {octets}, and not {} {}", self.verdict, hex::encode(self.out())))
    }

    /// Compares the fate with another verdict than that of the case, and with another value of each octet that comes out. Gives
    /// the number of these comparisons.
    fn check_changed(&self, fate: &Fate) -> Result<usize, String> {
        let mut octets = self.out();
        let other = if self.verdict.starts_with("drop") { "pass" } else { "drop:truncated" };
        if fate.is(other, &octets) {
            return Err(format!("{other} is as good as {}", self.verdict));
        }
        let len = if fate.octets.is_some() { octets.len() } else { 0 };
        for at in 0..len {
            octets[at] ^= 1;
            if fate.is(&self.verdict, &octets) {
                return Err(format!("octet {at} does not matter"));
            }
            octets[at] ^= 1;
        }
        Ok(len + 1)
    }
}

/// A data plane, and what a case does with it besides what the contract has.
pub trait Bench {
    /// The plane.
    type Plane: Plane;

    /// The plane.
    fn plane(&mut self) -> &mut Self::Plane;

    /// Takes a packet.
    ///
    /// # Errors
    /// A contradiction of the plane or of the case.
    fn run(&mut self, packet: &Packet, now: Instant) -> Result<Fate, String>;

    /// It is this late: for planes that have a clock of their own.
    fn set_now(&mut self, _now: Instant) {}

    /// Looks at the timers of every context.
    fn tick(&mut self, _now: Instant) {}
}

/// A bench whose plane has the contract of a case.
pub trait Player<V: Vector>: Bench {
    /// Takes an input that is no packet.
    ///
    /// # Errors
    /// A contradiction of the case.
    fn update(&mut self, input: &V::Input, now: Instant) -> Result<(), String>;

    /// Compares the plane with a check of the case.
    ///
    /// # Errors
    /// The difference.
    fn check(&mut self, check: &V::Check) -> Result<(), String>;
}

/// What a plane has dropped, by the names of the reasons.
///
/// # Errors
/// The plane cannot say.
pub fn drops(plane: &impl Plane) -> Result<BTreeMap<String, u64>, String> {
    let drops = plane.drops().map_err(|error| error.to_string())?;
    Ok(drops.into_iter().map(|(reason, count)| (reason.to_string(), count)).collect())
}

/// Compares the reports since the last check.
fn check_reports<P: Plane<Report: PartialEq + Debug>>(
    plane: &mut P,
    expected: impl Iterator<Item = P::Report>,
) -> Result<(), String> {
    let seen = plane.take_reports().map_err(|error| error.to_string())?;
    compare("reports", &seen, &expected.collect())
}

/// Takes a plane through the steps of a case.
///
/// # Errors
/// What came out otherwise than the case says, and at which step.
pub fn play<V: Vector>(player: &mut impl Player<V>, case: &V) -> Result<usize, String> {
    each_packet(player, case, |packet, fate| packet.check(fate).map(|()| 0))
}

/// Does what [`play`] does, and expects in vain another verdict and another value of each octet. Gives the number of these
/// changes.
///
/// # Errors
/// As [`play`], or a change that made no difference.
pub fn play_changed<V: Vector>(player: &mut impl Player<V>, case: &V) -> Result<usize, String> {
    each_packet(player, case, |packet, fate| {
        packet.check(fate)?;
        packet.check_changed(fate)
    })
}

fn each_packet<V: Vector>(
    player: &mut impl Player<V>,
    case: &V,
    look: impl Fn(&Packet, &Fate) -> Result<usize, String>,
) -> Result<usize, String> {
    let mut sum = 0;
    for (index, step) in case.steps().iter().enumerate() {
        let outcome = match step {
            Step::Input { at, input } => {
                let now = Instant::from_nanos(*at);
                player.set_now(now);
                match V::packet(input) {
                    Some(packet) => player.run(packet, now).and_then(|fate| look(packet, &fate)),
                    None => player.update(input, now).map(|()| 0),
                }
            }
            Step::Check(check) => player.check(check).map(|()| 0),
        };
        sum += outcome.map_err(|difference| format!("step {index}: {difference}"))?;
    }
    Ok(sum)
}

/// Plays each case that is for this plane, and gives the number of cases with the sum of what `play` gives.
///
/// # Panics
/// With all differences, if there is one.
pub fn play_all<V: Vector>(
    plane: &str,
    mut play: impl FnMut(&V) -> Result<usize, String>,
) -> (usize, usize) {
    let (mut played, mut sum, mut failures) = (0, 0, Vec::new());
    for (file, case) in cases::<V>() {
        if !case.planes().iter().any(|one| one == plane) {
            continue;
        }
        played += 1;
        match play(&case) {
            Ok(count) => sum += count,
            Err(difference) => failures.push(format!("{file}: {}: {difference}", case.name())),
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    (played, sum)
}

/// The cases of every file of a format, those first that come first by file name.
///
/// # Panics
/// If the folder or a file cannot be read: the tests would pass without having tested anything.
fn cases<V: Vector>() -> Vec<(String, V)> {
    let folder = format!("{}/vectors/{}", env!("CARGO_MANIFEST_DIR"), V::FOLDER);
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder is in the repository")
        .map(|entry| entry.expect("readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    paths.sort();
    let mut cases = Vec::new();
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("readable file");
        let file: Vec<V> =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        cases.extend(file.into_iter().map(|case| (name.clone(), case)));
    }
    cases
}

/// Compares what a plane shows with what a case says.
///
/// # Errors
/// The difference.
pub fn compare<T: PartialEq + Debug + ?Sized>(
    what: &str,
    seen: &T,
    said: &T,
) -> Result<(), String> {
    if seen == said { Ok(()) } else { Err(format!("{what}: {seen:?}, and not {said:?}")) }
}

/// Both planes: the default of `planes`.
fn both() -> Vec<String> {
    vec!["kernel".into(), "user".into()]
}
