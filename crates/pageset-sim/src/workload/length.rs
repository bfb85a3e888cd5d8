//! Default simulated times: long enough for the cycles of a workload, and no longer.

use crate::time::Time;

/// The virtual time of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Length {
    /// Time before the measurement begins.
    pub warm_up: Time,
    /// Measured time.
    pub time: Time,
}

impl Length {
    /// Several cycles of filling and freeing regions of 128 MiB. A cycle takes a few tenths of a second on a busy
    /// machine. The paces of the shipped machines are fitted with these times, and `docs/archive/accuracy.md` reports
    /// the accuracy of these times.
    pub const REGIONS: Length = Length::ms(500, 1500);
    /// The same with hardly any allocation, where the allocator's lists need no time to become steady.
    pub const MAPPINGS: Length = Length::ms(250, 500);
    /// Rounds of a few microseconds: a tenth of a second has thousands of them.
    pub const ROUNDS: Length = Length::ms(20, 100);
    /// Rounds of some milliseconds.
    pub const LONG_ROUNDS: Length = Length::ms(100, 500);
    /// Messages. A pageset's high grows with each refill and shrinks once a second; the measured time includes a whole
    /// second.
    pub const MESSAGES: Length = Length::ms(200, 1000);

    /// The longest measurement of a run that measures until it is steady: six times the default. Slower changes than
    /// this are reported and not waited for.
    pub const fn limit(self) -> Time {
        self.time.times(6)
    }

    /// Times in milliseconds.
    pub(super) const fn ms(warm_up: u64, time: u64) -> Length {
        const MS: u64 = 1_000_000_000;
        Length { warm_up: Time::from_ps(warm_up * MS), time: Time::from_ps(time * MS) }
    }
}
