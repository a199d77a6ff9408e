use anyhow::Context as _;
use moorline_api::EventKind;
use moorline_host::Evidence;
use moorline_link::{Echo, EchoSocket};
use std::future;
use std::net::Ipv6Addr;

use crate::addresses::told_of;
use crate::clock;
use crate::shell::Daemon;

/// Asks hosts by each uplink, if there are any to ask.
pub(crate) struct Targets(Option<EchoSocket>);

impl Targets {
    pub(crate) fn open(targets: &[Ipv6Addr]) -> anyhow::Result<Self> {
        let socket = (!targets.is_empty()).then(|| EchoSocket::open(targets.to_vec()));
        Ok(Self(socket.transpose().context("raw socket for uplink-probes")?))
    }

    pub(crate) fn ask(
        &self,
        ifindex: u32,
        source: Ipv6Addr,
        target: Ipv6Addr,
        nonce: u64,
    ) -> anyhow::Result<()> {
        let socket = self.0.as_ref().context("there is nobody to ask")?;
        socket.ask(ifindex, source, target, nonce).context("no request by an uplink")
    }

    pub(crate) async fn next(&self) -> std::io::Result<Echo> {
        match &self.0 {
            Some(socket) => socket.receive().await,
            None => future::pending().await,
        }
    }
}

impl Daemon {
    /// Says which uplinks carry nothing, if they are others than before.
    pub(crate) fn tell_health(&mut self) {
        let failing = self.host.failing_uplinks();
        let name = |ifindex: &u32| {
            let uplink = self.host.view().uplink(*ifindex);
            uplink.map_or_else(|| ifindex.to_string(), |uplink| uplink.name.clone())
        };
        for ifindex in failing.difference(&self.failing) {
            let told = told_of(self.host.evidence(*ifindex));
            let what = format!("{told}{}", self.where_new_go_without(*ifindex));
            self.tell_uplink(EventKind::UplinkFailing, &name(ifindex), &what);
        }
        let view = self.host.view();
        let is_there = |ifindex: &&u32| view.uplink(**ifindex).is_some_and(|one| one.carrier);
        let avoided = self.host.avoided_uplinks();
        for ifindex in self.avoided.difference(&avoided).filter(is_there) {
            // Of an uplink that did not fail, the wait for its carrier alone has ended.
            let evidence = self.host.evidence(*ifindex);
            let what = match evidence.filter(|_| self.failing.contains(ifindex)) {
                None => "is for new connections again".to_owned(),
                Some(Evidence::Short) => {
                    format!("answers again, and {NO_BETTER}{}", self.where_new_go())
                }
                Some(_) => {
                    format!(
                        "still carries nothing, but {NO_BETTER} any more{}",
                        self.where_new_go()
                    )
                }
            };
            self.tell_uplink(EventKind::UplinkBack, &name(ifindex), &what);
        }
        (self.failing, self.avoided) = (failing, avoided);
    }

    pub(crate) fn on_echo(&mut self, echo: std::io::Result<Echo>) -> anyhow::Result<()> {
        let Echo { from, local, nonce } = echo.context("answers to uplink-probes")?;
        self.host.handle_echo(local, from, nonce, clock::now());
        Ok(())
    }
}

/// Said of an uplink against which there is evidence, when there is no less against all others.
const NO_BETTER: &str = "no other uplink is better";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uplink_that_answers_again_is_not_said_to_carry_nothing() {
        let short = told_of(Some(Evidence::Short));
        assert!(short.contains("answered again") && !short.contains("nothing"), "{short}");
        for evidence in [Evidence::Hosts, Evidence::Peers, Evidence::Router].map(Some) {
            assert!(told_of(evidence).starts_with("carries nothing ("), "{evidence:?}");
        }
    }
}
