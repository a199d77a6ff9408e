use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use anyhow::Context as _;
use moorline_addresses::{Action, Lifetimes, Note};
use moorline_api::EventKind;
use moorline_cga::LocalAddresses;
use moorline_netlink::AddressSpec;

use super::save;
use crate::shell::Daemon;

/// Execution of effects about addresses of the host.
impl Daemon {
    /// Updates the routing rules to the view and the addresses in use, and warns once about prefixes without a rule.
    pub(crate) async fn follow_rules(&mut self) -> anyhow::Result<()> {
        let rules = self.netlink.ensure_rules(self.host.view()).await;
        let rules = rules.context("source-address rules")?;
        if let Some(news) = self.addresses.handle_unserved(rules.unserved) {
            tracing::warn!("{news}");
            self.events.push(EventKind::Warning, |told| told.reason = Some(news));
        }
        Ok(())
    }

    /// Writes the parameters of all addresses.
    pub(crate) fn save_addresses(&self) -> anyhow::Result<()> {
        let generation = self.host.proof().generation();
        self.host.addressing().map_or(Ok(()), |all| save(&self.store, all, generation))
    }

    /// Makes a new proof of these addresses. Saves its generation before peers learn of it, if the disk accepts the write.
    pub(crate) fn sign(&mut self, addresses: &LocalAddresses) -> anyhow::Result<()> {
        let proof = self.addresses.sign(addresses.clone(), self.host.proof().generation())?;
        self.host.set_proof(proof);
        self.save_addresses()
    }

    /// Gives the `outranked` addresses a lower rank than our addresses, as sources of new connections.
    pub(crate) async fn outrank(
        &self,
        outranked: &BTreeSet<(u32, Ipv6Addr)>,
    ) -> anyhow::Result<()> {
        // Usually no control is left to restore: each control is restored as soon as its address exists.
        let controls = self.netlink.restore_controls().context("system controls");
        let labels = self.netlink.ensure_labels(outranked).await;
        labels.context("new connections may take an address that cannot move").and(controls)
    }

    pub(crate) async fn change_address(&mut self, action: &Action) -> anyhow::Result<()> {
        match *action {
            Action::Solicit { ifindex } => self.routers.solicit(ifindex),
            Action::Add { ifindex, address, preferred } => {
                // RFC 4429 requires addresses that rarely collide; CGAs and HBAs do.
                let spec = AddressSpec {
                    optimistic: true,
                    lifetimes: Lifetimes { preferred, valid: u32::MAX },
                    ..AddressSpec::new(address, PREFIX_LEN)
                };
                self.netlink.add_address_with(ifindex, spec).await?;
            }
            Action::SetLifetimes { ifindex, address, lifetimes } => {
                let spec = AddressSpec { lifetimes, ..AddressSpec::new(address, PREFIX_LEN) };
                let is_set = self.netlink.set_lifetimes(ifindex, spec).await?;
                anyhow::ensure!(is_set, "it has gone, or is tentative: the next look decides");
            }
            Action::Remove { ifindex, address } => {
                self.netlink.remove_address(ifindex, address, PREFIX_LEN).await?;
            }
        }
        Ok(())
    }

    pub(crate) fn tell_note(&self, note: &Note) {
        let (kind, text) = match note {
            Note::News(text) => {
                tracing::info!("{text}");
                (EventKind::LocatorsChanged, text.clone())
            }
            Note::Duplicate { text, address } => {
                tracing::warn!("{text}");
                tracing::debug!(%address, "duplicate");
                (EventKind::Warning, format!("{text} ({address})"))
            }
        };
        self.events.push(kind, |told| told.reason = Some(text));
    }
}

/// CGAs and HBAs have prefixes of 64 bits (RFC 3972 s2, RFC 5535 s4).
const PREFIX_LEN: u8 = 64;
