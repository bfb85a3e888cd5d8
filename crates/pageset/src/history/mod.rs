//! Rules that kernels dropped or never merged.

pub(crate) mod cluster;
pub(crate) mod merge_skip;
pub(crate) mod round_robin;
mod whole;
