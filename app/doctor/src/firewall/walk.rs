use std::collections::BTreeMap;

use serde_json::Value;

use super::Packet;
use super::matches::{Fits, fits, is_one_of, of_packet};

/// Chains and rules of a ruleset.
#[derive(Debug, Default)]
pub(crate) struct Ruleset<'a> {
    chains: BTreeMap<Name, Chain<'a>>,
}

/// Family, table and name of a chain.
pub(crate) type Name = (String, String, String);

#[derive(Debug, Default)]
struct Chain<'a> {
    /// Hook; none for a chain that is not a base chain.
    hook: Option<&'a str>,
    drops_by_default: bool,
    /// Devices, for a chain that belongs to devices.
    devices: Option<&'a Value>,
    rules: Vec<&'a Value>,
}

/// A drop of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Family, table and name of the base chain.
    pub(crate) base: Name,
    /// Table, chain and handle of the rule.
    pub(crate) place: String,
    /// Text of the rule.
    pub(crate) text: String,
    /// Whether the drop is certain, for any value of the unknown properties.
    pub(crate) is_certain: bool,
    /// Whether the rule checks the reverse path.
    pub(crate) is_reverse_path: bool,
}

/// Result of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Accepted,
    Dropped,
    Returned,
}

/// Walk of one packet through one base chain.
struct Walk<'a, 'p> {
    packet: &'p Packet<'p>,
    /// Base chain where the walk began.
    base: Name,
    found: Vec<Verdict>,
    /// Whether an earlier rule may have accepted the packet.
    may_be_accepted: bool,
    ruleset: &'p Ruleset<'a>,
}

impl<'a> Ruleset<'a> {
    pub(crate) fn read(ruleset: &'a Value) -> Self {
        let mut all = Self::default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for object in ruleset["nftables"].as_array().into_iter().flatten() {
            let (chain, rule) = (&object["chain"], &object["rule"]);
            if chain.is_object() {
                let name = (text(&chain["family"]), text(&chain["table"]), text(&chain["name"]));
                let entry = all.chains.entry(name).or_default();
                entry.hook = chain["hook"].as_str();
                entry.drops_by_default = chain["policy"].as_str() == Some("drop");
                entry.devices = chain.get("dev");
            } else if rule.is_object() {
                let name = (text(&rule["family"]), text(&rule["table"]), text(&rule["chain"]));
                all.chains.entry(name).or_default().rules.push(rule);
            }
        }
        all
    }

    /// Returns the certain and possible drops of a packet. Every base chain of the packet's hook sees the packet.
    pub(crate) fn walk(&self, packet: &Packet<'_>) -> Vec<Verdict> {
        let mut found = Vec::new();
        for (name, chain) in &self.chains {
            let sees = matches!(name.0.as_str(), "ip6" | "inet" | "netdev")
                && chain.hook == Some(packet.hook)
                && chain.devices.is_none_or(|devices| {
                    is_one_of(&[packet.interface.into()], devices) == Fits::Yes
                });
            if !sees {
                continue;
            }
            let base = name.clone();
            let mut walk =
                Walk { packet, base, found: Vec::new(), may_be_accepted: false, ruleset: self };
            let end = walk.chain(name, true, MAX_DEPTH);
            if end == End::Returned && chain.drops_by_default {
                let text = format!("policy drop, and no rule before accepts {}", packet.protocol);
                walk.note(place(name, None), text, true, false);
            }
            found.append(&mut walk.found);
        }
        found
    }
}

impl Walk<'_, '_> {
    fn note(&mut self, place: String, text: String, is_certain: bool, is_reverse_path: bool) {
        let is_certain = is_certain && !self.may_be_accepted;
        let base = self.base.clone();
        self.found.push(Verdict { base, place, text, is_certain, is_reverse_path });
    }

    /// Walks a chain. `is_certain`: the packet reaches the chain for any value of the unknown properties.
    fn chain(&mut self, name: &Name, is_certain: bool, depth: u32) -> End {
        let chain = self.ruleset.chains.get(name).filter(|_| depth > 0);
        let mut rules = chain.into_iter().flat_map(|chain| &chain.rules);
        rules.find_map(|rule| self.rule(name, rule, is_certain, depth)).unwrap_or(End::Returned)
    }

    /// Applies a rule. Returns the end of the chain, if the rule certainly ends it.
    fn rule(&mut self, name: &Name, rule: &Value, is_certain: bool, depth: u32) -> Option<End> {
        let Ruled { verdict, is_sure, is_reverse_path } = self.verdict_of_rule(rule)?;
        let is_certain = is_certain && is_sure;
        let (word, target) = verdict.split_once(' ').unwrap_or((&verdict, ""));
        let end = match word {
            "accept" => {
                self.may_be_accepted |= !is_certain;
                End::Accepted
            }
            "drop" | "reject" => {
                let place = place(name, rule["handle"].as_u64());
                // A rule that checks the reverse path drops only packets that fail this check.
                self.note(place, describe(rule), is_certain, is_reverse_path);
                End::Dropped
            }
            "return" => End::Returned,
            "jump" | "goto" => {
                let target = (name.0.clone(), name.1.clone(), target.to_owned());
                let end = self.chain(&target, is_certain, depth - 1);
                if word == "jump" && end == End::Returned {
                    return None;
                }
                end
            }
            _ => return None,
        };
        is_sure.then_some(end)
    }

    /// Returns the rule's verdict about the packet; none if the rule does not match, or has no verdict.
    fn verdict_of_rule(&self, rule: &Value) -> Option<Ruled> {
        let (mut is_sure, mut is_reverse_path) = (true, false);
        for statement in rule["expr"].as_array().into_iter().flatten() {
            let (key, value) = statement.as_object()?.iter().next()?;
            let verdict = match key.as_str() {
                "match" => {
                    is_reverse_path |= asks_for_reverse_path(value);
                    match fits(value, self.packet) {
                        Fits::Yes => {}
                        Fits::No => return None,
                        Fits::Maybe => is_sure = false,
                    }
                    continue;
                }
                "vmap" => {
                    let (verdict, is_known) = self.verdict_of_map(value)?;
                    is_sure &= is_known;
                    verdict
                }
                // Statement of ip6tables-nft: an unknown match, or a known target.
                "xt" => {
                    is_reverse_path |= value["name"] == "rpfilter";
                    if value["type"] == "match" || value["name"] != "REJECT" {
                        is_sure &= value["type"] == "target";
                        continue;
                    }
                    "drop".into()
                }
                "accept" | "drop" | "reject" | "return" => key.clone(),
                "jump" | "goto" => {
                    format!("{key} {}", value["target"].as_str().unwrap_or_default())
                }
                // Assume that the limit is not reached, so the rest of the rule applies. Counters and logs do not matter
                // either.
                "limit" | "quota" => {
                    is_sure = false;
                    continue;
                }
                _ => continue,
            };
            return Some(Ruled { verdict, is_sure, is_reverse_path });
        }
        None
    }

    /// Returns the verdict of a map for the packet, and whether it is certain; none if the map has no verdict.
    fn verdict_of_map(&self, map: &Value) -> Option<(String, bool)> {
        let known = of_packet(&map["key"], self.packet);
        let mut perhaps = None;
        for entry in map["data"]["set"].as_array().into_iter().flatten() {
            let [element, verdict] = entry.as_array()?.as_slice() else { return None };
            let (word, value) = verdict.as_object()?.iter().next()?;
            let target = value["target"].as_str();
            let text = target.map_or_else(|| word.clone(), |target| format!("{word} {target}"));
            match known.as_ref().map_or(Fits::Maybe, |known| is_one_of(known, element)) {
                Fits::Yes => return Some((text, true)),
                Fits::No => {}
                // Keep the strictest of the possible verdicts.
                Fits::Maybe if perhaps.is_none() || word == "drop" => perhaps = Some(text),
                Fits::Maybe => {}
            }
        }
        perhaps.map(|text| (text, false))
    }
}

/// Verdict of a rule about a packet.
struct Ruled {
    /// Verdict, and the chain to which it leads.
    verdict: String,
    /// Whether every match of the rule certainly fits.
    is_sure: bool,
    is_reverse_path: bool,
}

/// Whether a statement is `fib saddr . iif oif missing`: no route back by the interface on which the packet arrived.
fn asks_for_reverse_path(statement: &Value) -> bool {
    let flags = &statement["left"]["fib"]["flags"];
    let has = |flag: &str| {
        flags.as_str() == Some(flag)
            || flags.as_array().is_some_and(|all| all.iter().any(|one| one == flag))
    };
    has("saddr") && has("iif")
}

fn place(name: &Name, handle: Option<u64>) -> String {
    let (family, table, chain) = name;
    match handle {
        Some(handle) => format!("{family} {table} {chain} handle {handle}"),
        None => format!("{family} {table} {chain}"),
    }
}

/// Describes a rule: by its comment, or by its statements if it has no comment.
fn describe(rule: &Value) -> String {
    if let Some(comment) = rule["comment"].as_str() {
        return comment.to_owned();
    }
    let statements = rule["expr"].as_array().into_iter().flatten();
    let text = statements.map(Value::to_string).collect::<Vec<_>>().join(" ");
    text.chars().take(MAX_TEXT).collect()
}

/// Largest number of nested jumps in the kernel (`NFT_JUMP_STACK_SIZE`).
const MAX_DEPTH: u32 = 16;
/// Largest number of characters of a rule in a finding.
const MAX_TEXT: usize = 200;
