use moorline_api::{Context, Decoder, Event, InterfaceAddresses, Status};
use moorline_sim::Plan;

/// The event stream of the control API. The events are the same, however the octets are split.
///
/// The target also parses the octets as JSON of each type that a client reads. A value that parses is written and
/// parsed again. An input is well formed if it contains an event or parses as one of these types.
pub(crate) fn api_stream(octets: &[u8]) -> bool {
    let whole = decoded(octets, octets.len().max(1));
    let size = octets.first().map_or(1, |first| usize::from(*first % 7) + 1);
    assert_eq!(decoded(octets, size), whole);
    let holds_events = whole.is_ok_and(|events| !events.is_empty());
    let is_json = round_trip::<Status>(octets)
        | round_trip::<Context>(octets)
        | round_trip::<Vec<InterfaceAddresses>>(octets)
        | round_trip::<Event>(octets);
    holds_events || is_json
}

/// A plan of the simulator. A plan that parses is written so that it parses to the same plan.
pub(crate) fn sim_plan(octets: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(octets) else { return false };
    let Ok(plan) = Plan::from_toml(text) else { return false };
    let written = plan.to_toml();
    match Plan::from_toml(&written) {
        Ok(again) => assert_eq!(again.to_toml(), written),
        Err(error) => panic!("{error}\n{written}"),
    }
    true
}

fn decoded(octets: &[u8], size: usize) -> Result<Vec<String>, &'static str> {
    let mut decoder = Decoder::default();
    let mut events = Vec::new();
    for chunk in octets.chunks(size) {
        events.extend(decoder.handle_octets(chunk)?);
    }
    Ok(events)
}

fn round_trip<T: serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug>(
    octets: &[u8],
) -> bool {
    let Ok(value) = serde_json::from_slice::<T>(octets) else { return false };
    let written = serde_json::to_vec(&value).expect("what was read can be written");
    let again = serde_json::from_slice::<T>(&written).expect("what was written can be read");
    assert_eq!(format!("{value:?}"), format!("{again:?}"));
    true
}
