//! Cost of re-arming one of many timers and of taking out those that are due, compared with an ordered set. A
//! timer runs for a minute; every fourth one runs for a second.

use core::time::Duration;
use divan::Bencher;
use moorline_index::Deadlines;
use moorline_types::Instant;
use std::collections::BTreeSet;

fn main() {
    divan::main();
}

trait Timers: Default {
    fn set(&mut self, slot: u32, at: Option<Instant>);
    fn pop(&mut self, now: Instant) -> Option<u32>;
}

impl Timers for Deadlines {
    fn set(&mut self, slot: u32, at: Option<Instant>) {
        self.set(slot, at);
    }

    fn pop(&mut self, now: Instant) -> Option<u32> {
        self.pop(now)
    }
}

#[derive(Default)]
struct Ordered {
    set: BTreeSet<(Instant, u32)>,
    at: Vec<Option<Instant>>,
}

impl Timers for Ordered {
    fn set(&mut self, slot: u32, at: Option<Instant>) {
        if self.at.len() <= slot as usize {
            self.at.resize(slot as usize + 1, None);
        }
        if let Some(old) = core::mem::replace(&mut self.at[slot as usize], at) {
            self.set.remove(&(old, slot));
        }
        if let Some(at) = at {
            self.set.insert((at, slot));
        }
    }

    fn pop(&mut self, now: Instant) -> Option<u32> {
        let (_, slot) = *self.set.first().filter(|(at, _)| *at <= now)?;
        self.set(slot, None);
        Some(slot)
    }
}

/// Timers of a type. Slots are taken in an order that no cache foresees.
struct World<T> {
    timers: T,
    slots: u32,
    now: Instant,
    draws: u32,
}

impl<T: Timers> World<T> {
    fn new(slots: u32) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let mut world = Self { timers: T::default(), slots, now, draws: 1 };
        for slot in 0..slots {
            world.pass();
            world.arm(slot);
        }
        // After a minute and a half, all slots are where they are in the long run.
        (0..slots + slots / 2).for_each(|_| world.expire());
        world
    }

    /// Lets the time of a step pass. As many steps as there are slots take a minute.
    fn pass(&mut self) {
        self.now = self.now + Duration::from_secs(60) / self.slots;
    }

    fn arm(&mut self, slot: u32) {
        self.draws = self.draws.wrapping_mul(0x915f_77f5).wrapping_add(1);
        let seconds = if self.draws >> 30 == 0 { 1 } else { 60 };
        self.timers.set(slot, Some(self.now + Duration::from_secs(seconds)));
    }

    fn rearm(&mut self) {
        let slot = (u64::from(self.draws) * u64::from(self.slots)) >> 32;
        self.arm(u32::try_from(slot).expect("below a u32"));
    }

    /// Re-arms the slots that are due after a step.
    fn expire(&mut self) {
        self.pass();
        while let Some(slot) = self.timers.pop(self.now) {
            self.arm(slot);
        }
    }
}

const SLOTS: [u32; 4] = [1000, 10_000, 100_000, 1_000_000];

#[divan::bench(args = SLOTS, types = [Deadlines, Ordered])]
fn arm_one_anew<T: Timers>(bencher: Bencher<'_, '_>, slots: u32) {
    let mut world = World::<T>::new(slots);
    bencher.bench_local(|| {
        world.rearm();
        world.expire();
    });
}

#[divan::bench(args = SLOTS, types = [Deadlines, Ordered])]
fn let_them_expire<T: Timers>(bencher: Bencher<'_, '_>, slots: u32) {
    let mut world = World::<T>::new(slots);
    bencher.bench_local(|| world.expire());
}
