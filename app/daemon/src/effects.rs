//! Executes the effects of the protocols on Linux.

use moorline_contexts as shim6;
use moorline_datapath as datapath;
use moorline_host::{Effect, Host};
use moorline_ilnp as ilnp;

use crate::clock;
use crate::shell::Daemon;

/// Effects that are due together, by kind, in the order in which the daemon executes the kinds: all routes at once, as each change makes every
/// socket of the host look its route up again. An effect of a session can come before one of a context that was due first: the session gives way to
/// that context.
#[derive(Debug, Default)]
struct Batch {
    session_updates: Vec<datapath::ilnp::Update>,
    ilnp_transmits: Vec<ilnp::Transmit>,
    session_events: Vec<ilnp::Event>,
    shim6_transmits: Vec<shim6::Transmit>,
    context_updates: Vec<datapath::shim6::Update>,
    context_events: Vec<shim6::Event>,
    socket_questions: Vec<ilnp::Question>,
    questions: Vec<shim6::Question>,
}

impl Batch {
    /// All that the host wants now; `None` if that is nothing.
    fn take(host: &mut Host) -> Option<Self> {
        let mut batch = Self::default();
        batch.add(host.poll_effect(clock::now())?);
        while let Some(effect) = host.poll_effect(clock::now()) {
            batch.add(effect);
        }
        Some(batch)
    }

    fn add(&mut self, effect: Effect) {
        match effect {
            Effect::UpdateSession(update) => self.session_updates.push(update),
            Effect::SendIlnp(transmit) => self.ilnp_transmits.push(transmit),
            Effect::TellSession(event) => self.session_events.push(event),
            Effect::SendShim6(transmit) => self.shim6_transmits.push(transmit),
            Effect::UpdateContext(update) => add_update(&mut self.context_updates, update),
            Effect::TellContext(event) => self.context_events.push(event),
            Effect::AskSockets(question) => self.socket_questions.push(question),
            Effect::AskUsage(question) => self.questions.push(question),
        }
    }
}

/// Adds an update behind the others, or in place of the last one if both say what the same context is now.
fn add_update(updates: &mut Vec<datapath::shim6::Update>, update: datapath::shim6::Update) {
    use datapath::shim6::Update;
    match (updates.last_mut(), update) {
        (Some(Update::Upsert(last)), Update::Upsert(entry))
            if (last.id, last.ulids) == (entry.id, entry.ulids) =>
        {
            *last = entry;
        }
        (_, update) => updates.push(update),
    }
}

impl Daemon {
    /// Executes all effects, until the protocols want no more.
    pub(crate) async fn pump(&mut self) {
        while let Some(batch) = Batch::take(&mut self.host) {
            self.execute(batch).await;
        }
    }

    async fn execute(&mut self, batch: Batch) {
        self.answer_ilnp(&batch.socket_questions);
        let (updates, events) = (&batch.session_updates, &batch.session_events);
        self.carry_out_ilnp(updates, &batch.ilnp_transmits, events).await;
        for transmit in &batch.shim6_transmits {
            self.send_shim6(transmit);
        }
        if !batch.context_updates.is_empty() {
            self.carry_out(&batch.context_updates).await;
        }
        for event in &batch.context_events {
            self.tell(event);
        }
        for question in batch.questions {
            self.quiet.ask(question);
        }
    }
}
