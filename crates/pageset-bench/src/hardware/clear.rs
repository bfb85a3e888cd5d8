//! Clearing of pages of 4 KiB.

use std::hint::black_box;
use std::io;

use super::chase::next;
use super::mapping::Mapping;

/// Bytes of a cleared page, on every machine: that of the simulator.
const PAGE_BYTES: usize = 4096;

/// A buffer whose pages are cleared in an order that no prefetcher predicts.
#[derive(Debug)]
pub(super) struct Pages {
    map: Mapping,
    pages: usize,
    at: usize,
}

impl Pages {
    /// Pages of `bytes`, a power of two. All have been written.
    pub(super) fn new(bytes: usize) -> io::Result<Pages> {
        let mut map = Mapping::huge(bytes)?;
        map.bytes_mut()[..bytes].fill(1);
        Ok(Pages { map, pages: (bytes / PAGE_BYTES).max(1), at: 0 })
    }

    /// Clears the next pages.
    pub(super) fn clear(&mut self, pages: usize) {
        let (mut at, all) = (self.at, self.pages);
        let bytes = self.map.bytes_mut();
        for _ in 0..pages {
            let start = at * PAGE_BYTES;
            black_box(&mut bytes[start..start + PAGE_BYTES]).fill(0);
            at = next(at, all);
        }
        self.at = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pages_are_cleared_once_in_a_cycle() {
        let mut pages = Pages::new(1 << 16).expect("memory");
        let left = |pages: &mut Pages| pages.map.bytes_mut()[..1 << 16].iter().filter(|&&byte| byte == 1).count();
        for cleared in 0..16 {
            assert_eq!(left(&mut pages), (16 - cleared) * PAGE_BYTES);
            pages.clear(1);
        }
        assert_eq!((left(&mut pages), pages.at), (0, 0));
    }
}
