use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use anyhow::Context as _;
use moorline_addresses::{Action, HostView, Note, RETRY};
use moorline_api::EventKind;
use moorline_netlink::{AddressSpec, Advertisements};
use moorline_types::Locator;

use super::Addresses;
use crate::clock;
use crate::ilnp::Ilnp;
use crate::shell::Daemon;

/// Following the host's links, addresses and routers.
impl Daemon {
    /// The host is different now.
    pub(crate) async fn on_view(
        &mut self,
        mut view: HostView,
        routers: &mut Advertisements,
    ) -> anyhow::Result<()> {
        view.leave_alone(|name| self.config.uses(name));
        self.introductions.follow(&view);
        if let Some(ilnp) = &mut self.ilnp {
            ilnp.own_addresses_only(&mut view);
        }
        (self.view, self.view_at) = (view, clock::now());
        self.follow_locators().await;
        self.leave_lost().await;
        self.follow(routers).await
    }

    /// Contexts leave what is gone before anything else is done about it: rules, signatures and routes
    /// take their time.
    //= rfc5534#3.2-2
    async fn leave_lost(&mut self) {
        let now = clock::now();
        let usable = Addresses::usable(&self.view);
        let is_lost = |own: &&Locator| !usable.contains(own);
        let lost: Vec<_> = self.host.shim6().usable().iter().filter(is_lost).copied().collect();
        if !lost.is_empty() {
            self.host.shim6_mut().handle_lost(&lost, now);
            self.pump().await;
        }
    }

    /// Brings the host's addresses, rules and programs in step with what is known now.
    pub(crate) async fn follow(&mut self, routers: &mut Advertisements) -> anyhow::Result<()> {
        self.follow_deaf(routers);
        let now = clock::now();
        self.view.in_use = self.addresses_in_use();
        let plan = self.addresses.plan(&self.view, self.view_at, &self.store, now);
        self.addresses.tell_advertisers(&mut self.view);
        for note in plan.notes {
            self.tell_note(note);
        }
        let ruled = self.ensure_rules().await.context("source-address rules");
        // No packet leaves from an address whose prefix has no rule.
        for action in plan.actions.iter().filter(|_| ruled.is_ok()) {
            // An interface may be gone again by now; the next view tells.
            match self.carry_out_action(action, routers).await {
                Ok(()) => self.addresses.planner.on_done(action, clock::now()),
                Err(error) => {
                    tracing::warn!("{error:#}");
                    self.addresses.look_again(clock::now() + RETRY);
                }
            }
        }
        // Most of the time there is none: each control is back as soon as its address is there.
        if let Err(error) = self.netlink.restore_controls().await {
            tracing::debug!(%error, "system controls");
            self.addresses.look_again(clock::now() + RETRY);
        }
        if let Err(error) = self.netlink.ensure_labels(&plan.outranked).await {
            tracing::warn!("new connections may take an address that cannot move: {error}");
            self.addresses.look_again(clock::now() + RETRY);
        }
        let attached = self.attach();
        let local = self.addresses.local_state(&self.view, &self.store, now);
        self.host.shim6_mut().handle_local(&local, clock::now());
        self.apply_rules();
        self.follow_locators().await;
        self.host.shim6_mut().handle_deprecated(&Addresses::deprecated(&self.view), clock::now());
        self.pump().await;
        self.follow_routers().await;
        self.keep_ulids().await;
        ruled.and(attached)
    }

    /// Brings the routing rules in step with the view and the addresses in use, and tells once of prefixes that have none.
    pub(crate) async fn ensure_rules(&mut self) -> Result<(), moorline_netlink::Error> {
        let rules = self.netlink.ensure_rules(&self.view).await?;
        if let Some(news) = self.addresses.handle_unserved(rules.unserved) {
            tracing::warn!("{news}");
            self.events.push(EventKind::Warning, |told| told.reason = Some(news));
        }
        Ok(())
    }

    /// Addresses of ours that contexts and sessions have as ULIDs or locators.
    pub(crate) fn addresses_in_use(&self) -> BTreeSet<Ipv6Addr> {
        let established = self.host.shim6().contexts().filter_map(|context| {
            let established = context.established?;
            Some([context.ulids.local.0, established.locators.local.0])
        });
        let sessions = self.ilnp.iter().flat_map(Ilnp::local_addresses).map(|ulid| ulid.0);
        established.flatten().chain(sessions).collect()
    }

    async fn carry_out_action(
        &self,
        action: &Action,
        routers: &mut Advertisements,
    ) -> anyhow::Result<()> {
        match *action {
            Action::Solicit { ifindex } => routers.solicit(ifindex),
            Action::Add { ifindex, address } => {
                // CGAs and HBAs hardly ever collide, which is what RFC 4429 asks for.
                let spec =
                    AddressSpec { optimistic: true, ..AddressSpec::new(address, PREFIX_LEN) };
                self.netlink.add_address_with(ifindex, spec).await?;
            }
            Action::SetLifetimes { ifindex, address, lifetimes } => {
                let spec = AddressSpec { lifetimes, ..AddressSpec::new(address, PREFIX_LEN) };
                self.netlink.add_address_with(ifindex, spec).await?;
            }
            Action::Remove { ifindex, address } => {
                self.netlink.remove_address(ifindex, address, PREFIX_LEN).await?;
            }
        }
        Ok(())
    }

    fn tell_note(&self, note: Note) {
        let (kind, text) = match note {
            Note::News(text) => {
                tracing::info!("{text}");
                (EventKind::LocatorsChanged, text)
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
