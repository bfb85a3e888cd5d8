//! The latency of a cache level: loads that each need the result of the load before.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::LINE_BYTES;
use super::mapping::Mapping;

/// Words of a cache line.
const LINE_WORDS: usize = LINE_BYTES / size_of::<AtomicU64>();

/// A cycle over all lines of a buffer, in an order that no prefetcher predicts.
#[derive(Debug)]
pub(super) struct Cycle {
    map: Mapping,
    at: usize,
}

/// The next place in a cycle over `places`, a power of two. A linear congruential generator with these constants visits
/// all places once: the increment is odd, and the multiplier is one more than a multiple of four. Source: Knuth, volume
/// 2, 3.2.1.2, theorem A; the multiplier is of his 6364136223846793005.
pub(super) const fn next(place: usize, places: usize) -> usize {
    place.wrapping_mul(0x4c95_7f2d).wrapping_add(0x3619_636b) & (places - 1)
}

impl Cycle {
    /// A cycle over `bytes` of memory, a power of two. The lines are written in the order of the cycle, so that the next
    /// lines of the cycle are those that were used longest ago.
    pub(super) fn new(bytes: usize) -> io::Result<Cycle> {
        let map = Mapping::huge(bytes)?;
        let lines = bytes / LINE_BYTES;
        let mut line = 0;
        for _ in 0..lines {
            let to = next(line, lines);
            map.words()[line * LINE_WORDS].store((to * LINE_WORDS) as u64, Relaxed);
            line = to;
        }
        Ok(Cycle { map, at: 0 })
    }

    /// Follows the cycle for `steps` lines.
    pub(super) fn follow(&mut self, steps: usize) {
        let words = self.map.words();
        let mut at = self.at;
        for _ in 0..steps {
            at = words[at].load(Relaxed) as usize;
        }
        self.at = black_box(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_visits_each_line_once() {
        for bytes in [1 << 12, 1 << 16] {
            let mut cycle = Cycle::new(bytes).expect("memory");
            let mut seen = vec![false; bytes / LINE_BYTES];
            for _ in 0..seen.len() {
                assert!(!std::mem::replace(&mut seen[cycle.at / LINE_WORDS], true));
                cycle.follow(1);
            }
            assert_eq!(cycle.at, 0);
        }
    }
}
