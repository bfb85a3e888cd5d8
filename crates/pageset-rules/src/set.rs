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
    pub fn new(name: &str, tuning: Tuning) -> Self {
        RuleSet { name: name.to_owned(), tuning, high_fraction: None, cache_slice_pages: None }
    }
}

/// Rules on a machine whose kernel was built with this `batch_scale_max`, where that is known. Rules with another value than the
/// kernels' default, as `pageset` has, keep it.
pub fn on_machine(tuning: Tuning, batch_scale_max: Option<u8>) -> Tuning {
    // Specification 9.
    const KERNEL_DEFAULT: u8 = 5;
    match batch_scale_max {
        Some(scale) if tuning.batch_scale_max == KERNEL_DEFAULT => Tuning { batch_scale_max: scale.min(6), ..tuning },
        _ => tuning,
    }
}

#[cfg(test)]
mod tests {
    use pageset::policy::presets::{LINUX_6_18, PAGESET};

    use super::*;

    #[test]
    fn rules_with_a_scale_of_their_own_keep_it() {
        let scale = |tuning, scale| on_machine(tuning, scale).batch_scale_max;
        assert_eq!([None, Some(3), Some(9)].map(|kernel| scale(LINUX_6_18, kernel)), [5, 3, 6]);
        assert_eq!([None, Some(5), Some(6)].map(|kernel| scale(PAGESET, kernel)), [3; 3]);
    }
}
