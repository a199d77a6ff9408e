//! Ways to break a network.

use std::time::Instant;

use anyhow::Context as _;

use crate::lab::Lab;
use crate::netns::{Namespace, Waiting};
use crate::topology::End;

/// Something that breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A router drops all that it should forward, and says nothing: no ICMP, no link event.
    Silent {
        /// Which router.
        router: String,
    },
    /// A router drops so many of a hundred packets that it should forward, each by chance.
    Lossy {
        /// Which router.
        router: String,
        /// Of a hundred, each way.
        percent: u8,
    },
    /// A link loses its carrier, seen from a node: the other end is switched off.
    CarrierDown {
        /// The node that sees the carrier go.
        node: String,
        /// Its interface.
        interface: String,
    },
}

/// A failure that happens as soon as it is told to: its commands run already and wait for their input, so
/// that a busy machine starts no program between the decision and the failure.
#[derive(Debug)]
pub struct Armed {
    failure: Failure,
    commands: Vec<(Waiting, String)>,
}

impl Armed {
    /// Lets it happen; gives the moment just before it began: what is measured from there is never flattered.
    ///
    /// # Errors
    /// It is broken already.
    pub fn strike(self) -> anyhow::Result<Instant> {
        let at = Instant::now();
        for (command, script) in self.commands {
            command.feed(&script).with_context(|| format!("bring about {:?}", self.failure))?;
        }
        Ok(at)
    }
}

impl Lab {
    /// Breaks something; gives the moment just before.
    ///
    /// # Errors
    /// There is no such node or interface, or it is broken already.
    pub fn fail(&self, failure: Failure) -> anyhow::Result<Instant> {
        self.arm(failure)?.strike()
    }

    /// Prepares to break something.
    ///
    /// # Errors
    /// There is no such node or interface.
    pub fn arm(&self, failure: Failure) -> anyhow::Result<Armed> {
        let commands = match &failure {
            Failure::Silent { router } => self.drops(router, ""),
            Failure::Lossy { router, percent } => {
                self.drops(router, &format!("numgen random mod 100 < {percent} "))
            }
            Failure::CarrierDown { node, interface } => {
                self.ends_seen_from(node, interface).and_then(|ends| {
                    let down = |(interface, namespace): (String, Namespace)| {
                        let script = format!("link set dev {interface} down\n");
                        Ok((namespace.waiting_ip()?, script))
                    };
                    ends.into_iter().map(down).collect()
                })
            }
        };
        let commands = commands.with_context(|| format!("prepare {failure:?}"))?;
        Ok(Armed { failure, commands })
    }

    /// A router that drops the packets that this rule of nftables matches.
    fn drops(&self, router: &str, rule: &str) -> anyhow::Result<Vec<(Waiting, String)>> {
        let script = format!("{CUT}add rule ip6 cut forward {rule}counter drop\n");
        Ok(vec![(self.namespace(router)?.waiting_nft()?, script)])
    }

    /// What has to go down for a node to lose its carrier: the far end of the cable and, as a wire does
    /// not pass that on, the near end of the wire before it.
    ///
    /// # Errors
    /// There is no such node or interface.
    pub fn ends_seen_from(
        &self,
        node: &str,
        interface: &str,
    ) -> anyhow::Result<Vec<(String, Namespace)>> {
        let is_near = |end: &End| end.node == node && end.interface == interface;
        let mut links = self.topology().links.iter().enumerate();
        let found = links.find_map(|(number, link)| {
            let side = link.ends.iter().position(is_near)?;
            Some((number, side, &link.ends[1 - side]))
        });
        let missing = || format!("node {node} has no interface {interface}");
        let (number, side, far) = found.with_context(missing)?;
        let near =
            self.wires().ends_of(number).into_iter().flat_map(|wire| wire.into_iter().nth(side));
        let far = (far.interface.clone(), self.namespace(&far.node)?.clone());
        Ok(near.chain([far]).collect())
    }
}

/// "create" fails when the table exists: breaking twice is a mistake in a scenario.
const CUT: &str = "create table ip6 cut\n\
    add chain ip6 cut forward { type filter hook forward priority -10; }\n";
