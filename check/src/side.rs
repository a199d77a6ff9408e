use std::collections::BTreeMap;

use moorline_cga::{HbaKey, LocalAddresses, LocalProof, Sec, generate_hba};
use moorline_contexts::{Config, Contexts, LocalState, Transmit};
use moorline_datapath::shim6::{ContextEntry, Report, Update};
use moorline_types::{ContextId, Instant, Locator, LocatorPair, UlidPair};

/// A host: the real core, a clock of its own, and what its data plane was told.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    number: usize,
    pub(crate) host: Contexts,
    pub(crate) now: Instant,
    pub(crate) entries: BTreeMap<ContextId, ContextEntry>,
    /// Last watch that was answered.
    watch_seen: u32,
    /// How often it has begun anew.
    lives: u8,
    pub(crate) locators: Vec<Locator>,
}

impl Side {
    pub(crate) fn new(number: usize) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let local = local_state(number, 0);
        let mut side = Self {
            number,
            host: Contexts::new(Config::default(), seed(number, 0), now),
            now,
            entries: BTreeMap::new(),
            watch_seen: 0,
            lives: 0,
            locators: local.usable.clone(),
        };
        side.host.handle_local(&local, now);
        side
    }

    /// It begins anew, and knows nothing of what was before.
    pub(crate) fn forget(&mut self) {
        self.lives += 1;
        let local = local_state(self.number, u32::from(self.lives));
        self.host = Contexts::new(Config::default(), seed(self.number, self.lives), self.now);
        self.entries.clear();
        self.watch_seen = 0;
        self.host.handle_local(&local, self.now);
    }

    pub(crate) fn ulid_pair(&self, peer: &Self) -> UlidPair {
        UlidPair::new(self.locators[0].as_ulid(), peer.locators[0].as_ulid())
    }

    /// The context of its traffic, if it is established.
    pub(crate) fn entry(&self) -> Option<&ContextEntry> {
        self.entries.values().next()
    }

    /// A context, whatever its state.
    pub(crate) fn has_context(&self) -> bool {
        self.host.contexts().count() > 0
    }

    pub(crate) fn report(&mut self, report: Report) {
        self.host.handle_report(report, self.now);
    }

    pub(crate) fn control(&mut self, octets: &[u8], locators: LocatorPair) {
        self.host.handle_control(octets, locators, self.now);
    }

    /// The clock goes on to the next timer, which runs out.
    pub(crate) fn run_out(&mut self) {
        if let Some((at, _)) = self.host.poll_timeout() {
            self.now = self.now.max(at);
            self.host.handle_timeout(self.now);
        }
    }

    /// Payload of this context came in: told to the core if it asked for that.
    pub(crate) fn note_payload(&mut self, id: ContextId) {
        let watch = self.entries.get(&id).map_or(0, |entry| entry.watch);
        if watch != 0 && watch != self.watch_seen {
            self.watch_seen = watch;
            self.report(Report::Received { context: id, at: self.now });
        }
    }

    /// Takes what the core wants: entries are kept, control packets are given back.
    pub(crate) fn drain(&mut self) -> Vec<Transmit> {
        while let Some(update) = self.host.poll_datapath() {
            match update {
                Update::Upsert(entry) => {
                    self.entries.insert(entry.id, entry);
                }
                Update::Remove { context } => {
                    self.entries.remove(&context);
                }
                Update::Heard { .. } | Update::Rearm { .. } => {}
            }
        }
        while self.host.poll_event().is_some() {}
        std::iter::from_fn(|| self.host.poll_transmit()).collect()
    }
}

fn seed(number: usize, life: u8) -> [u8; 32] {
    let mut seed = [0; 32];
    seed[0] = u8::try_from(number).unwrap_or(u8::MAX);
    seed[1] = life;
    seed
}

fn local_state(number: usize, generation: u32) -> LocalState {
    let host = u8::try_from(number).unwrap_or(u8::MAX);
    let prefixes = [1, 2].map(|isp| [0x20, 0x01, 0x0d, 0xb8, 0, isp, 0, 0xa + host]);
    let key = HbaKey::extended_modifier([host; 48]);
    let sec = Sec::new(0).expect("0 is a Sec");
    let set = generate_hba(&prefixes, sec, &key, [host; 16], 1).expect("Sec 0 takes one try");
    let present = set.locators().to_vec();
    let addresses = LocalAddresses { present: present.clone(), sets: vec![set], cgas: Vec::new() };
    LocalState { proof: LocalProof::new(generation, addresses, &[], [0; 32]), usable: present }
}
