use std::io::Cursor;
use std::time::Duration;

use moorline_contexts::{Config, Contexts};
use moorline_datapath::ilnp::Update;
use moorline_ilnp::{LocalLocator, LocalState, Machine};
use moorline_types::{Instant, L64, Nid};
use moorlined::{SavedState, read_addresses};

/// The daemon's configuration file. An accepted configuration keeps to the documented ranges. An error has a text.
pub(crate) fn daemon_config(octets: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(octets) else { return false };
    match moorlined::Config::parse(text) {
        Ok(config) => {
            let seconds = Duration::from_millis(200)..=Duration::from_secs(100);
            assert!(seconds.contains(&config.send_timeout), "{:?}", config.send_timeout);
            assert!((1..=1 << 24).contains(&config.max_contexts), "{}", config.max_contexts);
            assert!((1024..=1 << 24).contains(&config.max_flows), "{}", config.max_flows);
            assert!(!config.idle.is_zero());
            true
        }
        Err(error) => {
            assert!(!format!("{error:#}").is_empty());
            false
        }
    }
}

/// The daemon's state files. Contexts and sessions that parse are written so that they parse to the same value, and a
/// host restores or refuses them. Addresses parse or are refused.
pub(crate) fn daemon_state(octets: &[u8]) -> bool {
    let Ok(state) = serde_json::from_slice::<SavedState>(octets) else {
        return read_addresses(octets).is_ok();
    };
    let written = serde_json::to_vec(&state).expect("what was read is written");
    let again: SavedState = serde_json::from_slice(&written).expect("what was written is read");
    assert_eq!(again, state);
    take_over_contexts(state.contexts);
    take_over_sessions(state.sessions);
    true
}

/// Restores sessions. The data plane is told of as many sessions as were restored, and all their locators are global.
fn take_over_sessions(sessions: Vec<moorline_ilnp::SessionSnapshot>) {
    let now = Instant::from_nanos(1);
    let config = moorline_ilnp::Config { max_sessions: 8, ..Default::default() };
    let mut machine = Machine::new(config, [1; 32], now);
    let taken = sessions.into_iter().filter_map(|one| machine.restore(one, now).ok()).count();
    assert_eq!(taken, machine.session_count());
    let locators = [1, 2].map(|last| LocalLocator::new(L64(0x2001_0db8_0000_0000 + last)));
    let state =
        LocalState { nids: vec![Nid(1)], locators: locators.to_vec(), ..LocalState::default() };
    machine.handle_local(&state, now);
    let mut told = std::collections::BTreeSet::new();
    while let Some(update) = machine.poll_update() {
        if let Update::Upsert(entry) = update {
            assert!(entry.remote.iter().all(|l64| l64.is_global_unicast()));
            told.insert(entry.id);
        }
    }
    assert_eq!(told.len(), taken);
    assert_eq!(machine.snapshot().count(), taken);
}

fn take_over_contexts(contexts: Vec<moorline_contexts::ContextSnapshot>) {
    let now = Instant::from_nanos(1);
    let mut host = Contexts::new(Config::default(), [1; 32], now);
    for context in contexts {
        // The host refuses contexts with other addresses, and duplicates.
        host.restore(context, now).ok();
    }
    host.handle_timeout(now);
    while host.poll_transmit().is_some() || host.poll_datapath().is_some() {}
    assert!(host.poll_timeout().is_none_or(|(at, _)| at > now));
}

/// Traces of traffic: captures and flow records. Packets of flow records come in order of time. The packets end with
/// the first error.
pub(crate) fn trace(octets: &[u8]) -> bool {
    let Ok(packets) = moorline_lab::trace::read(Cursor::new(octets.to_vec())) else { return false };
    let is_csv = octets.first().is_some_and(u8::is_ascii_alphabetic);
    let (mut last, mut count) = (Duration::ZERO, 0_usize);
    let mut is_over = false;
    // A record may stand for any number of packets.
    for packet in packets.take(MAX_PACKETS) {
        assert!(!is_over, "after an error");
        let Ok(packet) = packet else {
            is_over = true;
            continue;
        };
        assert!(!is_csv || packet.at >= last, "{:?} after {last:?}", packet.at);
        assert!(packet.packets > 0);
        last = packet.at;
        count += 1;
    }
    count > 0
}

const MAX_PACKETS: usize = 1000;
