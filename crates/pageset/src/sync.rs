//! The atomics of the protocols that a model checker explores: core's, or loom's where it runs (`docs/contributing/testing.md`).

#[cfg(not(all(loom, test)))]
pub(crate) use core::{hint, sync::atomic};
#[cfg(all(loom, test))]
pub(crate) use loom::{hint, sync::atomic};
