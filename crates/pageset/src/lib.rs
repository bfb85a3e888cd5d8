//! A page allocator with per-CPU page caches.
#![no_std]
#![forbid(unsafe_code)]

pub mod frame;
pub mod migrate;

pub use frame::{CpuId, Order, Pfn};
pub use migrate::MigrateType;
