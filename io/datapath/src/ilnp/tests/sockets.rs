use moorline_ilnp::Socket;
use moorline_types::IlvPair;

use super::harness::{AWAY, Harness, PAIRS, THEIR_PORT, UNCONNECTED, our_port};
use crate::ilnp::IlnpSettings;
use crate::tests::can_run;

const TCP: u8 = 6;
const UDP: u8 = 17;

#[test]
fn sockets_are_those_of_the_namespace() {
    if !can_run("sockets_are_those_of_the_namespace") {
        return;
    }
    let harness = Harness::new(&IlnpSettings { max_sessions: 4, ..IlnpSettings::default() });
    let kind = |pair, protocol, ports| harness.plane.socket_kind(pair, protocol, ports).unwrap();
    let ports = (our_port(0), our_port(0) + THEIR_PORT);
    let elsewhere = IlvPair::new(PAIRS[0].local.at(AWAY), PAIRS[0].remote);
    for protocol in [TCP, UDP] {
        assert_eq!(kind(PAIRS[0], protocol, ports), Socket::Connected);
        assert_eq!(kind(elsewhere, protocol, ports), Socket::None, "other addresses");
        assert_eq!(kind(PAIRS[0], protocol, (UNCONNECTED, 9)), Socket::Unconnected);
        assert_eq!(kind(PAIRS[0], protocol, (1, 9)), Socket::None);
        assert_eq!(kind(PAIRS[0], protocol, (our_port(0), 9)), Socket::None, "another's port");
    }
    for protocol in [58, 33, 136, 0] {
        assert_eq!(kind(PAIRS[0], protocol, ports), Socket::None);
    }
}
