//! A first look over a recording: what the kernel moved, and what no single event shows.
//!
//! Specification: `trace-replay.md` 1 and 3. Two passes: `FreePass` finds out for each free whether it was
//! committed later in a batch and which list it went to, from what next happened to the page; `ListPass` follows
//! the kernel's lists page by page.

use std::collections::HashMap;

use pageset::policy::lists::LISTS;
use pageset::{CpuId, MigrateType, Order, Pfn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::free_pass::{FreeNotes, FreePass};
use super::hotplug::Hotplug;
use super::list_pass::ListPass;
use super::moves::Moves;
use super::reclaim::{self, Change, Reclaim};
use super::setting::{Setting, State};
use super::start_state::Histories;
use crate::error::TraceError;
use crate::event::Kind;
use crate::trace::Trace;

/// A page that was in use before the replay begins and is freed in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Earlier {
    pub(super) pfn: Pfn,
    pub(super) order: Order,
    pub(super) migratetype: MigrateType,
}

/// An allocation that the trace shows later than it happened, or not at all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// It happens before this event.
    pub(super) event: u64,
    pub(super) zone: usize,
    pub(super) cpu: CpuId,
    /// None where only the pageset's count shows it.
    pub(super) pfn: Option<Pfn>,
    pub(super) order: Order,
    pub(super) migratetype: MigrateType,
    /// The event that shows it, with its request's flags; none for a bulk allocation.
    pub(super) shown: Option<Shown>,
}

/// The event that shows an allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub(super) event: u64,
    pub(super) gfp: u32,
}

/// A drain of a whole pageset that something other than a free or the timer work asked for: compaction, a contiguous
/// range, a CPU or memory that goes off-line. The kernel's drain events show that it was asked for, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DrainRequest {
    /// It happens before this event.
    pub(super) event: u64,
    pub(super) zone: usize,
    /// Whose pageset it is.
    pub(super) cpu: CpuId,
}

/// What the recording holds, and what weakens a replay of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notes {
    /// Events in all.
    pub events: u64,
    /// Events between the markers of the first and the last snapshot that are replayed.
    pub replayed: u64,
    /// Allocations and frees among them.
    pub operations: u64,
    /// Nanoseconds from the first replayed event to the last.
    pub duration_ns: u64,
    /// What else was counted.
    pub found: Found,
}

/// What was counted in a recording beside refills and drains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// Allocations that failed in the kernel.
    pub failed: u64,
    /// Runs of the timer decay.
    pub ticks: u64,
    /// Blocks taken from another type's pageblock.
    pub fallbacks: u64,
    /// Wakings of the reclaim thread, and direct reclaims.
    pub reclaims: u64,
    /// Blocks taken by bulk allocations, which write no event.
    pub bulk_allocs: u64,
    /// Blocks of cached orders taken one at a time past the pageset.
    pub direct_allocs: u64,
    /// Blocks of cached orders given back past a busy pageset, by interrupts.
    pub direct_frees: u64,
    /// Drains by another CPU than the pageset's.
    pub remote_drains: u64,
    /// Pages outside all zones.
    pub foreign: u64,
    /// Events that do not fit what was known of the kernel's lists.
    pub surprises: u64,
    /// Ends of snapshots, by their markers.
    pub markers: u64,
}

/// What was found out.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) notes: Notes,
    pub(super) kernel: Moves,
    pub(super) frees: FreeNotes,
    /// Pages freed that were in use before: as the reconstruction has it, and as the input alone shows.
    pub(super) earlier: Vec<Earlier>,
    pub(super) earlier_by_input: Vec<Earlier>,
    /// Sorted by event.
    pub(super) taken: Vec<Taken>,
    /// What each pageset held at the start, in blocks by list: by zone, then CPU.
    pub(super) initial: Vec<Vec<[u64; LISTS]>>,
    /// The first refill of single pages on each pageset: the event and the factor that it shows.
    pub(super) factors: HashMap<(usize, CpuId), (u64, u8)>,
    /// For each zone the fewest CPUs that shared its high, where CPUs came or went.
    pub(super) fewest_sharers: Vec<Option<u32>>,
    /// Sorted by event.
    pub(super) drain_requests: Vec<DrainRequest>,
    /// The first operations of each pageset.
    pub(super) histories: Histories,
    /// When reclaim was active, by the events of kswapd alone and as the kernel's drains show.
    pub(super) reclaim_by_input: Vec<Change>,
    pub(super) reclaim: Vec<Change>,
}

impl Survey {
    /// Looks a recording over. `progress` is told how many events have been read, over both passes.
    pub(super) fn new(trace: &Trace, setting: &Setting, progress: &mut dyn FnMut(u64)) -> Result<Survey, TraceError> {
        let mut notes = Notes::default();
        let mut frees = FreePass::new(setting.kernel_tuning().auto_high);
        let mut reclaim = Reclaim::new(setting);
        let mut hotplug = Hotplug::new(setting);
        let mut fewest_sharers = vec![None::<u32>; setting.zones.len()];
        let mut window = setting.window();
        for (index, event) in trace.events()?.enumerate() {
            let event = event?;
            let state = window.at(&event);
            if let Kind::StateChange(change) = event.kind
                && state == State::Inside
                && hotplug.change(change, event.pid, None)
            {
                for (zone, fewest) in fewest_sharers.iter_mut().enumerate() {
                    *fewest = [*fewest, hotplug.sharers(zone)].into_iter().flatten().min();
                }
            }
            frees.event(&mut notes, &event, state);
            reclaim.event(setting, index as u64, &event);
            progress(index as u64);
        }
        let (frees, earlier_by_input) = frees.finish();
        let mut lists = ListPass::new(setting, &frees);
        let mut window = setting.window();
        for (index, event) in trace.events()?.enumerate() {
            let event = event?;
            lists.event(&mut notes, index as u64, &event, window.at(&event));
            progress(notes.events + index as u64);
        }
        let found = lists.finish(&mut notes);
        let initial = setting.zones.iter().enumerate().map(|(zone, z)| {
            let held = |cpu: usize| z.start.pagesets.get(cpu).map_or(0, |p| p.count);
            (0..setting.cpus.len()).map(|cpu| found.lists.initial(zone, CpuId(cpu as u32), held(cpu))).collect()
        });
        let reclaim_by_input = reclaim.finish();
        Ok(Survey {
            notes,
            fewest_sharers,
            drain_requests: found.drain_requests,
            histories: found.histories,
            reclaim: reclaim::by_drains(&reclaim_by_input, &found.small_drains),
            reclaim_by_input,
            initial: initial.collect(),
            kernel: found.kernel,
            earlier: found.earlier,
            taken: found.taken,
            factors: found.factors,
            frees,
            earlier_by_input,
        })
    }
}
