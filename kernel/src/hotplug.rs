//! CPUs and memory that go offline and come back while all CPUs work. The first CPU does this between its own operations.

use arrayvec::ArrayVec;
use pageset::{CpuId, Order, PageRange};

use crate::cpu::Counter;
use crate::frames::{frames, spans};
use crate::mailboxes::Mailboxes;
use crate::random::Random;
use crate::smp::{self, State};

/// The size of the ranges that go offline: 4 MiB.
const RANGE: Order = Order::MAX;
/// The most ranges that are offline at a time. More would leave too little memory.
const MAX_RANGES: usize = 8;
/// What offline memory contains, in the first word of each cache line: a CPU that uses it anyway is found.
const PATTERN: u64 = 0x0FF1_14E0_0FF1_14E0;

/// What has come and gone.
#[derive(Debug, Default)]
pub struct Hotplug {
    pub cpus_stopped: Counter,
    pub ranges_offline: Counter,
    /// Ranges with a hole, or with a page in use that does not move.
    pub ranges_refused: Counter,
    offline: ArrayVec<PageRange, MAX_RANGES>,
}

impl Hotplug {
    /// Takes something offline or brings it back.
    pub fn step(&mut self, random: &Random) {
        match random.below(4) {
            0 | 1 if smp::count() > 1 => self.cpu(CpuId(1 + random.below(smp::count() - 1)), random),
            2 if !self.offline.is_empty() => {
                let range = self.offline.swap_remove(random.below(self.offline.len() as u32) as usize);
                online(range);
            }
            _ => self.take_offline(random),
        }
    }

    /// Brings everything back, and waits until all CPUs have finished.
    pub fn finish(&mut self) {
        self.offline.drain(..).for_each(online);
        for cpu in smp::others().filter(|cpu| smp::state(*cpu) == State::Stopped) {
            frames().cpu_online(cpu).unwrap_or_else(|error| panic!("{error}"));
            smp::start(cpu);
        }
        while smp::others().any(|cpu| smp::state(cpu) != State::Finished) {
            core::hint::spin_loop();
        }
    }

    /// Stops a CPU that works, or starts one that was stopped.
    fn cpu(&self, cpu: CpuId, random: &Random) {
        match smp::state(cpu) {
            State::Working => {
                let take_away = || frames().cpu_offline(cpu).unwrap_or_else(|error| panic!("{error}"));
                // Half of the time the CPU still allocates when the allocator takes it away.
                if random.below(2) == 0 {
                    take_away();
                    smp::stop(cpu);
                } else {
                    smp::stop(cpu);
                    take_away();
                }
                self.cpus_stopped.add(1);
                if smp::state(cpu) == State::Finished {
                    frames().cpu_online(cpu).unwrap_or_else(|error| panic!("{error}"));
                }
            }
            State::Stopped => {
                frames().cpu_online(cpu).unwrap_or_else(|error| panic!("{error}"));
                smp::start(cpu);
            }
            State::Starting | State::Stopping | State::Finished => {}
        }
    }

    /// Takes a random range offline, if its blocks move.
    fn take_offline(&mut self, random: &Random) {
        let zone = random.below(spans().count() as u32) as usize;
        let Some(span) = spans().nth(zone).filter(|_| !self.offline.is_full()) else { return };
        let blocks = (span.pages / RANGE.pages()) as u32;
        let start = span.start.align_down(RANGE).offset(u64::from(random.below(blocks)) * RANGE.pages());
        let range = PageRange::new(start, RANGE.pages());
        let result = frames().offline(range, &Mailboxes::default());
        if result.is_err() {
            self.ranges_refused.add(1);
            return;
        }
        self.ranges_offline.add(1);
        // SAFETY: the allocator has given the range up, so it belongs to this function.
        words(range).for_each(|word| unsafe { word.write_volatile(PATTERN) });
        self.offline.push(range);
    }
}

/// Brings a range back.
///
/// # Panics
/// Someone wrote the memory while it was offline.
fn online(range: PageRange) {
    for word in words(range) {
        // SAFETY: the range has belonged to `Hotplug` since it went offline.
        let found = unsafe { word.read_volatile() };
        assert!(found == PATTERN, "offline memory has an owner: {word:p} is {found:#x}; expected {PATTERN:#x}");
    }
    frames().online(range).unwrap_or_else(|error| panic!("{error}"));
}

/// The first word of each cache line of a range.
fn words(range: PageRange) -> impl Iterator<Item = *mut u64> {
    (range.start.address()..range.end().address()).step_by(64).map(|word| word as *mut u64)
}
