//! A set of rules and its name.

use pageset::Tuning;

/// The name of the recorded kernel's rules.
pub const KERNEL: &str = "kernel";
/// The name of all presets.
pub const ALL: &str = "all";

/// A set of rules and its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleSet {
    /// The name in results.
    pub name: String,
    /// The rules.
    pub tuning: Tuning,
    /// `vm.percpu_pagelist_high_fraction` (8 or more; 0 for none); replaces the recorded machine's.
    pub high_fraction: Option<u32>,
    /// Each CPU's share of the last-level cache in pages; replaces the recorded machine's, or applies if that is
    /// unknown.
    pub cache_slice_pages: Option<u64>,
}

impl RuleSet {
    /// A set of rules without changes to the recorded machine.
    #[must_use]
    pub fn new(name: &str, tuning: Tuning) -> Self {
        RuleSet { name: name.to_owned(), tuning, high_fraction: None, cache_slice_pages: None }
    }
}
