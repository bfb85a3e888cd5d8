//! Random numbers from a seed.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A sequence of random numbers (xorshift64*). One CPU uses it at a time, in one context.
#[derive(Debug)]
pub struct Random(AtomicU64);

impl Random {
    /// A sequence that [`Self::seed`] has yet to begin.
    pub const fn unseeded() -> Random {
        Random(AtomicU64::new(1))
    }

    /// Begins the sequence number `sequence` of a seed.
    pub fn seed(&self, seed: u64, sequence: u64) {
        // The mix of splitmix64: nearby seeds give unrelated sequences. Zero is the one state to avoid.
        let mut state = seed.wrapping_add((sequence + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        self.0.store((state ^ (state >> 31)) | 1, Relaxed);
    }

    /// The next 32 bits.
    pub fn next(&self) -> u32 {
        // Relaxed: only the owner reads and writes it.
        let mut state = self.0.load(Relaxed);
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.0.store(state, Relaxed);
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
    }

    /// A number from 0 to `bound - 1`.
    pub fn below(&self, bound: u32) -> u32 {
        ((u64::from(self.next()) * u64::from(bound)) >> 32) as u32
    }

    /// The number of heads before the first tail, at most `most`: 0 half of the time, 1 a quarter of the time.
    pub fn geometric(&self, most: u8) -> u8 {
        (self.next().trailing_ones() as u8).min(most)
    }
}
