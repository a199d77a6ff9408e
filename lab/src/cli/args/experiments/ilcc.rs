//! Options of `moorline-lab run ilcc` and `ilnp-flood`.

use std::time::Duration;

use crate::experiment::{IlccStudy, IlnpFlood, Layer, PlaneName, PolicyName};

/// Parameters of `ilcc`.
#[derive(Clone, Debug, clap::Args)]
pub struct IlccArgs {
    /// What handles the target's packets: user (in user space), ebpf (the kernel's programs, and a daemon).
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "user,ebpf", value_parser = parse_plane)]
    pub plane: Vec<PlaneName>,
    /// Ranks of the study's tests: how much of the traffic is made up.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0,1,2,3,4,5,6,7,8,9,10", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub ranks: Vec<u8>,
    /// Seconds of a test.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Times that each is done; the study has 10.
    #[arg(long, value_name = "N", default_value_t = IlccStudy::default().repetitions)]
    pub repetitions: usize,
    /// Who decides on entries: open, admit.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "open,admit", value_parser = parse_policy)]
    pub policies: Vec<PolicyName>,
    /// transport: with an echo service; network: idle.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "transport,network", value_parser = parse_layer)]
    pub layers: Vec<Layer>,
    /// Room for entries in the cache.
    #[arg(long, value_name = "N", default_value_t = IlccStudy::default().room, value_parser = parse_room)]
    pub room: usize,
    /// Entries up to which the cost of growth is measured; a million takes a gigabyte.
    #[arg(long, value_name = "N", default_value_t = IlccStudy::default().grow)]
    pub grow: usize,
}

impl IlccArgs {
    /// The experiment itself.
    #[must_use]
    pub fn experiment(&self) -> IlccStudy {
        IlccStudy {
            moorlined: None,
            planes: self.plane.clone(),
            ranks: self.ranks.clone(),
            length: Duration::from_secs(self.seconds),
            repetitions: self.repetitions,
            policies: self.policies.clone(),
            layers: self.layers.clone(),
            room: self.room,
            grow: self.grow,
        }
    }
}

/// Parameters of `ilnp-flood`.
#[derive(Clone, Debug, clap::Args)]
pub struct IlnpFloodArgs {
    /// Who decides on entries: admit, open.
    #[arg(long, value_name = "NAME", default_value = "admit", value_parser = parse_policy)]
    pub policy: PolicyName,
    /// Pairs of times, in a network without Moorline and in one with a session.
    #[arg(long, value_name = "N", default_value_t = IlnpFlood::default().pairs)]
    pub pairs: usize,
    /// How long each is without the flood, and as long with it.
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = humantime::parse_duration)]
    pub length: Duration,
    /// Datagrams a second of the session, each of them answered.
    #[arg(long, value_name = "N", default_value_t = IlnpFlood::default().pings, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub pings: u32,
    /// Datagrams a second of the flood; as many as a thread can send without it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub flood: Option<u64>,
}

impl IlnpFloodArgs {
    /// The experiment itself.
    #[must_use]
    pub fn experiment(&self) -> IlnpFlood {
        let Self { policy, pairs, length, pings, flood } = *self;
        IlnpFlood { moorlined: None, policy, pairs, length, pings, flood }
    }
}

fn parse_policy(text: &str) -> Result<PolicyName, &'static str> {
    let all = [PolicyName::Open, PolicyName::Admit];
    all.into_iter().find(|one| one.name() == text).ok_or("one of open, admit")
}

fn parse_plane(text: &str) -> Result<PlaneName, &'static str> {
    let all = [PlaneName::User, PlaneName::Ebpf];
    all.into_iter().find(|one| one.name() == text).ok_or("one of user, ebpf")
}

fn parse_layer(text: &str) -> Result<Layer, &'static str> {
    let all = [Layer::Transport, Layer::Network];
    all.into_iter().find(|one| one.name() == text).ok_or("one of transport, network")
}

fn parse_room(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|room| *room > 0).ok_or("a number of entries, at least 1")
}
