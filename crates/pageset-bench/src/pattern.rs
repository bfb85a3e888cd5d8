//! The patterns, by name.

use std::fmt;
use std::str::FromStr;

/// Pages that a thread holds in `Random` and `Churn`: 256 MiB, far more than caches hold.
pub const HELD: usize = 65_536;
/// Pages allocated or freed in a row by the patterns that do so.
pub const BATCH: usize = 512;
/// Pages of the allocator in `Half` and `HalfHuge`, which allocate half of them: 4 GiB.
pub const HALF_OF: usize = 1 << 20;

/// A pattern of allocations and frees.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Pattern {
    /// Allocates one page and frees it.
    Hot,
    /// Allocates 512 pages and frees them in the same order.
    Bulk,
    /// Holds 65,536 pages; frees a random one and allocates one.
    Random,
    /// Holds 65,536 pages; frees 512 scattered ones and allocates 512.
    Churn,
    /// One CPU allocates, another frees; pages travel in batches of 64.
    Remote,
    /// As `Hot`, with 512 contiguous pages.
    HotHuge,
    /// One call allocates this many pages, one call frees them.
    Calls(usize),
    /// Allocates half of 4 GiB, then frees it, which exceeds every cache.
    Half,
    /// As `Half`, in runs of 512 contiguous pages.
    HalfHuge,
    /// As `Hot`, in a memory of which one page in each block of this many pages is in use, and has been since all of it was: no
    /// larger block is free.
    Old(usize),
}

impl Pattern {
    /// All patterns, in the order of the table.
    pub const ALL: [Pattern; 13] = [
        Self::Hot,
        Self::Bulk,
        Self::Random,
        Self::Churn,
        Self::Remote,
        Self::HotHuge,
        Self::Calls(32),
        Self::Calls(256),
        Self::Half,
        Self::HalfHuge,
        Self::Old(16),
        Self::Old(512),
        Self::Old(1024),
    ];

    /// The order of its blocks.
    pub const fn order(self) -> u8 {
        match self {
            Self::HotHuge | Self::HalfHuge => 9,
            _ => 0,
        }
    }

    /// Whether the pattern supports this number of threads.
    pub const fn takes(self, threads: usize) -> bool {
        threads > 0 && (!matches!(self, Self::Remote) || threads == 2)
    }

    /// Pages that an allocator needs for this pattern.
    pub const fn pages(self, threads: usize) -> usize {
        match self {
            Self::Half | Self::HalfHuge => HALF_OF,
            _ => (2 * HELD * threads) << (self.order() / 9),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hot => f.write_str("hot"),
            Self::Bulk => f.write_str("bulk"),
            Self::Random => f.write_str("random"),
            Self::Churn => f.write_str("churn"),
            Self::Remote => f.write_str("remote"),
            Self::HotHuge => f.write_str("order-9"),
            Self::Calls(pages) => write!(f, "calls-{pages}"),
            Self::Half => f.write_str("half"),
            Self::HalfHuge => f.write_str("half-9"),
            // 256 pages are 1 MiB.
            Self::Old(pages) if *pages < 256 => write!(f, "old-{}k", 4 * pages),
            Self::Old(pages) => write!(f, "old-{}m", pages / 256),
        }
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|pattern| pattern.to_string() == name).ok_or_else(|| {
            let names: Vec<String> = Self::ALL.iter().map(Pattern::to_string).collect();
            format!("no such pattern; allowed: {}", names.join(", "))
        })
    }
}
