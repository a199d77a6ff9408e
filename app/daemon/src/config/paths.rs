use anyhow::{bail, ensure};
use moorline_api::{PathRule, Preference, Scope};
use serde::Deserialize;

use super::net;

/// Entry of `[[paths]]` in the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(super) struct PathPart {
    #[serde(rename = "for")]
    scope: Option<String>,
    local: Option<String>,
    peer: Option<String>,
    preference: String,
    tell_peer: bool,
}

pub(super) fn parse(parts: &[PathPart]) -> anyhow::Result<Vec<PathRule>> {
    super::rules("paths", parts, PathPart::rule)
}

impl PathPart {
    fn rule(&self) -> anyhow::Result<PathRule> {
        let scope = match self.scope.as_deref() {
            None | Some("all") => Scope::All,
            Some(text) => Scope::Peer(net("for", text)?),
        };
        let preference = match self.preference.as_str() {
            "prefer" => Preference::Prefer,
            "avoid" => Preference::Avoid,
            "" => bail!("preference: say \"prefer\" or \"avoid\""),
            other => bail!("preference: \"{other}\" is neither \"prefer\" nor \"avoid\""),
        };
        ensure!(
            self.local.is_some() || self.peer.is_some(),
            "local, peer: name an uplink, an address or a prefix of ours, or one of the peer's"
        );
        ensure!(
            !self.tell_peer || scope == Scope::All && self.peer.is_none(),
            "tell-peer: peers are told the same of our locators, so leave for and peer out"
        );
        Ok(PathRule {
            scope,
            local: self.local.clone(),
            peer: self.peer.as_deref().map(|text| net("peer", text)).transpose()?,
            preference,
            tell_peer: self.tell_peer,
            origin: "configuration".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn rules_name_ends_and_preference() {
        let text = r#"
            [[paths]]
            local = "wwan0"
            preference = "avoid"
            tell-peer = true
            [[paths]]
            for = "2001:db8:5::/48"
            peer = "2001:db8:5:1::/64"
            preference = "prefer"
        "#;
        let [metered, near] = &Config::parse(text).expect("valid").paths[..] else { panic!() };
        assert_eq!((metered.scope, metered.local.as_deref()), (Scope::All, Some("wwan0")));
        assert_eq!((&metered.preference, metered.tell_peer), (&Preference::Avoid, true));
        assert_eq!(near.scope, "2001:db8:5::/48".parse().expect("a scope"));
        assert_eq!(near.peer, "2001:db8:5:1::/64".parse().ok());
        assert_eq!(near.origin, "configuration");
    }

    #[test]
    fn mistakes_name_the_rule_and_the_key() {
        for (rule, part) in [
            ("local = \"a\"", "preference"),
            ("local = \"a\"\npreference = \"hate\"", "hate"),
            ("preference = \"avoid\"", "local"),
            ("peer = \"isp1\"\npreference = \"avoid\"", "peer"),
            ("for = \"7\"\nlocal = \"a\"\npreference = \"avoid\"", "for"),
            (
                "for = \"::/0\"\nlocal = \"a\"\npreference = \"avoid\"\ntell-peer = true",
                "tell-peer",
            ),
        ] {
            let text =
                format!("[[paths]]\nlocal = \"x\"\npreference = \"avoid\"\n[[paths]]\n{rule}");
            let error = format!("{:#}", Config::parse(&text).expect_err(rule));
            assert!(error.contains(part) && error.contains("rule 2"), "{rule}: {error}");
        }
    }
}
