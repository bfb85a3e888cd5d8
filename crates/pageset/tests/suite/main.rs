//! Tests of the allocator's public interface, in one program: one file per subject.
//!
//! With `--cfg few_tests` only some are compiled: those that ci/tsan.sh and ci/page-sizes.sh run in builds of their own.

#[path = "../support/decode.rs"]
mod decode;
#[path = "../support/layouts.rs"]
mod layouts;
#[path = "../support/mix.rs"]
mod mix;
#[path = "../support/ops.rs"]
mod ops;
#[path = "../support/owner.rs"]
mod owner;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/watched.rs"]
mod watched;

mod errors;
mod fast_paths;
mod mixes;
mod page_sizes;
mod properties;
mod threads;
mod worked_examples;
mod zones;

#[cfg(not(few_tests))]
mod bitmaps;
#[cfg(not(few_tests))]
mod bootstrap;
#[cfg(not(few_tests))]
mod buddy;
#[cfg(not(few_tests))]
mod bulk;
#[cfg(not(few_tests))]
mod claims;
#[cfg(not(few_tests))]
mod cleaned;
#[cfg(not(few_tests))]
mod cluster_schedules;
#[cfg(not(few_tests))]
mod clusters;
#[cfg(not(few_tests))]
mod compaction;
#[cfg(not(few_tests))]
mod compaction_owner;
#[cfg(not(few_tests))]
mod contig;
#[cfg(not(few_tests))]
mod default_rules;
#[cfg(not(few_tests))]
mod depots;
#[cfg(not(few_tests))]
mod double_free;
#[cfg(not(few_tests))]
mod drain_requests;
#[cfg(not(few_tests))]
mod drains;
#[cfg(not(few_tests))]
mod expiry;
#[cfg(not(few_tests))]
mod fallback;
#[cfg(not(few_tests))]
mod hotplug;
#[cfg(not(few_tests))]
mod hotplug_schedules;
#[cfg(not(few_tests))]
mod interrupts;
#[cfg(not(few_tests))]
mod llfree;
#[cfg(not(few_tests))]
mod longest_hold;
#[cfg(not(few_tests))]
mod metadata;
#[cfg(not(few_tests))]
mod mixed_blocks;
#[cfg(not(few_tests))]
mod nmi;
#[cfg(not(few_tests))]
mod parts;
#[cfg(not(few_tests))]
mod place;
mod placed;
#[cfg(not(few_tests))]
mod probes;
#[cfg(not(few_tests))]
mod ranges;
#[cfg(not(few_tests))]
mod refills;
#[cfg(not(few_tests))]
mod regions;
#[cfg(not(few_tests))]
mod reserves;
#[cfg(not(few_tests))]
mod schedules;
#[cfg(not(few_tests))]
mod share;
#[cfg(not(few_tests))]
mod slowpath;
