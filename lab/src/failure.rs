//! Ways to break a network.

use std::time::Instant;

use anyhow::Context as _;

use crate::lab::Lab;
use crate::netns::{Namespace, Waiting};
use crate::topology::End;

/// A failure of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A router drops all packets that it should forward, and says nothing: no ICMP, no link event.
    Silent {
        /// Name of the router.
        router: String,
    },
    /// A router drops `percent` of the packets that it should forward, each by chance.
    Lossy {
        /// Name of the router.
        router: String,
        /// Loss in percent, in each direction.
        percent: u8,
    },
    /// A node sees a link lose its carrier: the other end is switched off.
    CarrierDown {
        /// The node that sees the loss of carrier.
        node: String,
        /// Interface of the node.
        interface: String,
    },
}

/// A failure that can happen at once. Its commands run already and wait for their input, so a busy machine has no
/// program to start between the decision and the failure.
#[derive(Debug)]
pub struct Armed {
    failure: Failure,
    commands: Vec<(Waiting, String)>,
}

impl Armed {
    /// Makes the failure happen. Gives the moment just before, so a time measured from there is never too short.
    ///
    /// # Errors
    /// The network has this failure already.
    pub fn strike(self) -> anyhow::Result<Instant> {
        let at = Instant::now();
        for (command, script) in self.commands {
            command.feed(&script).with_context(|| format!("bring about {:?}", self.failure))?;
        }
        Ok(at)
    }
}

impl Lab {
    /// Arms a failure and makes it happen. Gives the moment just before the failure.
    ///
    /// # Errors
    /// There is no such node or interface, or the network has this failure already.
    pub fn fail(&self, failure: Failure) -> anyhow::Result<Instant> {
        self.arm(failure)?.strike()
    }

    /// Prepares a failure.
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

    /// The command and script by which a router drops the packets that this nftables match selects.
    fn drops(&self, router: &str, rule: &str) -> anyhow::Result<Vec<(Waiting, String)>> {
        let script = format!("{CUT}add rule ip6 cut forward {rule}counter drop\n");
        Ok(vec![(self.namespace(router)?.waiting_nft()?, script)])
    }

    /// The interfaces that go down when a node is to lose its carrier: the far end of the cable and, if a wire is
    /// between, the near end of the wire, because a wire does not pass on the carrier.
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

/// "create" fails if the table exists: a scenario that breaks a router twice is wrong.
const CUT: &str = "create table ip6 cut\n\
    add chain ip6 cut forward { type filter hook forward priority -10; }\n";
