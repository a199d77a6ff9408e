use anyhow::Context as _;
use moorline_addresses::{Action, HostView, Lifetimes, Note};
use moorline_api::EventKind;
use moorline_host::Carriers;
use moorline_netlink::{AddressSpec, Advertisements};
use moorline_types::Instant;

use crate::clock;
use crate::shell::Daemon;

/// Following the host's links, addresses and routers.
impl Daemon {
    /// The host is different now. Contexts and sessions leave what is gone before anything else is done about it.
    pub(crate) async fn on_view(
        &mut self,
        mut view: HostView,
        routers: &mut Advertisements,
    ) -> anyhow::Result<()> {
        view.leave_alone(|name| self.config.uses(name));
        view.uplinks.iter_mut().for_each(|uplink| self.addresses.plans.tell_advertisers(uplink));
        self.introductions.follow(&view);
        self.host.handle_view(view, clock::now());
        self.pump().await;
        self.follow(routers).await
    }

    /// Brings the host's addresses, rules and programs in step with what is known now.
    pub(crate) async fn follow(&mut self, routers: &mut Advertisements) -> anyhow::Result<()> {
        self.follow_deaf(routers);
        let now = clock::now();
        self.host.note_in_use();
        let plan = self.addresses.plan(self.host.view(), self.view_at(), &self.store, now);
        self.host.set_advertisers(|uplink| self.addresses.plans.tell_advertisers(uplink));
        for note in plan.notes {
            self.tell_note(note);
        }
        let ruled = self.ensure_rules().await.context("source-address rules");
        // No packet leaves from an address whose prefix has no rule.
        for action in plan.actions.iter().filter(|_| ruled.is_ok()) {
            // An interface may be gone again by now; the next view tells.
            match self.carry_out_action(action, routers).await {
                Ok(()) => self.addresses.plans.handle_done(action, clock::now()),
                Err(error) => {
                    tracing::debug!("{error:#}");
                    tracing::warn!(
                        "an address of an uplink could not be changed: {}",
                        error.root_cause()
                    );
                    self.addresses.plans.handle_failed(clock::now());
                }
            }
        }
        // Most of the time there is none: each control is back as soon as its address is there.
        if let Err(error) = self.netlink.restore_controls().await {
            tracing::debug!(%error, "system controls");
            self.addresses.plans.handle_failed(clock::now());
        }
        if let Err(error) = self.netlink.ensure_labels(&plan.outranked).await {
            tracing::warn!("new connections may take an address that cannot move: {error}");
            self.addresses.plans.handle_failed(clock::now());
        }
        let attached = self.attach();
        // Packets to the addresses of an uplink without programs would be lost: peers are not told of these.
        let carried = self.host.view().only_on(&self.attached);
        let proof = self.addresses.local_proof(&carried, &self.store, now);
        let carries_ilnp = self.ilnp.as_ref().map(|ilnp| ilnp.attached().clone());
        let carriers =
            Carriers { shim6: self.attached.clone(), ilnp: carries_ilnp.unwrap_or_default() };
        self.host.handle_ready(proof, carriers, clock::now());
        self.apply_rules();
        self.host.follow(clock::now());
        self.pump().await;
        self.follow_default_ways().await;
        ruled.and(attached)
    }

    /// Brings the routing rules in step with the view and the addresses in use, and tells once of prefixes that have none.
    pub(crate) async fn ensure_rules(&mut self) -> Result<(), moorline_netlink::Error> {
        let rules = self.netlink.ensure_rules(self.host.view()).await?;
        if let Some(news) = self.addresses.handle_unserved(rules.unserved) {
            tracing::warn!("{news}");
            self.events.push(EventKind::Warning, |told| told.reason = Some(news));
        }
        Ok(())
    }

    /// When the view was taken.
    pub(crate) fn view_at(&self) -> Instant {
        self.host.view_at().unwrap_or_else(clock::now)
    }

    async fn carry_out_action(
        &self,
        action: &Action,
        routers: &mut Advertisements,
    ) -> anyhow::Result<()> {
        match *action {
            Action::Solicit { ifindex } => routers.solicit(ifindex),
            Action::Add { ifindex, address, preferred } => {
                // CGAs and HBAs hardly ever collide, which is what RFC 4429 asks for.
                let spec = AddressSpec {
                    optimistic: true,
                    lifetimes: Lifetimes { preferred, valid: u32::MAX },
                    ..AddressSpec::new(address, PREFIX_LEN)
                };
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
