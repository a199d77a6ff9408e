use moorline_addresses::{Uplink, UplinkAddress};
use moorline_api::{ErrorBody, Net, NumbersQuery, PathRule, Preference, Scope};
use moorline_contexts as host;
use moorline_host::{LocatorRule, Place};
use moorline_types::{ContextId, Locator, Prefix};
use moorline_wire::LocatorPreference;

use super::{Draft, Granted, Who, denied};
use crate::clock;
use crate::shell::Daemon;

/// Rules from the control socket at a time.
const MAX_RULES: usize = 256;

/// Priorities that peers are told, as in DNS SRV: the lower first.
const PREFERRED: u8 = 10;
const NEUTRAL: u8 = 20;
const AVOIDED: u8 = 30;

impl Daemon {
    /// The rules of the configuration and those that were asked for, which count first.
    pub(crate) fn rules(&self) -> Vec<PathRule> {
        self.steer.asked.iter().chain(&self.config.paths).cloned().collect()
    }

    /// Adds or removes a rule. The answer has no outcomes, and so one page.
    pub(crate) fn change_rule(&mut self, rule: PathRule, _: NumbersQuery, who: Who) -> Granted {
        self.check_rule(&rule)?;
        let ends = [rule.local.clone(), rule.peer.map(|net| net.to_string())];
        let [local, peer] = ends.map(|end| end.unwrap_or_else(|| "any".to_owned()));
        let (scope, text) = (rule.scope, format!("{} {local} -> {peer}", rule.preference));
        let what = (scope, &rule.local, rule.peer);
        let asked = &mut self.steer.asked;
        let before = asked.len();
        asked.retain(|old| (old.scope, &old.local, old.peer) != what);
        let was_there = asked.len() < before;
        let is_lasting =
            self.config.paths.iter().any(|old| (old.scope, &old.local, old.peer) == what);
        if rule.preference == Preference::Neutral && !is_lasting {
            if !was_there {
                let help = "`moorline path list` shows those that there are";
                return Err(denied("there is no such rule", help));
            }
        } else if asked.len() >= MAX_RULES {
            let error = format!("there are {MAX_RULES} rules already");
            return Err(denied(error, "take some back with `moorline path neutral`"));
        } else {
            asked.push(PathRule { origin: format!("uid {}", who.uid), ..rule });
        }
        self.note(scope, who, &text);
        self.apply_rules();
        Ok(Draft::default())
    }

    fn check_rule(&self, rule: &PathRule) -> Result<(), ErrorBody> {
        if let Preference::Other(text) = &rule.preference {
            let error = format!("\"{text}\" is no preference");
            return Err(denied(error, "say prefer, avoid or neutral"));
        }
        if let Scope::Context(_) = rule.scope {
            self.in_scope(rule.scope, NumbersQuery::default(), |_| true)?;
        }
        if rule.local.is_none() && rule.peer.is_none() {
            return Err(denied(
                "a rule for all pairs changes nothing",
                "name an uplink, an address or a prefix of ours, or one of the peer's",
            ));
        }
        if let Some(local) = &rule.local
            && local.parse::<Net>().is_err()
            && !self.host.view().uplinks.iter().any(|uplink| uplink.name == *local)
        {
            let error = format!("{local} is no uplink, no address and no prefix");
            return Err(denied(error, "`moorline status` shows the uplinks"));
        }
        if rule.tell_peer && (rule.scope != Scope::All || rule.peer.is_some()) {
            return Err(denied(
                "peers are told the same of our locators, whoever they are",
                "leave the scope and the peer's end out, or do not tell peers",
            ));
        }
        Ok(())
    }

    /// Tells the machine what the rules are now: they may name uplinks, whose addresses come and go.
    pub(crate) fn apply_rules(&mut self) {
        let rules = self.rules();
        let resolved: Vec<_> = rules.iter().flat_map(|rule| self.resolve(rule)).collect();
        let now = clock::now();
        self.host.shim6_mut().set_path_rules(resolved, now);
        let of_locators = rules.iter().filter_map(locator_rule).collect();
        self.host.set_locator_rules(of_locators, now);
        let told = self.preferences(&rules);
        if told != self.steer.told {
            self.host.shim6_mut().set_preferences(&told, now);
            self.steer.told = told;
            // The next run has to know whether peers were told any.
            self.contexts_changed = true;
        }
    }

    fn resolve(&self, rule: &PathRule) -> Vec<host::PathRule> {
        let scope = match rule.scope {
            Scope::All => host::Scope::Peer(Prefix::ALL),
            Scope::Context(id) => host::Scope::Context(ContextId(id)),
            Scope::Peer(net) => host::Scope::Peer(net.0),
        };
        let preference = machine_preference(&rule.preference);
        let peer = rule.peer.map_or(Prefix::ALL, |net| net.0);
        let locals = self.locals(rule.local.as_deref());
        locals.into_iter().map(|local| host::PathRule { scope, local, peer, preference }).collect()
    }

    /// The prefixes of an uplink, or the one that is named.
    fn locals(&self, local: Option<&str>) -> Vec<Prefix> {
        let Some(local) = local else { return vec![Prefix::ALL] };
        if let Ok(Net(prefix)) = local.parse() {
            return vec![prefix];
        }
        let uplinks = self.host.view().uplinks.iter().filter(|uplink| uplink.name == local);
        let addresses = uplinks.flat_map(|uplink| &uplink.addresses);
        let mut prefixes: Vec<_> = addresses.map(UplinkAddress::prefix).collect();
        prefixes.dedup();
        prefixes
    }

    /// What peers are to think of our locators; nothing, unless a rule says that they are told.
    fn preferences(&self, rules: &[PathRule]) -> Vec<(Locator, LocatorPreference)> {
        let telling = rules.iter().filter(|rule| rule.tell_peer).filter_map(locator_rule);
        let telling: Vec<_> = telling.collect();
        if telling.is_empty() {
            return Vec::new();
        }
        let preference = |uplink: &Uplink, own: &UplinkAddress| {
            let priority = match LocatorRule::narrowest(&telling, uplink, own) {
                host::Preference::Prefer => PREFERRED,
                host::Preference::Avoid => AVOIDED,
                host::Preference::Neutral => NEUTRAL,
            };
            LocatorPreference { priority: Some(priority), ..LocatorPreference::default() }
        };
        let mut told = Vec::new();
        for uplink in &self.host.view().uplinks {
            let own = uplink.addresses.iter();
            let present = own.filter(|own| self.address_views().is_present(own.address));
            told.extend(present.map(|own| (Locator(own.address), preference(uplink, own))));
        }
        told
    }
}

/// The part of a rule that is about our locators, for every peer.
fn locator_rule(rule: &PathRule) -> Option<LocatorRule> {
    let local = rule.local.as_ref().filter(|_| rule.scope == Scope::All && rule.peer.is_none())?;
    let place = match local.parse::<Net>() {
        Ok(net) => Place::Prefix(net.0),
        Err(_) => Place::Uplink(local.clone()),
    };
    Some(LocatorRule { place, preference: machine_preference(&rule.preference) })
}

const fn machine_preference(preference: &Preference) -> host::Preference {
    match preference {
        Preference::Prefer => host::Preference::Prefer,
        Preference::Avoid => host::Preference::Avoid,
        Preference::Neutral | Preference::Other(_) => host::Preference::Neutral,
    }
}
