use super::net::Net;
use super::*;

use alloc::boxed::Box;
use alloc::vec;

fn spread(net: &mut Net, pairs: &[LocatorPair]) {
    let now = net.now;
    net.hosts[0].machine.handle_paths(pairs, now);
}

fn net() -> Net {
    let config = Config { profile: crate::Profile::default(), ..Config::default() };
    let mut net = Net::new(&config, 2, 1);
    net.hosts.iter_mut().for_each(|h| h.payload = Some(ms(100)));
    net.run_for(ms(500));
    net
}

#[test]
fn a_path_is_used_once_it_has_answered_and_not_while_it_does_not() {
    let mut net = net();
    let wanted = [ab(2, 2), ab(1, 2)];
    net.route = Box::new(|pair| pair != ab(1, 2));
    spread(&mut net, &wanted);
    assert_eq!(net.hosts[0].machine.paths(), [ab(1, 1); 2], "not before the answer");
    net.run_for(ms(100));
    assert_eq!(net.hosts[0].machine.paths(), [ab(2, 2), ab(1, 1)], "the other keeps its place");
    net.route = Box::new(|pair| pair != ab(2, 2));
    net.run_for(ms(4_500));
    assert_eq!(net.hosts[0].machine.paths(), [ab(1, 1), ab(1, 2)]);
    net.route = Box::new(|_| true);
    net.run_for(ms(1_500));
    assert_eq!(net.hosts[0].machine.paths(), wanted);
    assert_eq!(net.pairs(), [ab(1, 1), ba(1, 1)], "the current pair is another matter");
    spread(&mut net, &[]);
    assert_eq!(net.hosts[0].machine.paths(), vec![]);
}

#[test]
fn a_path_that_is_no_candidate_is_never_used_nor_checked() {
    let mut machine = machine();
    machine.handle_paths(&[ab(3, 1)], at(0));
    assert!(run(&mut machine, at(10_000)).is_empty());
    assert_eq!(machine.paths(), [ab(1, 1)]);
}
