//! Surveys a recording before its replays: the kernel's moves, and changes that no single event shows.
//!
//! Specification: `trace-replay.md` 1 and 3. There are two passes. `FreePass` finds for each free whether a later batch
//! committed it, and which list it went to. It uses the next event of the page. `ListPass` follows the kernel's lists
//! page by page.

use std::sync::Arc;

use pageset::policy::expiry::Expiry;
use pageset::policy::lists::KERNEL_LISTS;
use pageset::{CpuId, Tuning};
use rustc_hash::FxHashMap;

use super::Recorded;
use super::findings::{DrainRequest, Earlier, Notes, SettingMoment, Taken};
use super::free_pass::{FreeNotes, FreePass};
use super::hotplug::Hotplug;
use super::late_allocs::LateAllocs;
use super::list_pass::ListPass;
use super::moves::Moves;
use super::reclaim::{self, Change, Reclaim};
use super::setting::{Setting, State};
use super::start_state::Histories;
use super::undecided::Undecided;
use crate::error::TraceError;
use crate::event::Kind;

/// The result of the first pass. Of the recorded kernel's rules it depends on [`preemptible`] only.
#[derive(Debug)]
pub(super) struct First {
    preemptible: bool,
    pub(super) notes: Notes,
    pub(super) frees: FreeNotes,
    /// Freed pages that were in use before the replay, by the input alone.
    pub(super) earlier_by_input: Vec<Earlier>,
    /// Huge pages whose event comes late. Sorted by event.
    pub(super) late_allocs: Vec<Taken>,
    /// Moments that the input does not decide.
    pub(super) undecided: Undecided,
    /// For each zone, the smallest number of CPUs that shared its `high`. `None` if no CPU came or went.
    pub(super) fewest_sharers: Vec<Option<u32>>,
    /// Times of active reclaim, by the events of kswapd alone.
    pub(super) reclaim_by_input: Vec<Change>,
}

/// Whether interrupts can come while a pageset's lock is held, for [`FreePass::new`].
pub(super) fn preemptible(kernel: &Tuning) -> bool {
    kernel.auto_high
}

impl First {
    /// Reads a recording once. Reports the number of events read to `progress`.
    pub(super) fn new(
        recorded: Recorded<'_>,
        setting: &Setting,
        progress: &mut dyn FnMut(u64),
    ) -> Result<First, TraceError> {
        let preemptible = preemptible(&setting.kernel_tuning());
        let mut notes = Notes::default();
        let mut frees = FreePass::new(preemptible, setting.bulk_unseen, setting.page_size);
        let mut reclaim = Reclaim::new(setting);
        let mut hotplug = Hotplug::new(setting);
        let mut late_allocs = LateAllocs::default();
        let mut undecided = Undecided::default();
        let mut fewest_sharers = vec![None::<u32>; setting.zones.len()];
        let mut window = setting.window();
        for (index, event) in recorded.events()?.enumerate() {
            let event = event?;
            let state = window.at(&event);
            if event.kind.is_zone_counter() {
                notes.events += 1;
                notes.counter_changes += u64::from(state == State::Inside);
                continue;
            }
            if let Kind::StateChange(change) = event.kind
                && state == State::Inside
                && hotplug.change(change, event.pid, None)
            {
                for (zone, fewest) in fewest_sharers.iter_mut().enumerate() {
                    *fewest = [*fewest, hotplug.sharers(zone)].into_iter().flatten().min();
                }
            }
            frees.event(&mut notes, setting, &event, state);
            reclaim.event(setting, index as u64, &event);
            // Elsewhere nothing runs while a page is cleared.
            if setting.preempts {
                late_allocs.event(index as u64, &event, state == State::Inside);
            }
            let is = (state == State::Inside, preemptible);
            undecided.event(&mut notes.found, setting, index as u64, &event, is);
            progress(index as u64);
        }
        let (frees, earlier_by_input) = frees.finish(&mut notes, setting.frees_runs_whole);
        let reclaim_by_input = reclaim.finish();
        let late_allocs = late_allocs.finish(setting);
        Ok(First {
            preemptible,
            notes,
            frees,
            earlier_by_input,
            late_allocs,
            undecided,
            fewest_sharers,
            reclaim_by_input,
        })
    }

    /// Whether the first pass over the same recording has this result under the rules of `kernel` as well.
    pub(super) fn is_under(&self, kernel: &Tuning) -> bool {
        self.preemptible == preemptible(kernel)
    }
}

/// The result of both passes.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) first: Arc<First>,
    pub(super) notes: Notes,
    pub(super) kernel: Moves,
    /// Freed pages that were in use before the replay, by the reconstruction.
    pub(super) earlier: Vec<Earlier>,
    /// Sorted by event.
    pub(super) taken: Vec<Taken>,
    /// The blocks of each pageset list at the start: by zone, then CPU, then list.
    pub(super) initial: Vec<Vec<[u64; KERNEL_LISTS]>>,
    /// The first refill of single pages on each pageset: its event and the factor that its size shows.
    pub(super) factors: FxHashMap<(usize, CpuId), (u64, u8)>,
    /// The countdowns of pagesets of other nodes at the start, as the first drain of each shows them.
    pub(super) expiring: FxHashMap<(usize, CpuId), Expiry>,
    /// The drains of other nodes' pagesets by the timer work, by place, zone and CPU, and whether they cannot be of the decay.
    pub(super) expired: FxHashMap<(u64, usize, CpuId), bool>,
    /// The events of allocations and frees that used the pageset of another CPU.
    pub(super) moved_tasks: FxHashMap<u64, CpuId>,
    /// Sorted by event.
    pub(super) drain_requests: Vec<DrainRequest>,
    /// Sorted by place.
    pub(super) setting_moments: Vec<SettingMoment>,
    /// The first operations of each pageset.
    pub(super) histories: Histories,
    /// Times of active reclaim, refined by the kernel's drains.
    pub(super) reclaim: Vec<Change>,
}

impl Survey {
    /// Reads a recording a second time. Reports the number of events read, over both passes, to `progress`.
    pub(super) fn new(
        recorded: Recorded<'_>,
        setting: &Setting,
        first: Arc<First>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Survey, TraceError> {
        let mut notes = first.notes;
        let mut lists = ListPass::new(setting, &first.frees);
        let mut window = setting.window();
        for (index, event) in recorded.events()?.enumerate() {
            let event = event?;
            let state = window.at(&event);
            if !event.kind.is_zone_counter() {
                lists.event(&mut notes, index as u64, &event, state);
            }
            progress(notes.events + index as u64);
        }
        let found = lists.finish(&mut notes);
        let initial = setting.zones.iter().enumerate().map(|(zone, z)| {
            let held = |cpu: usize| z.start.pagesets.get(cpu).map_or(0, |p| p.count);
            (0..setting.cpus.len()).map(|cpu| found.lists.initial(zone, CpuId(cpu as u32), held(cpu))).collect()
        });
        Ok(Survey {
            notes,
            drain_requests: found.drain_requests,
            setting_moments: found.setting_moments,
            histories: found.histories,
            reclaim: reclaim::by_drains(&first.reclaim_by_input, &found.small_drains),
            initial: initial.collect(),
            kernel: found.kernel,
            earlier: found.earlier,
            taken: found.taken,
            factors: found.factors,
            expiring: found.expiring,
            expired: found.expired,
            moved_tasks: found.moved_tasks,
            first,
        })
    }
}
