//! Meaning of the causes in the column WHY.

use std::collections::BTreeSet;
use std::fmt::Write;

/// Causes of moves of contexts and sessions.
const MEANINGS: [(&str, &str); 22] = [
    ("begun_anew", "the correspondent began anew, at other locators than those of the sockets"),
    ("congested", "the pair before was congested"),
    ("control_received", "a control message came in"),
    ("deprecated", "our address of the pair before is deprecated"),
    ("fail_back", "the preferred pair works again"),
    ("keepalive_received", "a keepalive came in"),
    ("local_failure", "carrier, route or address of the pair before failed on this host"),
    ("locator_broken", "the peer said that its address of the pair before is broken"),
    ("locator_gone", "an address of the pair before is gone, ours or the peer's"),
    ("locator_update", "the correspondent named its locators, or sent from another one"),
    ("lossy", "the pair before lost many more packets"),
    ("payload_received", "payload came in"),
    ("preferred", "a rule, a preference or a route made another pair better"),
    ("probe_exploring", "the peer received nothing by the pair before, and looked for another one"),
    ("probe_inbound_ok", "the peer received this host's probes, and agreed to another pair"),
    ("probe_operational", "the peer found another pair that works both ways"),
    ("send_timeout", "the pair before brought nothing back for the Send Timeout"),
    ("slow", "round trips by the pair before took many times as long"),
    ("suspicion", "the pair before brought no answer, and another one did"),
    ("switch", "`moorline path switch` on this host"),
    (
        "unanswered",
        "no pair answers: payload takes the addresses of the sockets, as without Moorline",
    ),
    ("update_unanswered", "the correspondent did not acknowledge the locator in use"),
];

/// Explains each cause of the table once. A text that is no cause explains itself.
pub(super) fn meanings<'a>(whys: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for why in whys.collect::<BTreeSet<_>>() {
        if let Some((_, meaning)) = MEANINGS.iter().find(|(name, _)| *name == why) {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{why}: {meaning}.\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use moorline_contexts::Cause;
    use moorline_ilnp::MoveCause;

    #[test]
    fn each_cause_has_a_meaning_and_each_meaning_a_cause() {
        let shim6 = Cause::ALL.iter().map(|cause| cause.to_string());
        let ilnp = MoveCause::ALL.iter().map(|cause| cause.to_string());
        let causes: BTreeSet<_> = shim6.chain(ilnp).collect();
        assert_eq!(causes, MEANINGS.iter().map(|(name, _)| (*name).to_owned()).collect());
    }

    #[test]
    fn each_cause_of_the_table_is_explained_once() {
        let whys = ["switch", "the pair it began with", "congested", "switch"];
        let explained = meanings(whys.into_iter());
        assert_eq!(
            explained,
            "\ncongested: the pair before was congested.\n\nswitch: `moorline path switch` on this host.\n"
        );
    }
}
