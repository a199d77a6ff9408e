use super::*;

const S: Duration = Duration::from_secs(1);

fn packet(at: u32, peer: u8, octets: u64) -> Packet {
    let [source, destination] = [format!("2001:db8::{peer:x}"), HOST.to_owned()];
    Packet {
        at: S * at,
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        protocol: Some(6),
        octets,
        packets: 1,
    }
}

fn steps(policy: TriggerPolicy, packets: &[Packet], end: u32) -> Vec<Step> {
    let mut state = State::new(Some(HOST.parse().unwrap()), policy, S * 10, S * 60);
    packets.iter().for_each(|packet| state.handle(packet).unwrap());
    state.finish(S * end).unwrap();
    state.steps
}

const HOST: &str = "2001:db8:1::1";
const FIRST: TriggerPolicy = TriggerPolicy { packets: 1, ..TriggerPolicy::NEVER };

#[test]
fn a_context_lives_from_the_packet_that_earns_it_until_the_collection() {
    let first = steps(FIRST, &[packet(5, 1, 40), packet(12, 1, 40)], 60);
    assert_eq!(first, [Step { most: 1, mean: 17.0 / 60.0, made: 1 }]);
    let bytes = TriggerPolicy { bytes: 80, ..TriggerPolicy::NEVER };
    let second = steps(bytes, &[packet(5, 1, 40), packet(12, 1, 40)], 60);
    assert_eq!(second, [Step { most: 1, mean: 10.0 / 60.0, made: 1 }]);
    let none = steps(TriggerPolicy::NEVER, &[packet(5, 1, 40), packet(12, 1, 40)], 60);
    assert_eq!(none, [Step::default()]);
}

#[test]
fn who_comes_back_after_the_collection_makes_another_context() {
    let steps = steps(FIRST, &[packet(0, 1, 40), packet(9, 1, 40), packet(20, 1, 40)], 60);
    assert_eq!((steps[0].most, steps[0].made), (1, 2));
}

#[test]
fn contexts_are_counted_in_every_step_they_live_in() {
    let packets = [packet(58, 1, 40), packet(59, 2, 40), packet(200, 3, 40)];
    let steps = steps(FIRST, &packets, 210);
    let most: Vec<_> = steps.iter().map(|step| step.most).collect();
    assert_eq!(most, [2, 2, 0, 1]);
    assert_eq!(steps.iter().map(|step| step.made).collect::<Vec<_>>(), [2, 0, 0, 1]);
    assert_eq!(steps[1].mean, 17.0 / 60.0);
    assert_eq!(steps[3].mean, 10.0 / 30.0, "of the half minute that the trace has");
}

#[test]
fn both_directions_make_one_context_and_other_hosts_and_icmp_none() {
    let there = packet(1, 1, 40);
    let back = Packet { source: there.destination, destination: there.source, ..there };
    let foreign = Packet { destination: "2001:db8:9::9".parse().unwrap(), ..there };
    let multicast = Packet { destination: "ff02::1".parse().unwrap(), ..there };
    let icmp = Packet { protocol: Some(58), ..packet(1, 7, 40) };
    let steps = steps(FIRST, &[there, back, foreign, multicast, icmp], 60);
    assert_eq!((steps[0].most, steps[0].made), (1, 1));
}

#[test]
fn packets_taken_together_count_each() {
    let policy = TriggerPolicy { packets: 5, ..TriggerPolicy::NEVER };
    let few = steps(policy, &[Packet { packets: 4, ..packet(1, 1, 999) }], 60);
    assert_eq!(few[0].made, 0);
    let many = steps(policy, &[Packet { packets: 6, ..packet(1, 1, 999) }], 60);
    assert_eq!(many[0].made, 1);
}

#[test]
fn a_trace_of_ages_is_an_error() {
    let mut state = State::new(None, FIRST, S * 10, S);
    let most = u32::try_from(MAX_STEPS).unwrap();
    assert!(state.handle(&packet(most - 1, 1, 40)).is_ok());
    assert!(state.handle(&packet(most + 1, 1, 40)).is_err());
}
