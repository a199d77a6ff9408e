use std::sync::Arc;

use anyhow::{bail, ensure};
use moorline_api::{IlnpPolicy, Net};
use moorline_bpf::ilnp::IlnpSettings;
use moorline_datapath::ilnp::Wanted;
use moorline_ilnp::consts::MAX_WITH_NODE;
use moorline_ilnp::{Admit, Config, Initiate, NonceLen, Open, Policy, share_of_locator};
use moorline_types::Prefix;
use moorline_wire::ilnp::AdmissionTypes;
use moorline_wire::ilnp::consts::{ADMISSION_INITIATOR, ADMISSION_RESPONDER};
use serde::Deserialize;

use super::{File, IDLE, net, span, within};

/// Configuration of ILNPv6.
#[derive(Clone, Debug)]
pub struct IlnpConfig {
    /// Policy for entries of correspondents.
    pub policy: IlnpPolicy,
    /// Largest number of entries of the correspondent cache.
    pub max_sessions: u32,
    /// Configuration of the sessions.
    pub machine: Config,
    /// Names of peers to look up in the DNS.
    pub peers: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Switch {
    On,
    #[default]
    Off,
}

/// Parses the keys of ILNP, also if ILNP is off. Returns `None` if ILNP is off.
pub(super) fn parse(file: &File) -> anyhow::Result<Option<IlnpConfig>> {
    let nonce_len = match file.ilnp_nonce_bits.unwrap_or(32) {
        32 => NonceLen::Short,
        96 => NonceLen::Long,
        bits => bail!("ilnp-nonce-bits: {bits} is neither 32 nor 96"),
    };
    let [initiator, responder] =
        file.ilnp_icmp_types.unwrap_or([ADMISSION_INITIATOR, ADMISSION_RESPONDER]);
    ensure!(
        initiator != responder && [initiator, responder].iter().all(is_experimental),
        "ilnp-icmp-types: two different ones of 128 to 255 are needed, of which no standard says what they are"
    );
    let most_with_node = u32::try_from(MAX_WITH_NODE).unwrap_or(u32::MAX);
    let max_sessions = file.ilnp_max_sessions.unwrap_or(65_536);
    let max_sessions = within("ilnp-max-sessions", max_sessions, &(1..=MOST_SESSIONS))?;
    let max_with_node = file.ilnp_max_with_node.unwrap_or(16);
    let max_with_node = bound(within("ilnp-max-with-node", max_with_node, &(1..=most_with_node))?);
    let max_with_locator = match file.ilnp_max_with_locator {
        Some(count) => bound(within("ilnp-max-with-locator", count, &(1..=MOST_SESSIONS))?),
        None => share_of_locator(bound(max_sessions)),
    };
    ensure!(
        file.ilnp_peers.len() <= MAX_PEERS,
        "ilnp-peers: {} names, and {MAX_PEERS} are the most",
        file.ilnp_peers.len()
    );
    check_names(&file.ilnp_peers)?;
    ensure!(
        file.ilnp_initiate == Initiate::Handshake || !file.ilnp_peers.is_empty(),
        "ilnp-initiate: \"dns\" is about the peers in ilnp-peers, and there is none; write for example \
         ilnp-peers = [\"host2.example.com\"]"
    );
    let admit = Admit { max_sessions: bound(max_sessions), max_with_node, max_with_locator };
    let (policy, of_machine): (_, Arc<dyn Policy>) = match &file.ilnp_policy {
        None | Some(IlnpPolicy::Admit) => (IlnpPolicy::Admit, Arc::new(admit)),
        Some(IlnpPolicy::Open) => (IlnpPolicy::Open, Arc::new(Open)),
        Some(IlnpPolicy::Other(other)) => {
            bail!("ilnp-policy: \"{other}\" is neither \"admit\" nor \"open\"")
        }
    };
    let machine = Config {
        policy: of_machine,
        max_sessions: bound(max_sessions),
        max_with_node,
        initiate: file.ilnp_initiate,
        nonce: file.ilnp_nonce,
        nonce_len,
        checksum: file.ilnp_checksum,
        idle_timeout: span("ilnp-idle", file.ilnp_idle.as_ref(), IDLE)?,
        types: AdmissionTypes { initiator, responder },
        older_updates: older_updates(&file.ilnp_older_locator_updates)?,
    };
    let peers = file.ilnp_peers.clone();
    let is_on = file.ilnp == Switch::On;
    Ok(is_on.then_some(IlnpConfig { policy, max_sessions, machine, peers }))
}

/// Parses the peers whose Locator Updates may have the older form.
fn older_updates(peers: &[String]) -> anyhow::Result<Vec<Prefix>> {
    let key = "ilnp-older-locator-updates";
    let count = peers.len();
    ensure!(count <= MAX_OLDER, "{key}: {count} peers, and {MAX_OLDER} are the most");
    peers.iter().map(|peer| net(key, peer).map(|Net(prefix)| prefix)).collect()
}

#[cfg(feature = "dns")]
fn check_names(names: &[String]) -> anyhow::Result<()> {
    use anyhow::Context as _;
    names.iter().try_for_each(|name| moorline_dns::parse_name(name).map(drop).context("ilnp-peers"))
}

#[cfg(not(feature = "dns"))]
fn check_names(names: &[String]) -> anyhow::Result<()> {
    ensure!(
        names.is_empty(),
        "ilnp-peers: this moorlined was built without the DNS (feature `dns`)"
    );
    Ok(())
}

/// Whether an ICMPv6 type is free: not an error message, not assigned by IANA, and not reserved for expansion.
fn is_experimental(kind: &u8) -> bool {
    (LAST_ASSIGNED + 1..u8::MAX).contains(kind)
}

impl IlnpConfig {
    /// Makes the settings of ILNP's data plane, with the settings shared with Shim6's data plane.
    pub(crate) fn datapath(&self, shared: &moorline_bpf::Settings) -> IlnpSettings {
        IlnpSettings {
            max_sessions: self.max_sessions,
            wanted: match self.policy {
                IlnpPolicy::Open => Wanted::All,
                IlnpPolicy::Admit | IlnpPolicy::Other(_) => Wanted::Connected,
            },
            types: self.machine.types,
            checksum: self.machine.checksum,
            pin_dir: shared.pin_dir.clone(),
            attach: shared.attach,
        }
    }
}

fn bound(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

const MOST_SESSIONS: u32 = 1 << 24;
/// Highest ICMPv6 type assigned by IANA: Extended Echo Reply (RFC 8335).
const LAST_ASSIGNED: u8 = 161;
/// Largest number of names to look up; each look-up repeats after the TTL.
const MAX_PEERS: usize = 256;
/// Largest number of entries in `ilnp-older-locator-updates`: the machine compares each such update with all entries.
const MAX_OLDER: usize = 64;

#[cfg(test)]
mod tests {
    use moorline_types::Prefix;

    use crate::config::Config;

    #[test]
    fn peers_that_send_the_older_locator_update_are_addresses_and_prefixes() {
        let older = |text: &str| {
            let config = Config::parse(&format!("ilnp = \"on\"\n{text}")).expect("valid");
            config.ilnp.expect("on").machine.older_updates
        };
        assert_eq!(older(""), []);
        let text = "ilnp-older-locator-updates = [\"2001:db8::7\", \"2001:db8:1::/48\"]";
        let address = |text: &str| text.parse().expect("an address");
        let expected =
            [Prefix::new(address("2001:db8::7"), 128), Prefix::new(address("2001:db8:1::"), 48)];
        assert_eq!(older(text), expected);
        let many = vec!["\"2001:db8::7\""; 65].join(", ");
        let error = Config::parse(&format!("ilnp-older-locator-updates = [{many}]"));
        assert!(format!("{:#}", error.expect_err("too many")).contains("64 are the most"));
    }
}
