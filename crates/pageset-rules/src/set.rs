//! A set of rules and its name.

use pageset::Tuning;

/// The name of the recorded kernel's rules.
pub const KERNEL: &str = "kernel";
/// The name of all presets.
pub const ALL: &str = "all";

/// A set of rules, by the name that results give it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleSet {
    /// What it is called in results.
    pub name: String,
    /// The rules.
    pub tuning: Tuning,
    /// The administrator's fraction (8 or more; 0 for none), instead of the recorded machine's.
    pub high_fraction: Option<u32>,
    /// Each CPU's share of the last-level cache in pages, instead of the recorded machine's or where that is not known.
    pub cache_slice_pages: Option<u64>,
}

impl RuleSet {
    /// Rules on a machine that stays as it was recorded.
    #[must_use]
    pub fn new(name: &str, tuning: Tuning) -> Self {
        RuleSet { name: name.to_owned(), tuning, high_fraction: None, cache_slice_pages: None }
    }
}
