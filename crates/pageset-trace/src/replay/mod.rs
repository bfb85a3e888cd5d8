//! A recording replayed: the same allocations and frees through the allocator, under any rules.
//!
//! Specification: `trace-replay.md`. Modules, bottom to top:
//!
//! | module | what it knows |
//! | --- | --- |
//! | `types` | the migratetypes of lists |
//! | `blocks` | which pages of the recorded machine are in use |
//! | [`moves`] | refills and drains, and how near two sets of them are |
//! | [`setting`] | the recorded machine, from its snapshots |
//! | `kernel_lists` | the kernel's own pagesets, page by page |
//! | `balance` | what the snapshots say the pagesets held, against the events |
//! | `start_state` | the counters of each pageset at the start |
//! | `reclaim` | when reclaim was active |
//! | `hotplug` | which CPUs were on-line, which pagesets were off |
//! | `free_pass`, `list_pass`, [`survey`] | a first look: what the kernel moved, and what no event shows |
//! | `high_orders` | free memory in large blocks |
//! | `world` | an allocator whose memory is arranged as the kernel's was |
//! | `run` | one replay under one set of rules |
//! | [`selection`] | whose refills and drains are looked at |
//! | [`agreement`] | whether it did what the kernel did |
//! | [`identify`] | which kernel's rules did |

pub mod agreement;
mod balance;
mod blocks;
mod free_pass;
mod high_orders;
mod hotplug;
pub mod identify;
mod kernel_lists;
mod list_pass;
pub mod moves;
mod reclaim;
mod run;
pub mod selection;
pub mod setting;
mod start_state;
pub mod survey;
mod types;
mod world;

use pageset::tuning::Preset;
use pageset::{MapError, Tuning};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use high_orders::HighOrders;
pub use moves::{Move, Moves, Near, Totals, near};
pub use pageset_rules::RuleSet;
use pageset_rules::RulesError;
pub use setting::Setting;
pub use survey::{Found, Notes};

use crate::error::TraceError;
use crate::trace::Trace;
use survey::Survey;

/// How much of the recording a replay may use. Never mixed in one result. Specification: `trace-replay.md` 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The events that a pageset answers to (allocations, bulk allocations, frees, the timer work, reclaim, requests to
    /// drain it), and its state at the start: the first snapshot, and the counters and list lengths that no snapshot
    /// prints, inferred from the first moves. [`Borrowed`] counts what of that the kernel's own moves tell.
    Input,
    /// Also what the kernel's refills and drains reveal later on: allocations without an event, frees that met a busy
    /// pageset, the moment of each refill, the zones' free memory in later snapshots.
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

/// What a replay took from the kernel's own refills, drains and later snapshots, rather than from its input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Borrowed {
    /// Pagesets whose list lengths at the start were inferred from the blocks that the kernel took from them later;
    /// zoneinfo prints their sum. Both levels.
    pub start_lists: u64,
    /// Pagesets whose counters at the start were inferred from the kernel's first refills and drains. Both levels.
    pub start_counters: u64,
    /// Drains that compaction, a range or hot-plug asked for: seen by the kernel's drains that no free or timer caused.
    /// Both levels.
    pub drain_requests: u64,
    /// Allocations without an event that the kernel's lists show. Reconstructed only.
    pub inferred_allocs: u64,
    /// Allocations moved to the refill that they caused. Reconstructed only.
    pub moved_allocs: u64,
    /// Frees taken to have met a busy pageset. Reconstructed only.
    pub direct_frees: u64,
    /// Snapshots after the first whose marks and free memory were used. Reconstructed only.
    #[serde(rename = "later_snapshots")]
    pub snapshots: u64,
}

/// What a replay did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The rules' name.
    pub rules: String,
    /// What it was allowed to use.
    pub level: Level,
    /// Its refills and drains.
    pub moves: Moves,
    /// Allocations and frees.
    pub operations: u64,
    /// Holds of zone locks.
    pub zone_lock_acquisitions: u64,
    /// The most pages in pagesets at any time.
    pub held_pages_max: u64,
    /// Allocations that failed.
    pub failed: u64,
    /// Allocations that found their zone below its min mark and were made all the same.
    pub below_min: u64,
    /// Blocks freed that were never seen to be taken.
    pub unseen_allocs: u64,
    /// Blocks taken twice without a free between.
    pub lost_frees: u64,
    /// Frees, or whole operations, that could not be made.
    pub refused_frees: u64,
    /// Whether a snapshot had a zone at or below its high mark.
    pub near_mark: bool,
    /// What it took from the kernel's own outcome.
    pub borrowed: Borrowed,
    /// What stayed free in large blocks; nothing where the recording does not tell in what blocks memory was free.
    pub high_orders: Option<HighOrders>,
}

impl Outcome {
    fn new(rules: String, level: Level) -> Self {
        Outcome {
            rules,
            level,
            moves: Moves::default(),
            operations: 0,
            zone_lock_acquisitions: 0,
            held_pages_max: 0,
            failed: 0,
            below_min: 0,
            unseen_allocs: 0,
            lost_frees: 0,
            refused_frees: 0,
            near_mark: false,
            borrowed: Borrowed::default(),
            high_orders: None,
        }
    }
}

/// Why a recording could not be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The recording.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Rules that cannot be used.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// Rules that do not go together, or a machine that cannot be built.
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

/// How far a command that replays a recording has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The two passes over the recording begin.
    LookOver,
    /// So many events of a pass have been read.
    Events(u64),
    /// So many presets have been compared.
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
        /// Replays done before it.
        done: u64,
        /// Replays in all.
        of: u64,
    },
}

/// A recording made ready for replays.
#[derive(Debug)]
pub struct Replay<'t> {
    trace: &'t Trace,
    setting: Setting,
    survey: Survey,
}

impl<'t> Replay<'t> {
    /// Looks a recording over. `progress` is told from time to time how many events have been read; each event is
    /// read twice.
    ///
    /// # Errors
    /// A recording that is damaged, or without the snapshots that a replay begins from.
    pub fn prepare(trace: &'t Trace, progress: &mut dyn FnMut(u64)) -> Result<Self, TraceError> {
        Self::look_over(trace, Setting::new(trace)?, progress)
    }

    /// As [`Self::prepare`], with the recorded kernel taken to have these rules, whatever its release says.
    ///
    /// # Errors
    /// Those of [`Self::prepare`].
    pub fn prepare_as(
        trace: &'t Trace,
        kernel: &'static Preset,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, TraceError> {
        Self::look_over(trace, Setting { kernel, ..Setting::new(trace)? }, progress)
    }

    fn look_over(trace: &'t Trace, mut setting: Setting, progress: &mut dyn FnMut(u64)) -> Result<Self, TraceError> {
        let mut survey = Survey::new(trace, &setting, progress)?;
        if survey.notes.replayed == 0 && survey.notes.events > 0 && survey.notes.found.markers == 0 {
            // A recording without markers, such as a perf.data, is replayed from its first event on.
            setting.replay_whole();
            survey = Survey::new(trace, &setting, progress)?;
        }
        Ok(Replay { trace, setting, survey })
    }

    /// The recorded machine.
    #[must_use]
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// What the recording holds, and what weakens a replay.
    #[must_use]
    pub fn notes(&self) -> &Notes {
        &self.survey.notes
    }

    /// What the kernel moved.
    #[must_use]
    pub fn kernel(&self) -> &Moves {
        &self.survey.kernel
    }

    /// Pages that the kernel had on free lists in blocks of orders 9 and 10 at the end, where the recording tells.
    #[must_use]
    pub fn kernel_high_orders_end(&self) -> Option<u64> {
        let infos = &self.trace.snapshots().buddyinfo;
        infos.get(1..)?.last().map(|(_, info)| high_orders::of_kernel(info))
    }

    /// The rules that the recorded kernel had.
    #[must_use]
    pub fn kernel_rules(&self) -> RuleSet {
        RuleSet::new(self.setting.kernel.name, self.setting.kernel_tuning())
    }

    /// A preset's rules with what the recorded kernel's configuration changes.
    #[must_use]
    pub fn tuning_of(&self, preset: &Preset) -> Tuning {
        self.setting.tuning_of(preset)
    }

    /// Replays it once. `progress` is told how many events have been read.
    ///
    /// # Errors
    /// Rules that do not go together, a recording whose file has changed meanwhile.
    pub fn run(&self, rules: &RuleSet, level: Level, progress: &mut dyn FnMut(u64)) -> Result<Outcome, ReplayError> {
        run::Plan { trace: self.trace, setting: &self.setting, survey: &self.survey, level, rules }.run(progress)
    }
}
