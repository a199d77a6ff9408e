//! Executes the effects of the host on Linux.

use anyhow::Context as _;
use moorline_addresses::{Lifetimes, RouteStep};
use moorline_bpf::Error;
use moorline_datapath::Plane as _;
use moorline_host::{Effect, SessionAddress};
use moorline_netlink::AddressSpec;

use crate::clock;
use crate::shell::Daemon;

impl Daemon {
    /// Executes effects until the host has no more.
    pub(crate) async fn pump(&mut self) {
        while let Some(effect) = self.host.poll_effect(clock::now()) {
            match self.execute(&effect).await {
                Ok(()) => {
                    self.troubles.settle(&effect);
                    self.host.handle_done(&effect, clock::now());
                }
                Err(error) => {
                    // The whole error chain has addresses of peers, so log it at DEBUG only.
                    tracing::debug!("{error:#}");
                    if !is_expected(&effect) {
                        self.troubles.note(&effect, &error);
                    }
                    self.host.handle_failed(&effect, clock::now());
                }
            }
        }
    }

    async fn execute(&mut self, effect: &Effect) -> anyhow::Result<()> {
        match effect {
            Effect::UpdateContext(update) => match self.datapath.apply(update, clock::now()) {
                // The data plane does not have the context: it refused the entry, or an earlier removal failed half-way.
                Err(Error::UnknownContext(_)) => {}
                done => done.context("data plane")?,
            },
            Effect::UpdateSession(update) => {
                if let Some(ilnp) = &mut self.ilnp {
                    ilnp.is_unsaved = true;
                    ilnp.datapath.apply(update, clock::now()).context("data plane of ILNP")?;
                }
            }
            Effect::SetNode(node) => self.set_node(node)?,
            Effect::Route(step) => self.change_routes(step).await?,
            Effect::AskRoutes => self.look_at_routes().await?,
            Effect::GiveUpNeighbors { ifindex } => self.give_up_neighbors(*ifindex).await?,
            Effect::FlushCachedRoutes => {
                self.netlink.flush_cached_routes().await.context("cached routes")?;
            }
            Effect::KeepUlid(ulid) => {
                self.netlink.keep_ulid(*ulid).await.context("keeping a ULID")?;
            }
            Effect::ReleaseUlid(ulid) => {
                self.netlink.release_ulid(*ulid).await.context("releasing a ULID")?;
            }
            Effect::AskForwarding => self.follow_deaf(),
            Effect::FollowRules => self.follow_rules().await?,
            Effect::SaveAddresses => self.save_addresses()?,
            Effect::ChangeAddress(action) => {
                let done = self.change_address(action).await;
                done.context("an address of an uplink could not be changed")?;
            }
            Effect::Outrank(addresses) => self.outrank(addresses).await?,
            Effect::Attach { protocol, ifindex } => self.attach(*protocol, *ifindex)?,
            Effect::Detach { protocol, ifindex } => self.detach(*protocol, *ifindex),
            Effect::AskOffloads => self.follow_offloads(),
            Effect::SetLocals(locals) => self.set_locals(locals)?,
            Effect::Sign(addresses) => self.sign(addresses)?,
            Effect::FollowPathRules => self.apply_rules(),
            Effect::FollowDefaultRoutes => self.follow_default_ways().await,
            Effect::AskTarget { ifindex, source, target, nonce } => {
                self.targets.ask(*ifindex, *source, *target, *nonce)?;
            }
            Effect::PreferRoute(way) => {
                self.tell_health();
                self.netlink.prefer_route(*way).await.context("route of an uplink that works")?;
            }
            Effect::RemoveStale => {
                self.datapath.remove_stale().context("programs of the run before")?;
            }
            Effect::AddSessionAddress(address) => self.add_session_address(*address).await?,
            Effect::RemoveSessionAddress(SessionAddress { ifindex, address }) => {
                let length = SessionAddress::PREFIX_LEN;
                let done = self.netlink.remove_address(*ifindex, *address, length).await;
                done.context("an address for sessions")?;
            }
            Effect::Introduce { ifindex, address } => {
                self.introductions.repeat(*address, *ifindex, clock::now());
            }
            Effect::SendShim6 { transmit, ifindex } => {
                let sent = self.shim6.send(&transmit.octets, transmit.locators, *ifindex);
                sent.with_context(|| format!("control packet not sent: {}", transmit.locators))?;
            }
            Effect::SendIlnp { transmit, ifindex } => {
                if let Some(ilnp) = &self.ilnp {
                    let sent = ilnp.sender.send(&transmit.packet, *ifindex);
                    sent.with_context(|| format!("message not sent from {}", transmit.source))?;
                }
            }
            Effect::NotifyTcp { ulids, mtu } => {
                self.notices.on_moved(*ulids, *mtu, clock::now());
            }
            Effect::TellAddress(note) => self.tell_note(note),
            Effect::TellContext(event) => self.tell(event),
            Effect::TellSession(event) => self.tell_ilnp(event),
            Effect::AskSockets(questions) => self.answer_ilnp(questions),
            Effect::AskUsage(question) => self.quiet.ask(*question),
        }
        Ok(())
    }

    async fn change_routes(&mut self, step: &RouteStep) -> anyhow::Result<()> {
        let is_in_slice = self.flushes.is_put_off(step);
        let netlink = &self.netlink;
        let done = match step {
            RouteStep::RemoveTcp(routes) => netlink.remove_moved_tcp(routes).await.map(drop),
            RouteStep::Add(routes) if is_in_slice => netlink.add_all_moved_unseen(routes).await,
            RouteStep::Add(routes) => netlink.add_all_moved(routes).await,
            RouteStep::LeadDirectly(routes) => netlink.lead_directly(routes).await,
            RouteStep::LeadByMoor(routes) => netlink.lead_by_moor(routes).await.map(drop),
            RouteStep::Remove(routes) => netlink.remove_moved(routes).await.map(drop),
        };
        if let RouteStep::Remove(routes) = step {
            self.forget_unbound(routes).await;
        }
        done.context("routes of what has moved")
    }

    /// Reads the kernel's routes of moved pairs, so that the host can add missing routes and remove superfluous ones.
    pub(crate) async fn look_at_routes(&mut self) -> anyhow::Result<()> {
        self.unbound.doubt();
        let there = self.netlink.moved().await.context("routes of what has moved")?;
        self.host.handle_routes(&there, clock::now());
        self.follow_default_ways().await;
        Ok(())
    }

    async fn give_up_neighbors(&self, ifindex: u32) -> anyhow::Result<()> {
        let given_up = self.netlink.give_up_neighbors(ifindex).await;
        if given_up.context("neighbours of a dead uplink")? > 0 {
            tracing::debug!(ifindex, "dropped what waited for its router");
        }
        Ok(())
    }

    /// Adds a ULID of a session as a deprecated /128 address, which new traffic does not use.
    async fn add_session_address(&mut self, made: SessionAddress) -> anyhow::Result<()> {
        let spec = AddressSpec {
            optimistic: true,
            lifetimes: Lifetimes { preferred: 0, valid: u32::MAX },
            ..AddressSpec::new(made.address, SessionAddress::PREFIX_LEN)
        };
        let added = self.netlink.add_address_with(made.ifindex, spec).await;
        if !added.context("an address for sessions")? {
            self.host.handle_address_of_others(made);
        }
        Ok(())
    }
}

/// Whether a failure of the effect needs no warning: the uplink or address may be gone, or a buffer may be full, and the host
/// tries again.
const fn is_expected(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Route(RouteStep::LeadDirectly(_))
            | Effect::GiveUpNeighbors { .. }
            | Effect::FlushCachedRoutes
            | Effect::SendShim6 { .. }
            | Effect::SendIlnp { .. }
            | Effect::AskTarget { .. }
    )
}
