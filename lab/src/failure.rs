//! Ways to break a network, and to mend it.

use std::time::Instant;

use anyhow::Context as _;

use crate::lab::Lab;
use crate::topology::Prefix;

/// Something that breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A router drops all that it should forward, and says nothing: no ICMP, no link event.
    Silent {
        /// Which router.
        router: String,
    },
    /// A router silently drops what comes in on one interface; the other direction works.
    OneWay {
        /// Which router.
        router: String,
        /// Where the packets come in.
        from: String,
    },
    /// A link loses its carrier, seen from a node: the other end is switched off.
    CarrierDown {
        /// The node that sees the carrier go.
        node: String,
        /// Its interface.
        interface: String,
    },
    /// A host loses an address, as when a prefix is withdrawn.
    AddressRemoved {
        /// The host.
        node: String,
        /// Its interface.
        interface: String,
        /// The address and its prefix length.
        address: Prefix,
    },
}

/// A failure that is in force.
#[derive(Debug)]
#[must_use = "a failure stays until it is healed"]
pub struct Fault {
    failure: Failure,
    /// Just before it began: what is measured from here is never flattered.
    pub at: Instant,
}

impl Lab {
    /// Breaks something.
    ///
    /// # Errors
    /// There is no such node or interface, or it is broken already.
    pub fn fail(&self, failure: Failure) -> anyhow::Result<Fault> {
        let at = Instant::now();
        self.apply(&failure).with_context(|| format!("bring about {failure:?}"))?;
        Ok(Fault { failure, at })
    }

    /// Mends what broke.
    ///
    /// # Errors
    /// What was broken is gone.
    pub fn heal(&self, fault: Fault) -> anyhow::Result<()> {
        let Fault { failure, .. } = fault;
        self.revert(&failure).with_context(|| format!("heal {failure:?}"))
    }

    fn apply(&self, failure: &Failure) -> anyhow::Result<()> {
        match failure {
            Failure::Silent { router } => self.namespace(router)?.nft(&drop_rule(failure, "")),
            Failure::OneWay { router, from } => {
                self.namespace(router)?.nft(&drop_rule(failure, &format!("iifname \"{from}\" ")))
            }
            Failure::CarrierDown { node, interface } => {
                self.switch_far_end(node, interface, "down")
            }
            Failure::AddressRemoved { node, interface, address } => {
                let address = address.to_string();
                self.namespace(node)?.ip(&["addr", "del", &address, "dev", interface]).map(drop)
            }
        }
    }

    fn revert(&self, failure: &Failure) -> anyhow::Result<()> {
        match failure {
            Failure::Silent { router } | Failure::OneWay { router, .. } => {
                self.namespace(router)?.nft(&format!("delete table ip6 {}\n", table_name(failure)))
            }
            Failure::CarrierDown { node, interface } => {
                self.switch_far_end(node, interface, "up")?;
                let far = self.far_end(node, interface)?.0;
                self.restore_routes(far)?;
                self.restore_routes(node)
            }
            Failure::AddressRemoved { node, interface, address } => {
                let address = address.to_string();
                self.namespace(node)?.ip(&["addr", "add", &address, "dev", interface, "nodad"])?;
                self.restore_routes(node)
            }
        }
    }

    fn switch_far_end(&self, node: &str, interface: &str, state: &str) -> anyhow::Result<()> {
        // A wire does not pass on that the carrier went: it goes at its near end too.
        self.wires().switch(self.topology(), node, interface, state)?;
        let (node, interface) = self.far_end(node, interface)?;
        self.namespace(node)?.ip(&["link", "set", "dev", interface, state]).map(drop)
    }

    fn far_end(&self, node: &str, interface: &str) -> anyhow::Result<(&str, &str)> {
        let ends = self.topology().links.iter().flat_map(|link| {
            let [left, right] = &link.ends;
            [(left, right), (right, left)]
        });
        ends.filter(|(near, _)| near.node == node && near.interface == interface)
            .map(|(_, far)| (far.node.as_str(), far.interface.as_str()))
            .next()
            .with_context(|| format!("node {node} has no interface {interface}"))
    }
}

/// A table of its own for each failure, so that several can be in force in one router.
fn drop_rule(failure: &Failure, condition: &str) -> String {
    let table = table_name(failure);
    // "create" fails when the table exists: breaking twice is a mistake in a scenario.
    format!(
        "create table ip6 {table}\n\
         add chain ip6 {table} forward {{ type filter hook forward priority -10; }}\n\
         add rule ip6 {table} forward {condition}counter drop\n"
    )
}

fn table_name(failure: &Failure) -> String {
    match failure {
        Failure::OneWay { from, .. } => format!("cut_from_{from}"),
        Failure::Silent { .. } | Failure::CarrierDown { .. } | Failure::AddressRemoved { .. } => {
            "cut".into()
        }
    }
}
