//! Connections whose windows are full when the path is lost.

use super::*;

/// A program at A that sends a stream, and one at B that sends back what it has read. B holds little, and both read in portions by
/// chance. So windows close at both ends. Each program ends its direction behind its last octet: B is in LAST-ACK with octets to send.
struct Echo {
    ends: (TcpId, TcpId),
    octets: Vec<u8>,
    written: usize,
    held: Vec<u8>,
    received: Vec<u8>,
    /// The program at A reads nothing.
    sleeps: bool,
}

impl Echo {
    fn begin(net: &mut Net, octets: usize, seed: u64) -> Self {
        let ends = net.connected();
        let octets = pattern(octets, seed);
        Self { ends, octets, written: 0, held: Vec::new(), received: Vec::new(), sleeps: false }
    }

    fn is_complete(&self) -> bool {
        self.received.len() == self.octets.len()
    }

    /// Lets the programs do what they can.
    fn act(&mut self, net: &mut Net) {
        let (a, b) = self.ends;
        self.written += net.a().send(a, &self.octets[self.written..]).unwrap_or(0);
        if self.written == self.octets.len() {
            // The connection may have ended.
            let _ = net.a().shutdown(a);
        }
        if self.held.is_empty() && net.chance(500) {
            self.held = vec![0; 40_000];
            let read = net.b().recv(b, &mut self.held);
            self.held.truncate(read.unwrap_or(0));
            if read == Ok(0) {
                let _ = net.b().shutdown(b);
            }
        }
        let sent = net.b().send(b, &self.held).unwrap_or(0);
        self.held.drain(..sent);
        if !self.sleeps && net.chance(500) {
            let mut buffer = vec![0; 40_000];
            let len = net.a().recv(a, &mut buffer).unwrap_or(0);
            self.received.extend_from_slice(&buffer[..len]);
        }
    }
}

/// What happens amid the transfer.
#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    /// The reader at A sleeps, until all windows are closed.
    Sleep,
    /// The path is lost, and comes back.
    Cut,
    /// The path is lost, and TCP is told of another one.
    Move,
}

/// All octets come back.
fn survive(seed: u64, trouble: Trouble) {
    let buffers = 150_001 + usize::try_from(seed).unwrap() * 7_001;
    let config = Config { receive_buffer: buffers, send_buffer: buffers, ..Config::default() };
    let engine = |seed| SmolEngine::new(config, ChaCha20Rng::seed_from_u64(seed));
    let mut net = Net::with(engine(seed), engine(seed + 1), seed);
    net.is_logged = false;
    let mut echo = Echo::begin(&mut net, 3_000_000, seed);
    let end = net.now + Duration::from_secs(400);
    let mut cuts = vec![2_900_000, 2_000_000, 1_000_000];
    while !echo.is_complete() {
        assert!(net.now < end, "seed {seed}: {} octets are back", echo.received.len());
        echo.act(&mut net);
        net.run(Duration::from_millis(2));
        if cuts.last().is_some_and(|at| echo.received.len() >= *at) {
            cuts.pop();
            echo.sleeps = trouble == Trouble::Sleep || net.chance(500);
            net.faults.loss = if trouble == Trouble::Sleep { 0 } else { 1_000 };
            for _ in 0..(500 + net.rng.next_u32() % 1_000) {
                echo.act(&mut net);
                net.run(Duration::from_millis(2));
            }
            net.faults.loss = 0;
            echo.sleeps = false;
            let now = net.now;
            let reverse = Flow { local: FLOW.peer, peer: FLOW.local };
            for (host, flow) in
                [(0, FLOW), (1, reverse)].into_iter().filter(|_| trouble == Trouble::Move)
            {
                net.hosts[host].engine.handle_move(flow, now).unwrap();
            }
        }
    }
    assert!(echo.received == echo.octets, "seed {seed}: the octets differ");
}

#[test]
fn an_echo_goes_on_when_its_reader_has_slept() {
    (0..16).for_each(|seed| survive(seed, Trouble::Sleep));
}

#[test]
fn an_echo_goes_on_after_a_cut() {
    (0..16).for_each(|seed| survive(seed, Trouble::Cut));
}

#[test]
fn an_echo_goes_on_after_a_move() {
    (0..48).for_each(|seed| survive(seed, Trouble::Move));
}
