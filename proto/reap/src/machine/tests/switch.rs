use super::net::Net;
use super::*;

use alloc::boxed::Box;
use alloc::vec;

fn switch(net: &mut Net, pair: LocatorPair) -> Result<bool, DropReason> {
    let now = net.now;
    net.hosts[0].machine.handle_switch(pair, Cause::Switch, now)
}

fn busy() -> Net {
    let mut net = Net::new(&Config::default(), 2, 1);
    net.hosts.iter_mut().for_each(|h| h.payload = Some(ms(100)));
    net.run_for(ms(1_000));
    net
}

fn moves(net: &Net, host: usize) -> Vec<(LocatorPair, Cause)> {
    let moved = |event: &Event| {
        if let Event::Moved { to, cause, .. } = event { Some((*to, *cause)) } else { None }
    };
    net.hosts[host].log.iter().filter_map(|(_, event)| moved(event)).collect()
}

#[test]
fn a_switch_moves_both_ends_once_the_pair_has_answered_and_nobody_explores() {
    let mut net = busy();
    assert_eq!(switch(&mut net, ab(2, 2)), Ok(false));
    net.run_for(ms(15));
    assert_eq!(net.pairs()[0], ab(1, 1), "not before the answer");
    net.run_for(ms(1_000));
    assert_eq!(net.pairs(), [ab(2, 2), ba(2, 2)]);
    assert_eq!(net.states(), [State::Operational; 2]);
    assert_eq!(moves(&net, 0), [(ab(2, 2), Cause::Switch)]);
    let is_change = |(_, event): &&(Instant, Event)| matches!(event, Event::StateChanged { .. });
    assert_eq!(net.hosts[0].log.iter().filter(is_change).count(), 0, "we went on as before");
    assert_eq!(net.hosts[0].machine.pending_switch(), None);
    assert_eq!(switch(&mut net, ab(2, 2)), Ok(true), "there already");
    assert_eq!(net.probes_sent(), 3, "Exploring, InboundOk, Operational");
}

#[test]
fn a_switch_to_a_dead_pair_leaves_payload_where_it_is() {
    for dead in [ab(2, 2), ba(2, 2)] {
        let mut net = busy();
        net.route = Box::new(move |pair| pair != dead);
        assert_eq!(switch(&mut net, ab(2, 2)), Ok(false));
        net.run_for(ms(20_000));
        // If only the way back is dead, the peer's answer takes another pair.
        let is_proven = dead == ba(2, 2);
        let expected = if is_proven { ab(2, 2) } else { ab(1, 1) };
        assert_eq!(net.pairs()[0], expected);
        assert_eq!(net.states(), [State::Operational; 2]);
        let unanswered = Event::Unanswered { pair: ab(2, 2), cause: Cause::Switch };
        let is_told = net.hosts[0].log.iter().any(|(_, event)| *event == unanswered);
        assert_eq!(is_told, !is_proven);
        assert!(net.is_connected());
    }
}

#[test]
fn the_probes_of_a_switch_are_few_and_an_answer_after_them_moves_nothing() {
    let mut machine = machine();
    assert_eq!(machine.handle_switch(ab(2, 2), Cause::Switch, at(0)), Ok(false));
    let (pair, probe) = only_probe(&mut machine);
    assert_eq!((pair, probe.state), (ab(2, 2), State::Exploring));
    let mut sent = vec![probe.sent[0]];
    let log = run(&mut machine, at(2_100));
    for (_, transmit) in &log {
        let Message::Probe(probe) = &transmit.message else { panic!("{transmit:?}") };
        sent.push(probe.sent[0]);
    }
    assert_eq!(sent.len(), usize::from(SWITCH_PROBES));
    assert_eq!(machine.pending_switch(), None);
    for report in sent {
        let nonce = report.nonce ^ 1;
        deliver(&mut machine, ba(2, 2), State::InboundOk, nonce, &[report], at(2_200)).unwrap();
    }
    assert_eq!(machine.current_pair(), ab(1, 1));
}

#[test]
fn a_made_up_answer_to_a_switch_moves_nothing() {
    let mut machine = machine();
    machine.handle_switch(ab(2, 2), Cause::Switch, at(0)).unwrap();
    let (_, probe) = only_probe(&mut machine);
    let own = probe.sent[0];
    for wrong in [
        Report { nonce: own.nonce ^ 1, ..own },
        Report { src: locator(A, 1), ..own },
        Report { dst: locator(B, 1), ..own },
    ] {
        let nonce = wrong.nonce ^ wrong.src.octets()[5] as u32;
        let _ = deliver(&mut machine, ba(2, 2), State::InboundOk, nonce, &[wrong], at(10));
        assert_eq!(machine.current_pair(), ab(1, 1));
    }
    deliver(&mut machine, ba(2, 2), State::InboundOk, 77, &[own], at(20)).unwrap();
    assert_eq!(machine.current_pair(), ab(2, 2));
}

#[test]
fn a_switch_is_for_candidates_alone_and_ends_when_its_pair_goes() {
    let mut machine = machine();
    assert_eq!(
        machine.handle_switch(ab(3, 1), Cause::Switch, at(0)),
        Err(DropReason::WrongLocators)
    );
    assert_eq!(
        machine.handle_switch(ab(1, 3), Cause::Switch, at(0)),
        Err(DropReason::WrongLocators)
    );
    assert_eq!(drain(&mut machine), (vec![], vec![]));
    machine.handle_switch(ab(2, 2), Cause::Switch, at(0)).unwrap();
    drain(&mut machine);
    machine.set_candidates([locator(A, 1)], [locator(B, 1), locator(B, 2)], at(10));
    assert!(run(&mut machine, at(600)).is_empty());
    assert_eq!(machine.pending_switch(), None);
}

#[test]
fn in_an_exploration_the_pair_of_a_switch_is_tried_next() {
    for pair in [ab(1, 2), ab(2, 1), ab(2, 2)] {
        let mut net = busy();
        net.route = Box::new(move |way| way == pair || way == turn(pair));
        net.run_until(ms(30_000), |net| net.states()[0] == State::Exploring).unwrap();
        switch(&mut net, pair).unwrap();
        let took = net.run_until(ms(20_000), Net::is_connected).unwrap();
        assert!(took <= ms(600), "{took:?}: one probe timeout");
        assert_eq!(moves(&net, 0).first(), Some(&(pair, Cause::Switch)));
    }
}

#[test]
fn after_a_switch_the_pair_is_guarded_like_any_other() {
    let mut net = busy();
    switch(&mut net, ab(2, 2)).unwrap();
    net.run_for(ms(1_000));
    net.route = Box::new(|pair| pair == ab(1, 1) || pair == ba(1, 1));
    net.run_for(ms(20_000));
    assert_eq!(net.pairs(), [ab(1, 1), ba(1, 1)]);
    assert!(net.is_connected());
}

/// Each host hears the probe of the other one, and begins an exploration. The answer to its own probe comes then.
#[test]
fn switches_of_both_hosts_to_one_pair_at_the_same_moment_both_succeed() {
    for later in [0, 5, 9] {
        let mut net = busy();
        switch(&mut net, ab(2, 2)).unwrap();
        net.flush(0);
        net.run_for(ms(later));
        let now = net.now;
        net.hosts[1].machine.handle_switch(ba(2, 2), Cause::Lossy, now).unwrap();
        net.flush(1);
        net.run_for(ms(300));
        assert_eq!(net.pairs(), [ab(2, 2), ba(2, 2)], "{later} ms");
        assert_eq!(net.states(), [State::Operational; 2], "{later} ms");
    }
}
