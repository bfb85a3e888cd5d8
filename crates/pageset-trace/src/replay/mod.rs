//! Replays a recording: the recorded allocations and frees run through the allocator, under any rules.
//!
//! Specification: `trace-replay.md`. Modules, bottom to top:
//!
//! | module | contents |
//! | --- | --- |
//! | `types` | the migratetypes of lists |
//! | `blocks` | the recorded machine's blocks in use |
//! | [`moves`] | refills and drains, and the comparison of two sets of moves |
//! | [`setting`] | the recorded machine, from its snapshots |
//! | `kernel_lists` | the kernel's pageset lists, page by page |
//! | `balance` | pageset counts from the events, compared with the snapshots |
//! | `start_state` | the counters of each pageset at the start |
//! | `reclaim` | the times of active reclaim |
//! | `hotplug` | on-line CPUs, and zones with disabled pagesets |
//! | `findings` | counts of a recording, and operations without an event of their own |
//! | `late_allocs` | huge pages whose event comes after other events of the CPU |
//! | `split_blocks` | blocks that are allocated whole and freed page by page |
//! | `free_pass`, `list_pass`, `survey` | passes before a replay: the kernel's moves, and changes without an event |
//! | `high_orders` | free memory in large blocks |
//! | `holds` | the work under zone locks |
//! | `world` | an allocator with the recorded kernel's memory layout |
//! | `plan` | the inputs of one replay |
//! | `undecided` | moments that the input does not decide |
//! | `gfp` | zones, migratetype and urgency of a recorded request |
//! | `corrections` | memory that changed without an event |
//! | `zone_counters` | the counters of a zone on each CPU, which the timer work reads |
//! | `run` | one replay under one set of rules |
//! | `parallel` | replays on several threads |
//! | [`selection`] | refills and drains by CPU, process or cgroup |
//! | [`what_if`] | a replay of a machine that differs from the recorded one |
//! | [`agreement`] | the limits within which a replay agrees with the kernel |
//! | [`identify`] | the kernel rules that fit a recording best |

pub mod agreement;
mod balance;
pub(crate) mod blocks;
mod corrections;
mod findings;
mod free_pass;
pub(crate) mod gfp;
mod high_orders;
mod holds;
mod hotplug;
pub mod identify;
mod kernel_lists;
mod late_allocs;
mod list_pass;
pub mod moves;
pub(crate) mod parallel;
mod plan;
mod reclaim;
mod run;
pub mod selection;
pub mod setting;
mod split_blocks;
mod start_state;
mod survey;
mod types;
mod undecided;
pub mod what_if;
mod world;
mod zone_counters;

use std::sync::Arc;

use pageset::MapError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use findings::{Found, Notes};
pub use high_orders::HighOrders;
pub use moves::{Move, Moves, Near, Totals, busiest, near};
pub use pageset::policy::{BulkFree, Preset, Tuning};
pub use pageset_rules::RuleSet;
use pageset_rules::RulesError;
pub use setting::Setting;

use crate::coverage::Coverage;
use crate::error::TraceError;
use crate::trace::Trace;
use crate::trace::compact::{Compact, Events};
use survey::{First, Survey};
use undecided::Moment;
pub use what_if::WhatIf;

/// The events and snapshots that a replay may use. One result never mixes levels. Specification: `trace-replay.md` 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The events that act on a pageset: allocations, bulk allocations, frees, the timer work, reclaim and requests to
    /// drain. Also the pageset's state at the start: the first snapshot, and the counters and list lengths that no
    /// snapshot prints. Those are inferred from the first moves. [`Borrowed`] counts the values that come from the
    /// kernel's own moves. Also watermarks and sizes of pagesets that were set while recording, as a sysctl or the first
    /// use of huge pages sets them, from the snapshot that first shows them.
    Input,
    /// Also the information in the kernel's later refills and drains: allocations without an event, frees that met a
    /// busy pageset, and the time of each refill. Also the zones' free memory in later snapshots.
    Reconstructed,
}

impl Level {
    /// The name on a command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Reconstructed => "reconstructed",
        }
    }
}

/// Counts the information that a replay takes from the kernel's own refills, drains and later snapshots, not from its
/// input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Borrowed {
    /// Pagesets with list lengths at the start that are inferred from the blocks that the kernel took from them later.
    /// Zoneinfo prints only the sum of the lengths. Both levels.
    pub start_lists: u64,
    /// Pagesets with counters at the start that are inferred from the kernel's first refills and drains. Both levels.
    pub start_counters: u64,
    /// Pagesets of other nodes whose countdown to a drain of idle pages ran at the start. The tick of the kernel's first such drain shows
    /// the ticks that were left. Both levels.
    #[serde(default)]
    pub start_countdowns: u64,
    /// Pagesets whose start is unclear: several starts explain the first moves equally well, or none does. Both levels.
    pub unclear_starts: u64,
    /// Drains that compaction, a contiguous range or hot-plug requested. They are detected as kernel drains that no
    /// free and no timer work caused. Both levels.
    pub drain_requests: u64,
    /// Allocations without an event, inferred from the kernel's lists. Reconstructed only.
    pub inferred_allocs: u64,
    /// Ticks at which a counter of a zone must have changed without an event: the kernel does not drain another node's pages that are due,
    /// or drains some that are not. Reconstructed only.
    #[serde(default)]
    pub unseen_counter_changes: u64,
    /// Allocations moved to the refill that they caused, or before the timer work if the kernel's drain there shows it. Reconstructed only.
    pub moved_allocs: u64,
    /// Huge pages that the replay takes before other events of their CPU, although their own event comes later: the kernel clears a page
    /// before it writes the event. The kernel's refills show how long clearing takes. Input only.
    #[serde(default)]
    pub late_allocs: u64,
    /// Frees that probably met a busy pageset. Reconstructed only.
    pub direct_frees: u64,
    /// Later snapshots with other watermarks or sizes of pagesets than before: they were set between two snapshots. No event shows the
    /// moment; see `setting_moments`. Input only; the other level uses every snapshot.
    #[serde(default)]
    pub settings: u64,
    /// Settings between two snapshots whose moment the kernel shows: its first drain with fewer pages than the old bounds of `high`
    /// allow, and enough for the new ones, or its first refill of the new batch. Both levels.
    #[serde(default)]
    pub setting_moments: u64,
    /// Later snapshots with watermarks and free memory that the replay used. Reconstructed only.
    #[serde(rename = "later_snapshots")]
    pub snapshots: u64,
}

/// The result of one replay.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The level of the replay.
    pub level: Level,
    /// The replay's refills and drains.
    pub moves: Moves,
    /// Allocations and frees.
    pub operations: u64,
    /// Pages allocated and freed past the pagesets.
    pub direct_pages: u64,
    /// Pages that drains left in bitmaps of pageblocks, and that refills took from there, without a lock. They are part of the moves.
    pub bitmap_pages: u64,
    /// Acquisitions of zone locks.
    pub zone_lock_acquisitions: u64,
    /// Cache lines touched while a zone lock was held: the sum over all holds. A line counts once per hold.
    pub zone_lock_lines: u64,
    /// The most cache lines touched in one hold.
    pub longest_hold_lines: u64,
    /// The most pages in pagesets at any time.
    pub held_pages_max: u64,
    /// The most pages in depots at any time. No pageset holds them.
    pub depot_pages: u64,
    /// The most pages in pagesets and depots together at any time.
    pub cached_pages_max: u64,
    /// Allocations that failed.
    pub failed: u64,
    /// Allocations that succeeded although their zone was below its min watermark.
    pub below_min: u64,
    /// Freed blocks without a recorded allocation.
    pub unseen_allocs: u64,
    /// Blocks allocated twice without a free in between.
    pub lost_frees: u64,
    /// Frees that the allocator refused, and operations on unknown CPUs.
    pub refused_frees: u64,
    /// The information that the replay took from the kernel's own moves.
    pub borrowed: Borrowed,
    /// Free pages in large blocks; `None` where the recording does not tell the sizes of free blocks.
    pub high_orders: Option<HighOrders>,
}

impl Outcome {
    fn new(level: Level) -> Self {
        Outcome {
            level,
            moves: Moves::default(),
            operations: 0,
            direct_pages: 0,
            bitmap_pages: 0,
            zone_lock_acquisitions: 0,
            zone_lock_lines: 0,
            longest_hold_lines: 0,
            held_pages_max: 0,
            depot_pages: 0,
            cached_pages_max: 0,
            failed: 0,
            below_min: 0,
            unseen_allocs: 0,
            lost_frees: 0,
            refused_frees: 0,
            borrowed: Borrowed::default(),
            high_orders: None,
        }
    }
}

/// The reason why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The recording is damaged or incomplete.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The rules are invalid.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The rules are inconsistent, or the recorded machine cannot be built.
    #[error("{}", cannot_map(.0))]
    Map(MapError),
}

impl From<MapError> for ReplayError {
    fn from(error: MapError) -> Self {
        Self::Map(error)
    }
}

fn cannot_map(error: &MapError) -> String {
    match error {
        MapError::Tuning(_) => format!("these rules are invalid for this machine: {error}"),
        _ => format!("the recorded machine cannot be built: {error}"),
    }
}

/// The progress of a command that replays a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The two passes over the recording begin.
    LookOver,
    /// The number of events that a pass has read.
    Events(u64),
    /// The number of presets that have been compared.
    Presets {
        /// Presets compared so far.
        done: u64,
        /// Presets to compare.
        of: u64,
    },
    /// A replay begins.
    Replay {
        /// The rules' name.
        rules: &'a str,
        /// Events to read.
        events: u64,
        /// Finished replays.
        done: u64,
        /// Replays in all.
        of: u64,
    },
}

/// A page of the replayed machine: its metadata, at most 12 bytes, see `Config::zone_metadata_size`, and its last hold, 4 bytes.
/// Unit: bytes.
const WORLD_BYTES: u64 = 16;
/// The entry of a recorded page in the table of blocks in use. Unit: bytes.
const BLOCK_BYTES: u64 = 8;

/// A recording's events, with dense page numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded<'r> {
    trace: &'r Trace,
    compact: &'r Compact,
}

impl<'r> Recorded<'r> {
    pub(crate) fn events(self) -> Result<Events<'r>, TraceError> {
        self.compact.events(self.trace)
    }
}

/// Replays that try undecided moments the other way. A guess.
const OTHER_WAYS: u64 = 12;
/// The events that they read in all. A guess: as long as one replay of a recording of a minute.
const OTHER_WAYS_EVENTS: u64 = 2_000_000;

/// The number of times that [`Replay::prepare`] reads each event at most.
pub const PASSES: u64 = 3;

/// A decoded recording, before it is surveyed.
#[derive(Clone, Debug)]
pub(crate) struct Decoded<'t> {
    trace: &'t Trace,
    compact: Arc<Compact>,
    setting: Setting,
    /// The events that were read to decode the recording: none if another replay of it has done so.
    read: u64,
}

impl<'t> Decoded<'t> {
    pub(crate) fn new(trace: &'t Trace, progress: &mut dyn FnMut(u64)) -> Result<Self, TraceError> {
        let mut setting = Setting::new(trace)?;
        let mut read = 0;
        let compact = trace.compact(&mut |index| {
            read = index + 1;
            progress(index);
        })?;
        setting.number_pages(compact.units());
        Ok(Decoded { trace, compact, setting, read })
    }

    /// Surveys the recording with `kernel`'s rules as those of the recorded kernel. `first` is the first pass if it is
    /// known already.
    fn survey(
        &self,
        kernel: &'static Preset,
        first: Option<Arc<First>>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Replay<'t>, TraceError> {
        let mut decoded = Decoded { setting: Setting { kernel, ..self.setting.clone() }, ..self.clone() };
        let first = match first {
            Some(first) => first,
            None => {
                let mut first = First::new(decoded.recorded(), &decoded.setting, progress)?;
                if first.notes.replayed == 0 && first.notes.events > 0 && first.notes.found.markers == 0 {
                    // A recording without markers, such as a `perf.data`, has no window: the replay starts at its
                    // first event.
                    decoded.setting.replay_whole();
                    first = First::new(decoded.recorded(), &decoded.setting, progress)?;
                }
                Arc::new(first)
            }
        };
        let survey = Arc::new(Survey::new(decoded.recorded(), &decoded.setting, first, progress)?);
        Ok(Replay { decoded, survey })
    }

    /// Surveys the recording as recorded.
    pub(crate) fn replay(&self, progress: &mut dyn FnMut(u64)) -> Result<Replay<'t>, TraceError> {
        self.survey(self.setting.kernel, None, &mut |events| progress(self.read + events))
    }

    pub(crate) fn recorded(&self) -> Recorded<'_> {
        Recorded { trace: self.trace, compact: &self.compact }
    }

    /// The number of passes that may run at the same time, within the recording's limits. `in_use` pages are in use
    /// before the first event.
    pub(crate) fn threads(&self, in_use: u64) -> usize {
        let resources = self.trace.resources();
        let free = resources.memory_bytes.saturating_sub(self.compact.bytes());
        let fitting = free / self.replay_bytes(in_use).max(1);
        resources.threads.min(usize::try_from(fitting).unwrap_or(usize::MAX)).max(1)
    }

    /// An estimate of the memory of one replay.
    fn replay_bytes(&self, in_use: u64) -> u64 {
        let pages: u64 = self.setting.zones.iter().map(|zone| zone.start.unused()).fold(0, u64::saturating_add);
        pages.saturating_add(in_use).saturating_mul(WORLD_BYTES) + self.compact.table_bytes(BLOCK_BYTES)
    }
}

/// A recording, ready to be replayed.
#[derive(Clone, Debug)]
pub struct Replay<'t> {
    decoded: Decoded<'t>,
    survey: Arc<Survey>,
}

impl<'t> Replay<'t> {
    /// Decodes a recording, unless another replay of it has done so, and surveys it. Reads each event [`PASSES`] times at
    /// most and reports the number of events read to `progress`.
    ///
    /// # Errors
    /// If the recording is damaged or has no snapshot to begin the replay from.
    pub fn prepare(trace: &'t Trace, progress: &mut dyn FnMut(u64)) -> Result<Self, TraceError> {
        Decoded::new(trace, progress)?.replay(progress)
    }

    /// The same recording, with `kernel`'s rules as those of the recorded kernel, whatever its release says. Reports the
    /// number of events read to `progress`.
    ///
    /// # Errors
    /// If the recording's file has changed since it was opened.
    pub fn under(&self, kernel: &'static Preset, progress: &mut dyn FnMut(u64)) -> Result<Self, TraceError> {
        let shared = self.survey.first.is_under(&self.tuning_of(kernel));
        let first = shared.then(|| Arc::clone(&self.survey.first));
        self.decoded.survey(kernel, first, progress)
    }

    /// The number of replays that may run at the same time, within the recording's limits.
    pub(crate) fn threads(&self) -> usize {
        self.decoded.threads(self.survey.earlier.len() as u64)
    }

    /// The recorded machine.
    #[must_use]
    pub fn setting(&self) -> &Setting {
        &self.decoded.setting
    }

    /// The events by CPU and kind; `None` for the recorder's own recordings.
    pub(crate) fn coverage(&self) -> Option<&Coverage> {
        self.decoded.compact.coverage()
    }

    /// Counts of the recording's events, and of the events that make a replay less reliable.
    #[must_use]
    pub fn notes(&self) -> &Notes {
        &self.survey.notes
    }

    /// The kernel's refills and drains.
    #[must_use]
    pub fn kernel(&self) -> &Moves {
        &self.survey.kernel
    }

    /// Pages on the kernel's free lists in blocks of orders 9 and 10, from the last buddyinfo after the first.
    /// `None` if the recording has fewer than two.
    #[must_use]
    pub fn kernel_high_orders_end(&self) -> Option<u64> {
        let infos = &self.decoded.trace.snapshots().buddyinfo;
        infos.get(1..)?.last().map(|(_, info)| high_orders::of_kernel(info))
    }

    /// The recorded kernel's rules.
    #[must_use]
    pub fn kernel_rules(&self) -> RuleSet {
        RuleSet::new(self.decoded.setting.kernel.name, self.decoded.setting.kernel_tuning())
    }

    /// A preset's rules with the values of the recorded kernel's configuration.
    #[must_use]
    pub fn tuning_of(&self, preset: &Preset) -> Tuning {
        self.decoded.setting.tuning_of(preset)
    }

    /// Replays the recording once and reports the number of events read to `progress`.
    ///
    /// # Errors
    /// If the rules are inconsistent or the recording's file has changed since it was opened.
    pub fn run(&self, rules: &RuleSet, level: Level, progress: &mut dyn FnMut(u64)) -> Result<Outcome, ReplayError> {
        self.run_if(rules, level, WhatIf::AsRecorded, progress)
    }

    /// Like [`Self::run`], on a machine that differs from the recorded one.
    ///
    /// # Errors
    /// The errors of [`Self::run`].
    pub fn run_if(
        &self,
        rules: &RuleSet,
        level: Level,
        what_if: WhatIf,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Outcome, ReplayError> {
        let rescaled = match what_if {
            WhatIf::WatermarkScale(scale) => Some(self.decoded.setting.with_watermark_scale(scale)),
            _ => None,
        };
        let setting = rescaled.as_ref().unwrap_or(&self.decoded.setting);
        let input_taken = &self.survey.first.late_allocs;
        let (recorded, survey, locked_out) = (self.decoded.recorded(), &*self.survey, &[][..]);
        plan::Plan { recorded, setting, survey, level, rules, what_if, input_taken, locked_out }.run(progress)
    }

    /// The totals of replays of the input under the rules of the recorded kernel, each with one undecided moment the other way. They are few, and
    /// none for a long recording.
    ///
    /// # Errors
    /// The errors of [`Self::run`].
    pub(crate) fn other_ways(&self, rules: &RuleSet) -> Result<Vec<Totals>, ReplayError> {
        let most = (OTHER_WAYS_EVENTS / self.notes().events.max(1)).min(OTHER_WAYS) as usize;
        let first = &self.survey.first;
        let other_way = |moment: &Moment| {
            let (mut input_taken, mut locked_out) = (first.late_allocs.clone(), &[][..]);
            match moment {
                Moment::BeforeTick(taken) => {
                    input_taken.push(*taken);
                    input_taken.sort_by_key(|taken| taken.event);
                }
                Moment::LockedOut(frees) => locked_out = frees,
            }
            let (recorded, survey, setting) = (self.decoded.recorded(), &*self.survey, &self.decoded.setting);
            let (level, what_if) = (Level::Input, WhatIf::AsRecorded);
            plan::Plan { recorded, setting, survey, level, rules, what_if, input_taken: &input_taken, locked_out }
                .run(&mut |_| {})
        };
        first.undecided.some(most).map(|moment| Ok(other_way(moment)?.moves.totals(|_| true))).collect()
    }
}
