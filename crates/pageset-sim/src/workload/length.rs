//! How long a workload is simulated where nobody says otherwise: long enough for what it does in cycles, and no longer.

use crate::time::Time;

/// Virtual time of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Length {
    /// Before the measurement begins.
    pub warm_up: Time,
    /// That is measured.
    pub time: Time,
}

impl Length {
    /// Regions of 128 MiB that are filled and given back, a few tenths of a second each on a busy machine: some of them.
    /// Costs of the shipped machines are fitted with these lengths, and the accuracy in `docs/research/accuracy.md` is that of these.
    pub const REGIONS: Length = Length::ms(500, 1500);
    /// The same where nearly nothing is allocated, so that lists in the allocator have nothing to come to rest from.
    pub const MAPPINGS: Length = Length::ms(250, 500);
    /// The same few microseconds again and again: there are thousands of rounds in a tenth of a second.
    pub const ROUNDS: Length = Length::ms(20, 100);
    /// Rounds of some milliseconds.
    pub const LONG_ROUNDS: Length = Length::ms(100, 500);
    /// Messages: a pageset's high grows with each refill and shrinks once a second, and what is measured has a whole second
    /// of both.
    pub const MESSAGES: Length = Length::ms(200, 1000);

    /// So many milliseconds.
    pub(super) const fn ms(warm_up: u64, time: u64) -> Length {
        const MS: u64 = 1_000_000_000;
        Length { warm_up: Time::from_ps(warm_up * MS), time: Time::from_ps(time * MS) }
    }
}
