//! Tests of the allocator's public interface, in one program: one file per subject.

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

mod bitmaps;
mod bootstrap;
mod buddy;
mod bulk;
mod claims;
mod cleaned;
mod cluster_schedules;
mod clusters;
mod compaction;
mod compaction_owner;
mod contig;
mod default_rules;
mod depots;
mod double_free;
mod drain_requests;
mod drains;
mod errors;
mod expiry;
mod fallback;
mod fast_paths;
mod hotplug;
mod hotplug_schedules;
mod interrupts;
mod llfree;
mod longest_hold;
mod metadata;
mod mixed_blocks;
mod mixes;
mod page_sizes;
mod parts;
mod place;
mod probes;
mod properties;
mod ranges;
mod refills;
mod regions;
mod reserves;
mod schedules;
mod share;
mod slowpath;
mod threads;
mod worked_examples;
mod zones;
