//! The recorded machine: its zones, CPUs and watermarks, from the snapshots.

use std::collections::HashMap;
use std::ops::Range;

use pageset::policy::sizes::ZoneSize;
use pageset::policy::{BatchRule, Bounds, Preset, Release, TUNED_6_6, Tuning, Watermarks};
use pageset::{CpuId, NodeId, Order, Pfn, ZoneKind};
use pageset_rules::on_machine;

use super::gfp::highest_zone;
use crate::error::TraceError;
use crate::event::{Event, Kind, StateChange};
use crate::procfs::{PageTypeInfo, ZoneSection, Zoneinfo};
use crate::trace::Trace;
use crate::trace::compact::Units;

/// The largest zone that can be replayed: 1 TiB, which takes 300 MB of metadata. Unit: pages.
const MAX_ZONE_PAGES: u64 = 1 << 28;

/// The first release whose recordings show that pages of a `vfree` that lie next to each other go back as one block: after 45 of 53
/// blocks of order 2 that a recording of 7.3 frees as four pages in a row, the CPU refilled its list of single pages without having
/// handed out one of the four. Recordings of 6.19 to 7.2 have too few such blocks.
const FREES_RUNS_WHOLE: (u32, u32) = (7, 3);

/// The update of 6.12 from which on the timer work gives up the pageset's lock after each batch, and the first later series that does.
/// Source: `kernels-2026.md` 2.3 for 6.12, and a recording of 6.18 that shows it.
const TIMER_IN_PARTS: (u32, (u32, u32)) = (67, (6, 18));

/// A zone of the recorded machine.
#[derive(Clone, Debug)]
pub struct ZoneSetting {
    /// The zone's node.
    pub node: NodeId,
    /// The zone's kind.
    pub kind: ZoneKind,
    /// The name in `/proc/zoneinfo`.
    pub name: String,
    /// The page frames of the zone, over all snapshots; their dense numbers in a prepared replay.
    pub(super) frames: Range<u64>,
    /// The zone's state when the replay begins.
    pub start: ZoneState,
    /// Free blocks by migratetype (the three ordinary ones) and order, from pagetypeinfo.
    pub(super) free_blocks: [[u64; Order::COUNT]; 3],
}

/// A zone in a snapshot.
#[derive(Clone, Debug, Default)]
pub struct ZoneState {
    /// Pages on free lists.
    pub free: u64,
    /// Managed pages of the zone.
    pub managed: u64,
    /// The watermarks, including the boost.
    pub watermarks: Watermarks,
    /// The watermarks as they were set, without a boost. If the kernel prints no boost, those of the first snapshot include it.
    pub(super) marks: Watermarks,
    /// The part of each watermark that is a temporary boost; 0 if the kernel does not print it.
    pub(super) boost: u64,
    /// Pages reserved against requests, by the request's highest zone.
    pub(super) reserve: [u64; ZoneKind::COUNT],
    /// Batch and the bounds of `high`. If the kernel prints no bounds, both are `high`.
    pub bounds: Bounds,
    /// Whether the kernel printed the bounds of `high`, as it does since 6.13 or 6.14.
    pub(super) bounds_shown: bool,
    /// Count and `high` of each CPU's pageset.
    pub pagesets: Vec<PagesetSnapshot>,
}

/// A pageset in a snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub struct PagesetSnapshot {
    /// The count: pages in the pageset.
    pub count: u64,
    /// The current `high`, in pages.
    pub high: u64,
}

impl ZoneState {
    /// Sets the watermarks, without a boost.
    pub(super) fn set_marks(&mut self, marks: Watermarks) {
        (self.watermarks, self.marks, self.boost) = (marks, marks, 0);
    }

    /// Whether watermarks or sizes of pagesets were set since the state `before`. The kernel itself changes `high` if it `tunes` it and
    /// prints no bounds.
    pub(super) fn is_set_since(&self, before: &ZoneState, tunes: bool) -> bool {
        let settings = |state: &ZoneState| {
            let Bounds { batch, high_min, high_max } = state.bounds;
            let high = (!tunes || state.bounds_shown).then_some((high_min, high_max));
            (state.marks, state.reserve, batch, high)
        };
        settings(self) != settings(before)
    }

    /// Pages on free lists or in pagesets.
    pub(super) fn unused(&self) -> u64 {
        self.pagesets.iter().fold(self.free, |sum, p| sum.saturating_add(p.count))
    }
}

/// The recorded machine, and the replayed window of the recording.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Zones with managed pages in any snapshot.
    pub zones: Vec<ZoneSetting>,
    /// The node of each CPU.
    pub cpus: Vec<NodeId>,
    /// Whether each CPU is on-line at the start. Zoneinfo omits off-line CPUs.
    pub(super) online: Vec<bool>,
    /// Whether the recording has pagetypeinfo, which shows the sizes of free blocks.
    pub(super) free_blocks_known: bool,
    /// The recorded kernel's rules.
    pub kernel: &'static Preset,
    /// Whether the recording names the kernel's release. If not, the rules are guessed from the form of zoneinfo.
    pub kernel_known: bool,
    /// The tag of the snapshot whose end begins the replay; `None` to replay from the first event.
    pub(super) first: Option<String>,
    /// The tag of the snapshot whose begin ends the replay; `None` to replay to the last event.
    pub(super) last: Option<String>,
    /// Later snapshots: the tag, and the state of each of `zones`.
    pub(super) later: Vec<(String, Vec<ZoneState>)>,
    /// The index of each tag in `later`.
    pub(super) later_by_tag: HashMap<String, usize>,
    /// The smallest share of the last-level cache of any CPU, in pages; `None` if unknown.
    pub cache_slice_pages: Option<u64>,
    /// `vm.percpu_pagelist_high_fraction`, 0 for none.
    pub(super) high_fraction: u32,
    /// Whether the recording has events of bulk allocations.
    pub(super) bulk_recorded: bool,
    /// Whether the recording shows the changes of the counters of other nodes' zones.
    pub(super) counters_recorded: bool,
    /// Whether the kernel may have made bulk allocations that the recording does not show. Kernels before 5.13 have
    /// none.
    pub(super) bulk_unseen: bool,
    /// Whether this kernel is known to put pages of a `vfree` that lie next to each other back as one block. The recording shows it for
    /// others.
    pub(super) frees_runs_whole: bool,
    /// Whether drains by the timer work give up the pageset's lock between their parts.
    pub(super) timer_in_parts: bool,
    /// Whether other tasks run while a task is in the kernel.
    pub(super) preempts: bool,
    /// Whether the recording has events of the ends of reclaim.
    pub(super) reclaim_ends_recorded: bool,
    /// The size of a page, in bytes.
    pub(super) page_size: u32,
    /// `PCP_BATCH_SCALE_MAX` of the recorded kernel, if known.
    pub(super) batch_scale_max: Option<u8>,
}

impl Setting {
    /// Reads the machine from a recording's snapshots and facts.
    ///
    /// # Errors
    /// If the snapshots cannot be replayed: no zoneinfo, a zone of unknown kind, or numbers beyond the limits.
    pub(super) fn new(trace: &Trace) -> Result<Setting, TraceError> {
        let snapshots = &trace.snapshots().zoneinfo;
        let Some(first) = snapshots.iter().rposition(|(tag, _)| tag.starts_with("init")).or(first_of(snapshots)) else {
            return Err(TraceError::missing_snapshots("the recording has no zoneinfo").allowed("at least one"));
        };
        let start = &snapshots[first].1;
        let later = &snapshots[first + 1..];
        let last = later.iter().find(|(tag, _)| tag.starts_with("fini")).map(|(tag, _)| tag.clone());
        let types = trace.snapshots().pagetypeinfo.first().map(|(_, info)| info);

        let mut zones = Vec::new();
        let all = || std::iter::once(start).chain(later.iter().map(|(_, info)| info));
        for section in &start.zones {
            let ever = all().filter_map(|info| info.zone(section.node, &section.name)).map(|z| z.managed).max();
            if ever.unwrap_or(0) > 0 {
                zones.push(zone(section, all(), types)?);
            }
        }
        if zones.is_empty() {
            return Err(TraceError::missing_snapshots("no zone of the zoneinfo has pages").allowed("at least one zone"));
        }
        let cpus = cpu_count(trace, all())?;
        let nodes = nodes_of_cpus(trace, start, cpus);
        let mut last_states: Vec<ZoneState> = zones.iter().map(|zone| zone.start.clone()).collect();
        let mut states = |info: &Zoneinfo| {
            let states = zones.iter().zip(&last_states).map(|(zone, before)| later_state(zone, info, before));
            last_states = states.collect();
            last_states.clone()
        };
        let facts = trace.facts();
        let bulk_recorded = facts.sources.iter().any(|source| source.contains("bulk"));
        let has_bulk = |release: Release| (release.major, release.minor) >= (5, 13);
        let frees_whole = |release: Release| (release.major, release.minor) >= FREES_RUNS_WHOLE;
        let (release, version) = (facts.kernel_release.as_deref(), facts.kernel_version.as_deref());
        let (kernel, kernel_known) = kernel_of(release, version, start);
        Ok(Setting {
            first: Some(snapshots[first].0.clone()),
            last,
            later: later.iter().map(|(tag, info)| (tag.clone(), states(info))).collect(),
            later_by_tag: later.iter().enumerate().map(|(at, (tag, _))| (tag.clone(), at)).collect(),
            online: (0..cpus).map(|cpu| is_online(start, cpu)).collect(),
            cpus: nodes,
            kernel,
            kernel_known,
            free_blocks_known: types.is_some(),
            cache_slice_pages: cache_slice_pages(trace),
            high_fraction: facts.high_fraction.unwrap_or(0),
            bulk_unseen: !bulk_recorded
                && facts.kernel_release.as_deref().and_then(Release::parse).is_none_or(has_bulk),
            timer_in_parts: timer_in_parts(release_or_guess(release, version, start).0),
            preempts: preempts(release_or_guess(release, version, start).0),
            frees_runs_whole: facts.kernel_release.as_deref().and_then(Release::parse).is_some_and(frees_whole),
            bulk_recorded,
            counters_recorded: facts.records_counters(),
            reclaim_ends_recorded: facts.sources.iter().any(|source| source == "kprobe:balance_pgdat"),
            page_size: facts.page_size,
            batch_scale_max: facts.batch_scale_max,
            zones,
        })
    }

    /// Batch and the bounds of `high` that these rules compute for a zone in this state. `sharers` is the number of CPUs that share `high`,
    /// if hot-plug changed it.
    pub(super) fn computed_bounds(
        &self,
        tuning: &Tuning,
        fraction: u32,
        zone: usize,
        state: &ZoneState,
        sharers: Option<u32>,
    ) -> Bounds {
        let node = self.zones[zone].node;
        let online = || self.cpus.iter().zip(&self.online).filter(|(_, online)| **online);
        let local = online().filter(|(n, _)| **n == node).count();
        let cpus = sharers.unwrap_or(if local == 0 { online().count().max(1) } else { local } as u32);
        let size = ZoneSize { managed: state.managed, low: state.watermarks.low, cpus };
        // The recorded batch is exact for any size of pages. Disabled pagesets show none.
        let is_shown = tuning.batch == self.kernel_tuning().batch && state.bounds.high_max > 0;
        let batch = if is_shown { BatchRule::Fixed(state.bounds.batch) } else { tuning.batch };
        Tuning { batch, ..*tuning }.bounds(size, fraction)
    }

    /// The bounds of `high` in the recorded kernel: as it shows them, or as its rules compute them if it does not.
    pub(super) fn kernel_bounds(&self, zone: usize, state: &ZoneState) -> Bounds {
        let tuning = self.kernel_tuning();
        if state.bounds_shown || !tuning.auto_high {
            return state.bounds;
        }
        self.computed_bounds(&tuning, self.high_fraction, zone, state, None)
    }

    /// Replaces the page frames of the zones by dense page numbers, as the events of replays have them.
    pub(super) fn number_pages(&mut self, units: &Units) {
        for zone in &mut self.zones {
            zone.frames = units.bound(zone.frames.start)..units.bound(zone.frames.end);
        }
    }

    /// The zone whose pagesets the change disables or enables, or whose counter it changes.
    pub(super) fn zone_of_change(&self, change: StateChange) -> Option<usize> {
        match change {
            StateChange::PagesetsOff(pfn)
            | StateChange::PagesetsOn(pfn)
            | StateChange::ZoneCounter { zone: pfn, .. } => {
                // The page is a zone's first one. Another node's span may contain it.
                let first = self.zones.iter().position(|zone| zone.frames.start == pfn.0 && !zone.frames.is_empty());
                first.or_else(|| self.zone_of(pfn))
            }
            _ => None,
        }
    }

    /// The zone that contains a page of the recorded machine.
    pub(super) fn zone_of(&self, pfn: Pfn) -> Option<usize> {
        self.zones.iter().position(|zone| zone.frames.contains(&pfn.0))
    }

    /// The zone of a node that serves a request for single pages first: the highest allowed zone. For a node without
    /// memory, it is a zone of the first node with memory, because the recording does not show the distances.
    pub(super) fn preferred_zone(&self, node: NodeId, highest: ZoneKind) -> Option<usize> {
        let of = |node: NodeId| {
            let zones = self.zones.iter().enumerate().filter(move |(_, z)| z.node == node && z.kind <= highest);
            zones.max_by_key(|(_, zone)| zone.kind).map(|(index, _)| index)
        };
        of(node).or_else(|| self.zones.iter().map(|zone| zone.node).find_map(of))
    }

    /// The zone that serves a bulk allocation first. `node` is the preferred node, or negative for the CPU's own.
    pub(super) fn zone_of_bulk(&self, cpu: CpuId, gfp: u32, node: i32) -> Option<usize> {
        let local = self.cpus.get(cpu.0 as usize).copied().unwrap_or(NodeId(0));
        self.preferred_zone(u32::try_from(node).map_or(local, NodeId), highest_zone(gfp))
    }

    /// The zones' states in the later snapshot with this tag.
    pub(super) fn snapshot(&self, tag: &str) -> Option<&[ZoneState]> {
        self.later_by_tag.get(tag).map(|&at| self.later[at].1.as_slice())
    }

    /// The recorded kernel's rules with the values of its configuration.
    pub(super) fn kernel_tuning(&self) -> Tuning {
        self.tuning_of(self.kernel)
    }

    /// A preset's rules with the values of the recorded kernel's configuration.
    pub(super) fn tuning_of(&self, preset: &Preset) -> Tuning {
        on_machine(preset.tuning, self.batch_scale_max)
    }

    /// Sets the window to the whole recording, for a recording without markers.
    pub(super) fn replay_whole(&mut self) {
        self.first = None;
    }

    /// The window from the end of the first snapshot to the begin of the last. The caller passes every event in order.
    pub(super) fn window(&self) -> Window<'_> {
        Window { setting: self, state: if self.first.is_some() { State::Before } else { State::Inside } }
    }
}

/// The replayed window, as a state that follows the events.
#[derive(Debug)]
pub(super) struct Window<'s> {
    setting: &'s Setting,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Before,
    Inside,
    After,
}

impl Window<'_> {
    /// Returns the state at an event. The markers of the window are inside and after it.
    pub(super) fn at(&mut self, event: &Event) -> State {
        match (&event.kind, self.state) {
            (Kind::SnapshotEnd(tag), State::Before) if Some(tag) == self.setting.first.as_ref() => {
                self.state = State::Inside;
            }
            (Kind::SnapshotBegin(tag), State::Inside) if Some(tag) == self.setting.last.as_ref() => {
                self.state = State::After;
            }
            _ => {}
        }
        self.state
    }
}

fn first_of(snapshots: &[(String, Zoneinfo)]) -> Option<usize> {
    (!snapshots.is_empty()).then_some(0)
}

/// The rules of a kernel by its `uname -r` and `uname -v`, and whether the release is known. Without a release, the
/// rules fit the form of zoneinfo.
#[must_use]
pub fn kernel_of(release: Option<&str>, version: Option<&str>, info: &Zoneinfo) -> (&'static Preset, bool) {
    let (release, is_known) = release_or_guess(release, version, info);
    (Preset::of_release(release), is_known)
}

/// Whether a kernel of this release has `vm.percpu_pagelist_high_fraction`. Source: the kernel's own documentation of its sysctls. An
/// unknown release counts as a new one.
#[must_use]
pub fn has_high_fraction(release: Option<&str>) -> bool {
    release.and_then(Release::parse).is_none_or(|release| (release.major, release.minor) >= (5, 14))
}

/// The rules of a kernel that tunes lists although its release does not: those of 6.6 with auto-tuning, or, where it prints bounds, of
/// the kernel that the form of zoneinfo shows.
pub fn tuned_of(info: &Zoneinfo) -> &'static Preset {
    let tuned = Preset::find(TUNED_6_6).filter(|_| !has_bounds(info));
    tuned.unwrap_or_else(|| kernel_of(None, None, info).0)
}

/// The release from which on zoneinfo has the bounds of `high`.
pub(crate) const BOUNDS: (u32, u32) = (6, 13);

/// Whether the kernel prints the bounds of `high`.
pub(crate) fn has_bounds(info: &Zoneinfo) -> bool {
    info.zones.iter().flat_map(|z| &z.pagesets).any(|p| p.high_max.is_some())
}

/// The release that `uname` names, or one that fits the form of zoneinfo; and whether it is named.
fn release_or_guess(release: Option<&str>, version: Option<&str>, info: &Zoneinfo) -> (Release, bool) {
    let has_new_counters =
        info.zones.iter().flat_map(|z| &z.counters).any(|(name, _)| NEW_COUNTERS.contains(&name.as_str()));
    // Kernels from 6.7 on tune `high`.
    let tunes = info.zones.iter().any(|z| z.pagesets.windows(2).any(|pair| pair[0].high != pair[1].high));
    // Without a release, guess the kernel that the specification was checked against, the last kernel without bounds
    // that tunes or does not, or the last one without the counters.
    let guess = match (has_bounds(info), tunes, has_new_counters) {
        (true, ..) => Release::newest(6, 18),
        (false, true, _) => Release::newest(6, 12),
        (false, false, true) => Release::newest(6, 6),
        (false, false, false) => Release::newest(5, 10),
    };
    let named = release.and_then(|release| release_of(release, version.unwrap_or("")));
    (named.unwrap_or(guess), named.is_some())
}

/// The release from which on other tasks run while a task is in the kernel: lazy preemption came with it. In recordings of 6.1 and 6.12, no
/// event of another task lies between a refill and the event of its allocation (43 had such events before it); in recordings of 6.18 and
/// 7.3, between 50 of 123.
const PREEMPTS: (u32, u32) = (6, 13);

fn preempts(release: Release) -> bool {
    (release.major, release.minor) >= PREEMPTS
}

/// Whether drains by the timer work give up the pageset's lock between their parts.
fn timer_in_parts(release: Release) -> bool {
    let (update, later) = TIMER_IN_PARTS;
    match (release.major, release.minor) {
        (6, 12) => release.update.is_none_or(|is| is >= update),
        series => series >= later,
    }
}

/// Counters of a node in `/proc/zoneinfo` that 5.10 does not print. Source: the recordings of 5.10 and 6.1 in
/// `traces/lab`. The first is missing without swap.
const NEW_COUNTERS: [&str; 3] = ["nr_swapcached", "nr_throttled_written", "nr_sec_page_table_pages"];

/// The release in `uname -r`. Distributions that number their builds (`6.1.0-56-amd64`) name the update only in `uname
/// -v` (`#1 SMP Debian 6.1.192-1`). If `uname -v` has none, the newest update is assumed.
fn release_of(release: &str, version: &str) -> Option<Release> {
    let named = Release::parse(release)?;
    let after = release.split_once(".0-").map_or("", |(_, after)| after);
    let is_build_number = named.update == Some(0) && after.starts_with(|c: char| c.is_ascii_digit());
    if !is_build_number {
        return Some(named);
    }
    let words = version.split(|c: char| c.is_ascii_whitespace() || c == '(');
    let same = |found: &Release| (found.major, found.minor) == (named.major, named.minor) && found.update.is_some();
    Some(words.filter_map(Release::parse).find(same).unwrap_or(Release::newest(named.major, named.minor)))
}

fn zone<'i>(
    section: &ZoneSection,
    all: impl Iterator<Item = &'i Zoneinfo>,
    types: Option<&PageTypeInfo>,
) -> Result<ZoneSetting, TraceError> {
    let name = &section.name;
    let Some(kind) = ZoneKind::ALL.into_iter().find(|kind| kind.name() == name) else {
        return Err(TraceError::unsupported(format!("zone {name} of node {} holds pages", section.node))
            .allowed("zones DMA, DMA32, Normal and Movable"));
    };
    let (mut start, mut end, mut most) = (section.start_pfn, section.start_pfn.saturating_add(section.spanned), 0);
    for z in all.filter_map(|info| info.zone(section.node, name)) {
        start = start.min(z.start_pfn);
        end = end.max(z.start_pfn.saturating_add(z.spanned));
        most = most.max(z.managed.max(z.free));
    }
    let start_pages = start_state(section);
    if most > MAX_ZONE_PAGES || start_pages.unused() > MAX_ZONE_PAGES || end >= 1 << 52 {
        return Err(TraceError::unsupported(format!("zone {name} of node {} has {most} pages", section.node))
            .allowed(format!("at most {MAX_ZONE_PAGES} pages, frames below 2^52")));
    }
    let mut free_blocks = [[0; Order::COUNT]; 3];
    let typed = types.and_then(|t| t.zones.iter().find(|z| z.node == section.node && z.zone == *name).map(|z| (t, z)));
    if let Some((info, zone)) = typed {
        for (row, wanted) in free_blocks.iter_mut().zip(["Unmovable", "Movable", "Reclaimable"]) {
            let Some(counts) = info.type_number(wanted).and_then(|number| zone.free.get(number)) else { continue };
            for (blocks, counted) in row.iter_mut().zip(counts) {
                *blocks = counted.count.min(MAX_ZONE_PAGES);
            }
        }
    }
    Ok(ZoneSetting {
        node: NodeId(section.node),
        kind,
        name: name.clone(),
        frames: start..end,
        start: start_pages,
        free_blocks,
    })
}

/// A zone in a later snapshot. `before` is its state in the snapshot before.
fn later_state(zone: &ZoneSetting, info: &Zoneinfo, before: &ZoneState) -> ZoneState {
    let Some(section) = info.zone(zone.node.0, &zone.name) else { return zone.start.clone() };
    let mut state = start_state(section);
    // Pagesets that are switched off show a batch of one page and keep none. They come on again with the bounds that they had.
    let Bounds { batch, high_max, .. } = state.bounds;
    if (batch, high_max) == (Bounds::DISABLED.batch, 0) && before.bounds.batch > batch {
        state.bounds = before.bounds;
    }
    // A boost that is not printed raises the three marks by the same amount, and no reserve.
    let raised = |state: &Watermarks| {
        let Watermarks { min, low, high } = before.marks;
        [(state.min, min), (state.low, low), (state.high, high)].map(|(now, then)| i128::from(now) - i128::from(then))
    };
    let [min, low, high] = raised(&state.marks);
    if section.boost.is_none() && (min, min) == (low, high) && state.reserve == before.reserve {
        state.marks = before.marks;
    }
    state
}

fn start_state(section: &ZoneSection) -> ZoneState {
    let small = |pages: u64| pages.min(u64::from(pageset::policy::sizes::MAX_HIGH)) as u32;
    let mut reserve = [0; ZoneKind::COUNT];
    // The kernel's zones are DMA, DMA32, Normal, Movable and Device; some kernels lack the first, some the last.
    let columns = section.protection.len().min(ZoneKind::COUNT);
    for (kind, pages) in reserve[ZoneKind::COUNT - columns..].iter_mut().zip(&section.protection) {
        *kind = *pages;
    }
    let bounds = section.pagesets.first().map_or(Bounds::DISABLED, |p| Bounds {
        batch: small(p.batch).clamp(1, pageset::policy::sizes::MAX_BATCH),
        high_min: small(p.high_min.unwrap_or(p.high)),
        high_max: small(p.high_max.unwrap_or(p.high).max(p.high_min.unwrap_or(p.high))),
    });
    let bounds_shown = section.pagesets.first().is_some_and(|p| p.high_max.is_some());
    let cpus = section.pagesets.iter().map(|p| p.cpu as usize + 1).max().unwrap_or(0);
    let mut pagesets = vec![PagesetSnapshot::default(); cpus];
    for p in &section.pagesets {
        pagesets[p.cpu as usize] = PagesetSnapshot { count: p.count, high: p.high };
    }
    let boost = section.boost.unwrap_or(0);
    let set = |mark: u64| mark.saturating_sub(boost);
    ZoneState {
        free: section.free,
        managed: section.managed,
        watermarks: Watermarks { min: section.min, low: section.low, high: section.high },
        marks: Watermarks { min: set(section.min), low: set(section.low), high: set(section.high) },
        boost,
        reserve,
        bounds,
        bounds_shown,
        pagesets,
    }
}

fn is_online(info: &Zoneinfo, cpu: usize) -> bool {
    info.zones.iter().flat_map(|zone| &zone.pagesets).any(|pageset| pageset.cpu as usize == cpu)
}

/// One more than the highest CPU number. Zoneinfo omits off-line CPUs, so counting its entries is wrong.
fn possible_cpus(info: &Zoneinfo) -> u32 {
    info.zones.iter().flat_map(|z| &z.pagesets).map(|p| p.cpu.saturating_add(1)).max().unwrap_or(0)
}

fn cpu_count<'i>(trace: &Trace, all: impl Iterator<Item = &'i Zoneinfo>) -> Result<usize, TraceError> {
    let in_zoneinfo = all.map(possible_cpus).max().unwrap_or(0);
    let cpus = in_zoneinfo.max(trace.facts().cpus).max(1);
    // 8192 is the kernel's limit for x86-64.
    if cpus > 8192 {
        return Err(TraceError::unsupported(format!("the machine has {cpus} CPUs")).allowed("at most 8192"));
    }
    Ok(cpus as usize)
}

/// The node of each CPU, as recorded. For older recordings without it, CPUs are assigned to nodes in equal runs.
fn nodes_of_cpus(trace: &Trace, info: &Zoneinfo, cpus: usize) -> Vec<NodeId> {
    let recorded = &trace.facts().cpu_nodes;
    if recorded.len() >= cpus {
        return recorded.iter().take(cpus).map(|node| NodeId(*node)).collect();
    }
    let nodes = info.zones.iter().filter(|z| z.managed > 0).map(|z| z.node as usize + 1).max().unwrap_or(1);
    (0..cpus).map(|cpu| NodeId((cpu * nodes / cpus) as u32)).collect()
}

fn cache_slice_pages(trace: &Trace) -> Option<u64> {
    let page = u64::from(trace.facts().page_size.max(1));
    trace.facts().caches.iter().map(|c| c.bytes / u64::from(c.sharers.max(1)) / page).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_counts_do_not_overflow() {
        let pagesets = vec![PagesetSnapshot { count: u64::MAX, high: 0 }; 2];
        assert_eq!(ZoneState { free: 7, pagesets, ..ZoneState::default() }.unused(), u64::MAX);
    }

    #[test]
    fn a_build_number_is_not_an_update() {
        for (release, version, expected) in [
            ("6.18.15+deb13-amd64", "#1 SMP", Some(Release::update(6, 18, 15))),
            (
                "6.1.0-56-amd64",
                "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-1 (2026-10-01)",
                Some(Release::update(6, 1, 192)),
            ),
            ("6.1.0-56-amd64", "#1 SMP", Some(Release::newest(6, 1))),
            ("6.1.0-56-amd64", "#1 SMP Debian 5.10.3-1", Some(Release::newest(6, 1))),
            ("6.1.0", "", Some(Release::update(6, 1, 0))),
            ("6.12.0-rc3", "#1 SMP", Some(Release::update(6, 12, 0))),
            ("6.12.0-custom", "#1 SMP Debian 6.12.9-1", Some(Release::update(6, 12, 0))),
            ("custom", "", None),
        ] {
            assert_eq!(release_of(release, version), expected, "{release}, {version}");
        }
    }

    /// The recorded kernel adds the boost before it prints the watermarks.
    #[test]
    fn printed_watermarks_include_the_boost() {
        let info =
            Zoneinfo::parse(include_str!("../../tests/zoneinfo/linux-6.1-boosted.txt")).expect("a kernel's zoneinfo");
        let state = start_state(info.zone(0, "DMA32").expect("the zone DMA32"));
        assert_eq!(state.boost, 512);
        assert_eq!(state.watermarks, Watermarks { min: 414 + 512, low: 517 + 512, high: 620 + 512 });
    }

    /// A boost comes and goes, and a kernel that tunes `high` changes it where it prints no bounds.
    #[test]
    fn what_is_set_is_told_from_what_changes_by_itself() {
        let info =
            Zoneinfo::parse(include_str!("../../tests/zoneinfo/linux-6.1-boosted.txt")).expect("a kernel's zoneinfo");
        let before = start_state(info.zone(0, "DMA32").expect("the zone DMA32"));
        assert_eq!(before.marks, Watermarks { min: 414, low: 517, high: 620 });
        let Bounds { batch, high_min, high_max } = before.bounds;
        let calm = ZoneState { boost: 0, watermarks: before.marks, free: 1, ..before.clone() };
        let marks = ZoneState { marks: Watermarks { low: 518, ..before.marks }, ..calm.clone() };
        let high = ZoneState { bounds: Bounds { batch, high_min, high_max: high_max + 1 }, ..before.clone() };
        let shown = ZoneState { bounds_shown: true, ..high.clone() };
        for (state, expected) in [(calm, [false; 2]), (marks, [true; 2]), (high, [true, false]), (shown, [true; 2])] {
            assert_eq!([false, true].map(|tunes| state.is_set_since(&before, tunes)), expected, "{state:?}");
        }
    }

    /// 5.10 adds a boost to the watermarks and does not print it. It is no setting, and no later setting takes it for one.
    #[test]
    fn a_boost_that_is_not_printed_is_not_set() {
        let info = Zoneinfo::parse(include_str!("../../tests/zoneinfo/linux-5.10-two-nodes.txt"))
            .expect("a kernel's zoneinfo");
        let section = info.zone(0, "Normal").expect("the zone Normal");
        let zone = zone(section, [&info].into_iter(), None).expect("a zone");
        let state = |before: &ZoneState, change: &dyn Fn(&mut ZoneSection)| {
            let mut section = section.clone();
            change(&mut section);
            later_state(&zone, &Zoneinfo { zones: vec![section] }, before)
        };
        let raise = |by: u64| move |s: &mut ZoneSection| (s.min, s.low, s.high) = (s.min + by, s.low + by, s.high + by);
        let boosted = state(&zone.start, &raise(512));
        assert_eq!((boosted.watermarks.min, boosted.marks), (section.min + 512, zone.start.marks));
        for other in [state(&zone.start, &raise(1024)), state(&boosted, &|_| ())] {
            assert!(!boosted.is_set_since(&zone.start, false) && !other.is_set_since(&boosted, false), "{other:?}");
        }
        let high = state(&boosted, &|s| {
            raise(512)(s);
            s.pagesets.iter_mut().for_each(|pageset| pageset.high += 6);
        });
        assert!(high.is_set_since(&boosted, false) && high.marks == zone.start.marks, "{high:?}");
        let printed = |s: &mut ZoneSection| (raise(512)(s), s.boost = Some(0)).1;
        let reserved = |s: &mut ZoneSection| (raise(512)(s), s.protection[1] = 7).1;
        let changes: [&dyn Fn(&mut ZoneSection); 4] = [&|s| s.min += 1, &|s| s.high += 1, &printed, &reserved];
        for set in changes.map(|change| state(&zone.start, change)) {
            assert!(set.is_set_since(&zone.start, false) && set.marks == set.watermarks, "{set:?}");
        }
    }

    /// Memory goes off-line while the recorder reads zoneinfo.
    #[test]
    fn pagesets_that_are_switched_off_keep_their_bounds() {
        let info =
            Zoneinfo::parse(include_str!("../../tests/zoneinfo/linux-6.1-boosted.txt")).expect("a kernel's zoneinfo");
        let section = info.zone(0, "DMA32").expect("the zone DMA32");
        let zone = zone(section, [&info].into_iter(), None).expect("a zone");
        let with = |batch, high| {
            let mut info = info.clone();
            let zones = info.zones.iter_mut().filter(|zone| zone.name == "DMA32");
            for pageset in zones.flat_map(|zone| &mut zone.pagesets) {
                (pageset.batch, pageset.high) = (batch, high);
            }
            info
        };
        let mut before = zone.start.clone();
        let mut bounds = |batch, high| {
            before = later_state(&zone, &with(batch, high), &before);
            before.bounds
        };
        assert_eq!(bounds(1, 0), zone.start.bounds);
        let set = Bounds { batch: 31, high_min: 999, high_max: 999 };
        assert_eq!([bounds(31, 999), bounds(1, 0)], [set; 2]);
        // Before 5.14, a large fraction gives small pagesets a batch of one page.
        assert_eq!(bounds(1, 6), Bounds { batch: 1, high_min: 6, high_max: 6 });
    }

    #[test]
    fn the_cpu_count_comes_from_the_highest_cpu_number() {
        let text = "Node 0, zone   Normal\n  pages free     9\n        boost    0\n        min      1\n        low      2\n        \
                    high     3\n        spanned  9\n        present  9\n        managed  9\n        cma      0\n        \
                    protection: (0, 0)\n  pagesets\n    cpu: 5\n              count:    1\n              high:     2\n              \
                    batch:    1\n  vm stats threshold: 4\n  node_unreclaimable:  0\n  start_pfn:           4096\n";
        let info = Zoneinfo::parse(text).expect("a zoneinfo of one zone");
        assert_eq!(possible_cpus(&info), 6);
    }
}
