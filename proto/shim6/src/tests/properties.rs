//! Random networks and losses of state: properties that always hold for two machines.

use alloc::vec;

use proptest::collection::vec as vec_of;
use proptest::prelude::*;

use super::duo::Duo;
use super::*;

#[derive(Clone, Debug)]
enum Op {
    Trigger(usize),
    Fork(usize),
    /// Delivers the n-th message under way.
    Deliver(usize),
    Lose(usize),
    Duplicate(usize),
    /// An earlier message arrives again.
    Replay(usize),
    /// The next timer runs out.
    Wake,
    Pass(u64),
    Forget(usize),
    Payload(usize),
    /// A side tells this number of its two locators.
    Tell(usize, usize),
}

fn op() -> impl Strategy<Value = Op> {
    let side = 0..2usize;
    prop_oneof![
        4 => side.clone().prop_map(Op::Trigger),
        1 => side.clone().prop_map(Op::Fork),
        12 => (0..4usize).prop_map(Op::Deliver),
        3 => (0..4usize).prop_map(Op::Lose),
        2 => (0..4usize).prop_map(Op::Duplicate),
        3 => (0..1000usize).prop_map(Op::Replay),
        4 => Just(Op::Wake),
        1 => (1..100u64).prop_map(Op::Pass),
        1 => side.clone().prop_map(Op::Forget),
        3 => side.clone().prop_map(Op::Payload),
        1 => (side, 1..3usize).prop_map(|(side, count)| Op::Tell(side, count)),
    ]
}

struct Play {
    duo: Duo,
    generations: [u32; 2],
}

impl Play {
    fn apply(&mut self, op: &Op) {
        let duo = &mut self.duo;
        match *op {
            Op::Trigger(side) => duo.trigger(side),
            Op::Fork(side) => {
                let ulids = duo.ulids_of(side);
                if duo.machines[side].contexts().count() < 4 {
                    duo.machines[side].fork(ulids, duo.now).expect("room");
                    duo.collect();
                }
            }
            Op::Deliver(at) => {
                if let Some(flight) = duo.under_way.remove(at) {
                    duo.hand(&flight).ok();
                }
            }
            Op::Lose(at) => drop(duo.under_way.remove(at)),
            Op::Duplicate(at) => {
                if let Some(flight) = duo.under_way.get(at).cloned() {
                    duo.hand(&flight).ok();
                }
            }
            Op::Replay(at) => {
                if let Some(flight) = duo.log.get(at % duo.log.len().max(1)).cloned() {
                    duo.hand(&flight).ok();
                }
            }
            Op::Wake => {
                if duo.machines.iter().any(|machine| machine.poll_timeout().is_some()) {
                    duo.wake();
                }
            }
            Op::Pass(seconds) => duo.pass(Duration::from_secs(seconds)),
            Op::Forget(side) => {
                duo.lose(side);
                self.tell_again(side);
            }
            Op::Payload(from) => payload(duo, from),
            Op::Tell(side, count) => self.tell(side, count),
        }
    }

    fn tell(&mut self, side: usize, count: usize) {
        self.generations[side] += 1;
        let number = u8::try_from(side + 1).expect("two sides");
        let set = hba_set(number, [1, 2]);
        let present = set.locators()[..count].to_vec();
        let addresses = LocalAddresses {
            present,
            sets: alloc::vec![set],
            cgas: Vec::new(),
            ..LocalAddresses::default()
        };
        let proof = LocalProof::new(self.generations[side], addresses, &[], [0; 32]);
        self.duo.machines[side].set_local(&proof, self.duo.now);
        self.duo.collect();
    }

    /// The generation survives a crash.
    fn tell_again(&mut self, side: usize) {
        self.tell(side, 2);
    }

    fn check(&self) {
        for (side, machine) in self.duo.machines.iter().enumerate() {
            let proved = locators(u8::try_from(2 - side).expect("two sides"));
            let mut tags = Vec::new();
            for context in machine.contexts() {
                let Some(established) = context.established() else { continue };
                assert!(established.peer.locators.iter().all(|l| proved.contains(l)));
                assert!(established.peer.locators.contains(&context.key.ulids.peer.as_locator()));
                assert!(!tags.contains(&established.peer_tag), "two contexts with one tag");
                tags.push(established.peer_tag);
            }
            if let Some(at) = machine.poll_timeout() {
                assert!(at >= self.duo.now || self.duo.now == NOW, "a timer that was not served");
            }
        }
        assert!(self.duo.under_way.len() < 500, "messages make messages");
    }
}

/// Payload of a side by a context whose tag the other data plane may not know.
fn payload(duo: &mut Duo, from: usize) {
    let tags: Vec<_> = duo.machines[from]
        .contexts()
        .filter_map(|context| context.established())
        .map(|established| established.peer_tag)
        .collect();
    let pair = turned(duo.ulids_of(from).as_locators());
    for tag in tags {
        let to = &mut duo.machines[1 - from];
        if to.by_tag(tag).is_none_or(|context| context.established().is_none()) {
            to.handle_payload(super::payload(tag, pair), duo.now).expect_err("lost");
        }
    }
    duo.collect();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn contexts_agree_in_the_end_whatever_happened(ops in vec_of(op(), 1..120)) {
        let mut play = Play { duo: Duo::new(), generations: [1, 1] };
        for op in &ops {
            play.apply(op);
            play.check();
        }
        // From here on nothing is lost, time passes, and both sides have payload to send.
        let duo = &mut play.duo;
        duo.under_way.clear();
        duo.pass(Duration::from_secs(61));
        duo.trigger(0);
        for _ in 0..40 {
            duo.settle();
            payload(duo, 0);
            payload(duo, 1);
            duo.settle();
            if duo.machines.iter().any(|machine| machine.poll_timeout().is_some()) {
                duo.wake();
            }
        }
        for side in 0..2 {
            for context in duo.machines[side].contexts() {
                prop_assert_eq!(context.state(), State::Established, "side {}", side);
                let ours = context.established().expect("established");
                let other = duo.machines[1 - side].by_tag(ours.peer_tag).expect("the same context");
                let theirs = other.established().expect("established");
                prop_assert_eq!(theirs.peer_tag, context.local_tag);
                prop_assert_eq!(other.key.forked_instance, context.key.forked_instance);
                let known: alloc::collections::BTreeSet<_> = ours.peer.locators.iter().collect();
                let told: alloc::collections::BTreeSet<_> = theirs.local_locators.iter().collect();
                prop_assert_eq!(known, told);
            }
        }
    }
}
