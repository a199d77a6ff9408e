//! Nonces of I1 and I2, for responders of both readings of RFC 5533 s7.13.

use super::duo::Duo;
use super::*;

/// A responder may bind its validator to the nonce of the I1, and drop an I2 with another nonce.
#[test]
fn an_i2_that_is_sent_again_has_the_nonce_of_its_i1() {
    let mut duo = Duo::of([1, 2].map(|seed| Machine::new(Config::default(), [seed; 32], NOW)));
    duo.trigger(0);
    let mut nonces = Vec::new();
    while nonces.len() < 3 {
        duo.collect();
        while let Some(flight) = duo.under_way.pop_front() {
            if let Message::I2(i2) = &flight.message {
                nonces.push(i2.initiator_nonce);
                continue;
            }
            if let Message::I1(i1) = &flight.message {
                nonces.push(i1.initiator_nonce);
            }
            duo.hand(&flight).expect("taken");
            duo.collect();
        }
        duo.wake();
    }
    assert_ne!(nonces[1], nonces[0], "tells the answer to the I2 from one to the I1");
    assert_eq!(nonces[2], nonces[0]);
}
