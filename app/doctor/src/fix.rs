//! Commands that open the host's own firewall for Moorline only.
//!
//! An accepting rule in a table of Moorline would not help, because every base chain of a hook must accept a packet. So the
//! rule goes to the top of the chain that drops, with the tool that owns the chain. firewalld and ufw write their chains again
//! at any time, so for these tools the user must type commands.

use std::collections::BTreeSet;

use moorline_wire::PROTOCOL as SHIM6;
use moorline_wire::ilnp::consts::LOCATOR_UPDATE;
use serde_json::{Value, json};

use crate::facts::{Facts, Firewall};
use crate::firewall::{self, Closed};

/// Changes that open the firewall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fix {
    /// Commands to run, each a program and its arguments.
    pub commands: Vec<Vec<String>>,
    /// Commands that only the user can run, verbatim.
    pub by_hand: Vec<String>,
}

/// Returns the commands that make the dropping chains accept the messages of Shim6, and of ILNP if it is on.
#[must_use]
pub fn fixes(facts: &Facts) -> Fix {
    let Firewall::Ruleset(ruleset) = &facts.firewall else { return Fix::default() };
    let names: Vec<_> = facts.uplinks.iter().map(|uplink| uplink.name.as_str()).collect();
    let types = facts.ilnp().map(|ilnp| ilnp.icmp_types);
    let mut fix = Fix::default();
    let closed: BTreeSet<_> = firewall::closed(ruleset, &names, types).into_iter().collect();
    for chain in closed {
        let Closed { family, table, chain: name, .. } = &chain;
        match (family.as_str(), table.as_str(), name.as_str()) {
            (_, "firewalld", _) => note(&mut fix, FIREWALLD),
            ("ip6", "filter", "INPUT" | "OUTPUT") if has_ufw(ruleset) => note(&mut fix, UFW),
            ("ip6", "filter", "INPUT" | "OUTPUT" | "FORWARD") => {
                fix.commands.extend(ip6tables(&chain, types));
            }
            _ => fix.commands.push(nft(&chain, types)),
        }
    }
    fix
}

/// Returns the commands that remove the rules of [`fixes`] from the ruleset.
#[must_use]
pub fn undoing(ruleset: &Value) -> Vec<Vec<String>> {
    let rules = ruleset["nftables"].as_array().into_iter().flatten().map(|object| &object["rule"]);
    let ours = rules.filter(|rule| rule["comment"] == COMMENT || is_xt_comment(rule));
    let ours = ours.filter(|rule| looks_at_messages_alone(rule));
    let delete = |rule: &Value| {
        let text = |key: &str| rule[key].as_str().unwrap_or_default().to_owned();
        let handle = rule["handle"].as_u64()?.to_string();
        let place = [text("family"), text("table"), text("chain")];
        let words = ["nft", "delete", "rule"].map(ToOwned::to_owned).into_iter().chain(place);
        Some(words.chain(["handle".to_owned(), handle]).collect())
    };
    ours.filter_map(delete).collect()
}

fn note(fix: &mut Fix, what: &str) {
    if !fix.by_hand.iter().any(|known| known == what) {
        fix.by_hand.push(what.to_owned());
    }
}

fn nft(closed: &Closed, types: Option<[u8; 2]>) -> Vec<String> {
    let Closed { family, table, chain, is_ilnp } = closed;
    let what = match types.filter(|_| *is_ilnp) {
        Some([initiator, responder]) => {
            format!("icmpv6 type {{ {LOCATOR_UPDATE}, {initiator}, {responder} }}")
        }
        None => format!("meta l4proto {SHIM6}"),
    };
    let text = format!("insert rule {family} {table} {chain} {what} accept comment \"{COMMENT}\"");
    vec!["nft".to_owned(), text]
}

fn ip6tables(closed: &Closed, types: Option<[u8; 2]>) -> Vec<Vec<String>> {
    let insert = |matches: &str| {
        let text = format!(
            "ip6tables -I {} {matches} -m comment --comment {COMMENT} -j ACCEPT",
            closed.chain
        );
        text.split(' ').map(ToOwned::to_owned).collect()
    };
    match types.filter(|_| closed.is_ilnp) {
        Some([initiator, responder]) => [LOCATOR_UPDATE, initiator, responder]
            .map(|kind| insert(&format!("-p icmpv6 --icmpv6-type {kind}")))
            .to_vec(),
        None => vec![insert(&format!("-p {SHIM6}"))],
    }
}

fn has_ufw(ruleset: &Value) -> bool {
    let objects = ruleset["nftables"].as_array().into_iter().flatten();
    objects
        .filter_map(|object| object["chain"]["name"].as_str())
        .any(|name| name.starts_with("ufw6-"))
}

/// Whether a rule has only matches of [`fixes`]: a foreign rule may have the same comment.
fn looks_at_messages_alone(rule: &Value) -> bool {
    let protocols = [json!(SHIM6), json!("shim6"), json!(58), json!("icmpv6"), json!("ipv6-icmp")];
    let is_message = |test: &Value| {
        let (left, right) = (&test["left"], &test["right"]);
        let is_protocol = left["meta"]["key"] == "l4proto" || left["payload"]["field"] == "nexthdr";
        let is_type = left["payload"]["protocol"] == "icmpv6" && left["payload"]["field"] == "type";
        is_type || is_protocol && protocols.contains(right)
    };
    let statements = rule["expr"].as_array().into_iter().flatten();
    let tests: Vec<_> = statements.filter_map(|one| one.get("match")).collect();
    !tests.is_empty() && tests.into_iter().all(is_message)
}

/// Whether a statement is a comment of ip6tables. nft prints such a comment as a comment of the rule, or as an opaque match.
fn is_xt_comment(rule: &Value) -> bool {
    let statements = rule["expr"].as_array().into_iter().flatten();
    statements.map(|one| &one["xt"]).any(|xt| xt["name"] == "comment" && xt["info"] == COMMENT)
}

/// Comment of the inserted rules.
pub const COMMENT: &str = "moorline";
const FIREWALLD: &str =
    "firewalld: firewall-cmd --permanent --add-protocol=140 && firewall-cmd --reload";
const UFW: &str = "ufw: put the line `-A ufw6-before-input -p 140 -j ACCEPT` (and `-A ufw6-before-output -p 140 -j \
                   ACCEPT`) before COMMIT in /etc/ufw/before6.rules, then: ufw reload";

#[cfg(test)]
mod tests;
