//! Vectors of the data plane contracts, and their players for `proto/plane`. [`shim6`] has the format for Shim6, and
//! [`ilnp`] the format for ILNP. This module has the shared parts.

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
    /// Type of inputs.
    type Input;
    /// Type of checks.
    type Check;
    /// Folder of the files, below `tests/vectors`.
    const FOLDER: &'static str;
    /// Name of the case: the behaviour that it shows.
    fn name(&self) -> &str;
    /// Planes that play the case: `kernel`, `user`.
    fn planes(&self) -> &[String];
    /// Inputs and checks, in order.
    fn steps(&self) -> &[Step<Self::Input, Self::Check>];
    /// The packet. `None` if the input is no packet.
    fn packet(input: &Self::Input) -> Option<&Packet>;
}

/// An object in `steps`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Step<I, C> {
    /// An input at a time.
    Input {
        /// Time in nanoseconds.
        at: u64,
        /// The input.
        #[serde(flatten)]
        input: I,
    },
    /// A check, which has no time.
    Check(C),
}

/// A packet at a hook, and its expected fate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packet {
    /// Octets in hexadecimal, from the IPv6 header on.
    packet: String,
    /// Hook at which the packet enters the plane.
    pub hook: Hook,
    /// Number of segments of a super-packet.
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
    /// Expected verdict: `pass`, `up`, `deliver`, `send`, `redirect`, `drop:<reason>`.
    verdict: String,
    /// Source of the uplink by which the packet leaves.
    #[serde(default)]
    via: Option<Ipv6Addr>,
    /// The packet after the plane. `None` if the packet is unchanged.
    #[serde(default)]
    out: Option<String>,
}

/// A hook at which a packet enters a plane.
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
    /// Possible verdicts. There are several if a plane cannot tell them apart.
    pub verdicts: Vec<String>,
    /// Source whose uplink the packet leaves by. `None` if the plane does not tell.
    pub via: Option<Ipv6Addr>,
    /// The packet after the plane. `None` if the plane dropped it.
    pub octets: Option<Vec<u8>>,
}

impl Fate {
    /// The fate of a packet that is not dropped, with one verdict.
    #[must_use]
    pub fn new(verdict: &str, octets: Vec<u8>) -> Self {
        Self { verdicts: vec![verdict.to_owned()], via: None, octets: Some(octets) }
    }

    /// The fate of a dropped packet.
    #[must_use]
    pub fn dropped(reason: impl Display) -> Self {
        Self { verdicts: vec![format!("drop:{reason}")], via: None, octets: None }
    }

    /// The fate of a packet from the network in a user-space plane.
    #[must_use]
    pub fn inbound(verdict: Inbound, octets: Vec<u8>) -> Self {
        match verdict {
            Inbound::Pass => Self::new("pass", octets),
            Inbound::Deliver => Self::new("deliver", octets),
            Inbound::Up => Self::new("up", octets),
            Inbound::Drop(reason) => Self::dropped(reason),
        }
    }

    /// The fate of a packet of a socket in a user-space plane.
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
    /// The octets before the plane.
    ///
    /// # Panics
    /// The text is not hexadecimal.
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

    /// Compares the fate with another verdict than the expected one, and with another value of each octet. Gives the
    /// number of comparisons.
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

/// A data plane, and the operations of a case that the contract does not have.
pub trait Bench {
    /// Type of the plane.
    type Plane: Plane;

    /// The plane.
    fn plane(&mut self) -> &mut Self::Plane;

    /// Passes a packet to the plane.
    ///
    /// # Errors
    /// The plane or the case contradicts itself.
    fn run(&mut self, packet: &Packet, now: Instant) -> Result<Fate, String>;

    /// Sets the time, for planes with their own clock.
    fn set_now(&mut self, _now: Instant) {}

    /// Checks the timers of every context.
    fn tick(&mut self, _now: Instant) {}
}

/// A bench for the cases of one contract.
pub trait Player<V: Vector>: Bench {
    /// Passes an input other than a packet to the plane.
    ///
    /// # Errors
    /// The case contradicts itself.
    fn update(&mut self, input: &V::Input, now: Instant) -> Result<(), String>;

    /// Compares the plane with a check of the case.
    ///
    /// # Errors
    /// The plane differs. The error describes the difference.
    fn check(&mut self, check: &V::Check) -> Result<(), String>;
}

/// Drop counts of a plane, by the names of the reasons.
///
/// # Errors
/// The plane cannot read its counts.
pub fn drops(plane: &impl Plane) -> Result<BTreeMap<String, u64>, String> {
    let drops = plane.drops().map_err(|error| error.to_string())?;
    Ok(drops.into_iter().map(|(reason, count)| (reason.to_string(), count)).collect())
}

/// Compares the plane's reports since the last check with the expected ones.
fn check_reports<P: Plane<Report: PartialEq + Debug>>(
    plane: &mut P,
    expected: impl Iterator<Item = P::Report>,
) -> Result<(), String> {
    let seen = plane.take_reports().map_err(|error| error.to_string())?;
    compare("reports", &seen, &expected.collect())
}

/// Plays the steps of a case to a plane.
///
/// # Errors
/// The plane differs from the case. The error names the step.
pub fn play<V: Vector>(player: &mut impl Player<V>, case: &V) -> Result<usize, String> {
    each_packet(player, case, |packet, fate| packet.check(fate).map(|()| 0))
}

/// Plays a case like [`play`], and checks that another verdict, or another value of any octet, makes each packet fail.
/// Gives the number of these changes.
///
/// # Errors
/// The errors of [`play`], or a change that made no difference.
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

/// Plays each case for this plane. Gives the number of cases, and the sum of the results of `play`.
///
/// # Panics
/// A case failed. The message lists all differences.
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

/// The cases of every file of a format, in order of file names.
///
/// # Panics
/// The folder or a file cannot be read. Without the panic, the tests would pass and test nothing.
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

/// Compares a value of a plane with the value in a case.
///
/// # Errors
/// The values differ. The error describes the difference.
pub fn compare<T: PartialEq + Debug + ?Sized>(
    what: &str,
    seen: &T,
    said: &T,
) -> Result<(), String> {
    if seen == said { Ok(()) } else { Err(format!("{what}: {seen:?}, and not {said:?}")) }
}

/// The default of `planes`: both.
fn both() -> Vec<String> {
    vec!["kernel".into(), "user".into()]
}
