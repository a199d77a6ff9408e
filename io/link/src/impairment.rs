//! Effects of a cable on packets, as a pure function of their arrival.

use std::time::Duration;

/// Impairment of packets on a cable, for each direction by itself.
///
/// The order is always kept: a packet never overtakes an earlier one. With jitter, the delay is drawn anew every
/// [`Impairment::EPOCH`]. So it varies as on a path whose load varies. If it varied with each packet, the packets of
/// a bulk transfer would all have the longest delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Impairment {
    /// Mean delay in one direction.
    pub delay: Duration,
    /// Standard deviation of the delay in one direction, which is normally distributed and never below zero.
    pub jitter: Duration,
    /// Packets lost at random, per million.
    pub loss_ppm: u32,
    /// Octets per second, with those of the Ethernet header; `None`: no limit.
    pub rate: Option<u64>,
    /// Octets that may wait for a cable with a rate. Further packets are dropped.
    pub queue: u64,
    /// Seed of all random values.
    pub seed: u64,
}

impl Impairment {
    /// Time for which a drawn delay holds.
    pub const EPOCH: Duration = Duration::from_millis(100);

    /// An impairment with this delay in each direction, and nothing else.
    #[must_use]
    pub fn delay(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    /// Whether the division of octets into packets matters, so that packets must come as on a wire.
    #[must_use]
    pub fn counts_packets(&self) -> bool {
        self.loss_ppm > 0 || self.rate.is_some()
    }
}

/// One direction of a cable. Times count from an arbitrary moment, the same in all calls.
#[derive(Clone, Debug)]
pub struct Channel {
    plan: Impairment,
    seed: u64,
    /// Number of packets that came.
    count: u64,
    /// Time when the sender's end is free again.
    free: Duration,
    /// Time when the last packet comes out.
    last: Duration,
}

impl Channel {
    /// Creates direction 0 or 1 of a cable.
    #[must_use]
    pub fn new(plan: Impairment, direction: u64) -> Self {
        let seed = mix(plan.seed.wrapping_add(direction.wrapping_mul(GOLDEN)));
        Self { plan, seed, count: 0, free: Duration::ZERO, last: Duration::ZERO }
    }

    /// Takes a packet that comes at `now`. Returns the time when it comes out at the other end, if it does.
    pub fn admit(&mut self, octets: usize, now: Duration) -> Option<Duration> {
        let number = self.count;
        self.count += 1;
        // The draw is separate for each packet, so that a loss depends on nothing else.
        if self.draw(LOSS, number) % MILLION < u64::from(self.plan.loss_ppm) {
            return None;
        }
        let sent = self.serialize(octets as u64, now)?;
        self.last = self.last.max(sent + self.delay_at(now));
        Some(self.last)
    }

    /// Time when the last octet of the packet has left; `None` if the queue is full.
    fn serialize(&mut self, octets: u64, now: Duration) -> Option<Duration> {
        let Some(rate) = self.plan.rate else { return Some(now) };
        let time = |octets: u64| Duration::from_secs_f64(octets as f64 / rate.max(1) as f64);
        let start = self.free.max(now);
        if start - now > time(self.plan.queue) {
            return None;
        }
        self.free = start + time(octets);
        Some(self.free)
    }

    fn delay_at(&self, now: Duration) -> Duration {
        let Impairment { delay, jitter, .. } = self.plan;
        if jitter.is_zero() {
            return delay;
        }
        let epoch = u64::try_from(now.as_nanos() / Impairment::EPOCH.as_nanos()).unwrap_or(0);
        let seconds = delay.as_secs_f64() + jitter.as_secs_f64() * self.normal(epoch);
        Duration::from_secs_f64(seconds.max(0.0))
    }

    /// A value from the standard normal distribution, by Box and Muller.
    fn normal(&self, epoch: u64) -> f64 {
        let unit = |draw: u64| ((draw >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let radius = (-2.0 * unit(self.draw(RADIUS, epoch)).ln()).sqrt();
        radius * (std::f64::consts::TAU * unit(self.draw(ANGLE, epoch))).cos()
    }

    fn draw(&self, what: u64, number: u64) -> u64 {
        mix(mix(self.seed ^ what).wrapping_add(number.wrapping_mul(GOLDEN)))
    }
}

/// The last step of SplitMix64.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
const MILLION: u64 = 1_000_000;
/// Purposes of random draws.
const LOSS: u64 = 1;
const RADIUS: u64 = 2;
const ANGLE: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_packet_comes_out_after_the_delay() {
        let mut channel = Channel::new(Impairment::delay(ms(40)), 0);
        assert_eq!(channel.admit(100, ms(7)), Some(ms(47)));
        assert_eq!(channel.admit(1500, ms(8)), Some(ms(48)));
    }

    #[test]
    fn jitter_is_normal_and_keeps_the_order() {
        let plan = Impairment { jitter: ms(14), seed: 3, ..Impairment::delay(ms(40)) };
        let mut channel = Channel::new(plan, 0);
        let (mut last, mut delays) = (Duration::ZERO, Vec::new());
        for number in 0..5000 {
            let at = Impairment::EPOCH * number + ms(90);
            for now in [at, at + ms(1)] {
                let out = channel.admit(100, now).unwrap();
                assert!(out >= last && out >= now);
                last = out;
                delays.push((out - now).as_secs_f64() * 1e3);
            }
        }
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        let variance =
            delays.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / delays.len() as f64;
        assert!((39.0..41.5).contains(&mean), "{mean}");
        assert!((13.0..15.0).contains(&variance.sqrt()), "{}", variance.sqrt());
        let within = delays.iter().filter(|delay| (26.0..54.0).contains(*delay)).count();
        assert!((0.65..0.72).contains(&(within as f64 / delays.len() as f64)), "{within}");
    }

    #[test]
    fn the_seed_says_what_is_lost() {
        let lost = |seed: u64, direction: u64| {
            let plan = Impairment { loss_ppm: 50_000, seed, ..Impairment::default() };
            let mut channel = Channel::new(plan, direction);
            (0..20_000).filter(|_| channel.admit(100, ms(1)).is_none()).collect::<Vec<_>>()
        };
        assert!((900..1100).contains(&lost(1, 0).len()), "{}", lost(1, 0).len());
        assert_eq!(lost(1, 0), lost(1, 0));
        assert_ne!(lost(1, 0), lost(1, 1));
        assert_ne!(lost(1, 0), lost(2, 0));
    }

    #[test]
    fn a_rate_spreads_packets_and_a_full_queue_drops_them() {
        let plan = Impairment { rate: Some(100_000), queue: 3000, ..Impairment::delay(ms(5)) };
        let mut channel = Channel::new(plan, 0);
        let out: Vec<_> = (0..5).map(|_| channel.admit(1000, ms(10))).collect();
        // Each packet takes ten milliseconds. The last one finds more than 3000 octets before it.
        let expected = [25, 35, 45, 55].map(|at| Some(ms(at)));
        assert_eq!(out, [&expected[..], &[None]].concat());
        assert_eq!(channel.admit(1000, ms(60)), Some(ms(75)));
    }
}
