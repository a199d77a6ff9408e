use moorline_api::{ErrorBody, Net, PathRule, Preference, Scope};
use moorline_contexts as contexts;
use moorline_host::{self as host, Place};
use moorline_types::{ContextId, Prefix};

use super::{Draft, Granted, Who, denied};
use crate::clock;
use crate::shell::Daemon;

/// Rules from the control socket at a time.
const MAX_RULES: usize = 256;

impl Daemon {
    /// The rules of the configuration and those that were asked for, which count first.
    pub(crate) fn rules(&self) -> Vec<PathRule> {
        self.steer.asked.iter().chain(&self.config.paths).cloned().collect()
    }

    pub(crate) fn change_rule(&mut self, rule: PathRule, who: Who) -> Granted {
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
            self.in_scope(rule.scope)?;
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

    /// Tells the host what the rules are now.
    pub(crate) fn apply_rules(&mut self) {
        let rules = self.rules().iter().map(rule_of_host).collect();
        self.host.set_path_rules(rules, clock::now());
    }
}

fn rule_of_host(rule: &PathRule) -> host::PathRule {
    let local = rule.local.as_deref();
    host::PathRule {
        scope: match rule.scope {
            Scope::All => contexts::Scope::Peer(Prefix::ALL),
            Scope::Context(id) => contexts::Scope::Context(ContextId(id)),
            Scope::Peer(net) => contexts::Scope::Peer(net.0),
        },
        local: local.map_or(Place::Prefix(Prefix::ALL), |text| match text.parse::<Net>() {
            Ok(net) => Place::Prefix(net.0),
            Err(_) => Place::Uplink(text.to_owned()),
        }),
        peer: rule.peer.map_or(Prefix::ALL, |net| net.0),
        preference: match rule.preference {
            Preference::Prefer => contexts::Preference::Prefer,
            Preference::Avoid => contexts::Preference::Avoid,
            Preference::Neutral | Preference::Other(_) => contexts::Preference::Neutral,
        },
        tells_peer: rule.tell_peer,
    }
}
