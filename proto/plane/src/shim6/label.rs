//! Flow labels of datagrams (RFC 6437). Many hosts draw the label of a flow from a secret, and keep it: its 20 bits are the
//! only field of a datagram that its sender off the path has to guess.
//!
//! The label of a flow is that of the first answer: a datagram with the ports of one that this host has sent. After two wrong
//! doubts of the flow, without a datagram with the label in a wait between them, the flow has no label until its place is
//! taken anew: its answers may have several labels.

use alloc::collections::BTreeMap;

use crate::shim6::tcp::Flow;

/// The labels of the datagrams that answer flows: a table in which each flow has one place.
#[derive(Debug, Default)]
pub(crate) struct Labels(BTreeMap<u64, Label>);

#[derive(Clone, Copy, Debug)]
struct Label {
    flow: u64,
    known: Known,
}

#[derive(Clone, Copy, Debug)]
enum Known {
    /// No answer has come.
    Not,
    Label(Answers),
    /// The label was wrong twice.
    Never,
}

#[derive(Clone, Copy, Debug)]
struct Answers {
    label: u32,
    /// Whether a doubt of the flow was wrong since the last datagram with the label.
    is_missed: bool,
}

impl Labels {
    /// Notes a sent datagram. True if the label of its flow is known.
    pub(crate) fn on_sent(&mut self, flow: Flow) -> bool {
        let new = Label { flow: flow.number(), known: Known::Not };
        let entry = self.0.entry(flow.place()).or_insert(new);
        if entry.flow != new.flow {
            *entry = new;
        }
        matches!(entry.known, Known::Label(_))
    }

    /// Notes a received datagram. True if it has the label of a flow of this host.
    pub(crate) fn on_received(&mut self, flow: Flow, label: u32) -> bool {
        let Some(entry) = self.of(flow) else { return false };
        if matches!(entry.known, Known::Not) {
            entry.known = Known::Label(Answers { label, is_missed: false });
        }
        let Known::Label(answers) = &mut entry.known else { return false };
        let is_right = answers.label == label;
        answers.is_missed &= !is_right;
        is_right
    }

    /// Whether the label of the flow is known.
    pub(crate) fn knows(&self, flow: Flow) -> bool {
        let entry = self.0.get(&flow.place()).filter(|entry| entry.flow == flow.number());
        entry.is_some_and(|entry| matches!(entry.known, Known::Label(_)))
    }

    /// A doubt of the flow was wrong: its pair works.
    pub(crate) fn on_missed(&mut self, flow: Flow) {
        let Some(entry) = self.of(flow) else { return };
        entry.known = match entry.known {
            Known::Label(answers) if !answers.is_missed => {
                Known::Label(Answers { is_missed: true, ..answers })
            }
            Known::Label(_) => Known::Never,
            Known::Not | Known::Never => entry.known,
        };
    }

    fn of(&mut self, flow: Flow) -> Option<&mut Label> {
        self.0.get_mut(&flow.place()).filter(|entry| entry.flow == flow.number())
    }
}

#[cfg(test)]
mod tests {
    use moorline_types::ContextTag;

    use super::*;

    fn flow(port: u16) -> Flow {
        Flow::new(ContextTag::from_bits(7), port, 2)
    }

    #[test]
    fn the_first_answer_gives_a_flow_its_label() {
        let mut labels = Labels::default();
        assert!(!labels.on_received(flow(1), 9), "nothing was sent");
        assert!(!labels.on_sent(flow(1)) && !labels.knows(flow(1)));
        assert!(!labels.on_received(flow(3), 9), "other ports");
        assert!(labels.on_received(flow(1), 9) && labels.on_sent(flow(1)));
        assert!(!labels.on_received(flow(1), 8) && labels.on_received(flow(1), 9));
    }

    #[test]
    fn after_two_wrong_doubts_in_a_row_a_flow_has_no_label() {
        let mut labels = Labels::default();
        labels.on_sent(flow(1));
        labels.on_received(flow(1), 9);
        for _ in 0..3 {
            labels.on_missed(flow(1));
            assert!(labels.on_received(flow(1), 9));
        }
        labels.on_missed(flow(1));
        assert!(!labels.on_received(flow(1), 8), "once");
        labels.on_missed(flow(1));
        assert!(!labels.knows(flow(1)));
        assert!(!labels.on_received(flow(1), 8) && !labels.on_sent(flow(1)), "for good");
    }

    #[test]
    fn a_flow_loses_its_place_to_another() {
        let mut labels = Labels::default();
        labels.on_sent(flow(1));
        labels.on_received(flow(1), 9);
        let other = (2..).map(flow).find(|other| other.place() == flow(1).place()).expect("a port");
        assert!(
            !labels.on_received(other, 9) && labels.knows(flow(1)),
            "only what is sent takes it"
        );
        labels.on_sent(other);
        assert!(!labels.knows(flow(1)) && !labels.knows(other));
    }
}
