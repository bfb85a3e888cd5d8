//! The times of the kernel's and each replay's refills and drains.
//!
//! A refill of the kernel lasts from its first block to the event of its allocation, by the recorded times. A drain
//! lasts from the free to its last block. A replay has no clock: its refills and drains have the time of the recorded
//! event that caused them, and no duration. The kernel's count and `high` come from the snapshots.

use std::collections::HashMap;

use super::Measured;
use crate::error::TraceError;
use crate::event::{Event, Kind};
use crate::replay::{Move, Moves};

/// An entry of a timeline.
#[derive(Clone, Copy, Debug)]
pub enum Mark<'m> {
    /// A refill or a drain.
    Move {
        /// The row of the result; `None` for the kernel.
        row: Option<usize>,
        /// The CPU.
        cpu: u32,
        /// `refill` or `drain`.
        what: &'static str,
        /// The begin, in nanoseconds.
        begin_ns: u64,
        /// The end, in nanoseconds.
        end_ns: u64,
        /// Pages moved.
        pages: u32,
        /// The zone's node and name.
        zone: Option<(u32, &'m str)>,
    },
    /// The count and `high` of a kernel pageset in a snapshot.
    Pageset {
        /// The time, in nanoseconds.
        time_ns: u64,
        /// The CPU.
        cpu: u32,
        /// The zone's node.
        node: u32,
        /// The zone's name.
        zone: &'m str,
        /// Pages held.
        count: u64,
        /// The current `high`, in pages.
        high: u64,
    },
}

impl Measured<'_> {
    /// Reads the recording again and passes each refill, drain and snapshot of a pageset to `sink`, roughly in the
    /// order of time.
    ///
    /// # Errors
    /// The errors of `sink`; an error if the recording's file has changed since it was opened.
    pub fn timeline<E: From<TraceError>>(&self, sink: &mut dyn FnMut(Mark<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut kernel = Kernel::new(self.replay.kernel());
        let mut replays: Vec<Pending<'_>> = self.moves.iter().map(Pending::new).collect();
        let mut place = 0;
        for event in self.trace.events()? {
            let event = event?;
            kernel.event(&event, place, &mut |what, moved, begin, end| {
                sink(self.mark(None, what, moved, (begin, end)))
            })?;
            if event.kind.is_input() {
                for (row, pending) in replays.iter_mut().enumerate() {
                    while let Some((what, moved)) = pending.next(place) {
                        sink(self.mark(Some(row), what, moved, (event.time_ns, event.time_ns)))?;
                    }
                }
                place += 1;
            }
            if let Kind::SnapshotEnd(tag) = &event.kind {
                self.counts(tag, event.time_ns, sink)?;
            }
        }
        kernel.finish(&mut |what, moved, begin, end| sink(self.mark(None, what, moved, (begin, end))))
    }

    fn mark(&self, row: Option<usize>, what: &'static str, moved: &Move, (begin_ns, end_ns): (u64, u64)) -> Mark<'_> {
        let zone = self.replay.setting().zones.get(moved.zone as usize);
        let zone = zone.map(|zone| (zone.node.0, zone.name.as_str()));
        Mark::Move { row, cpu: moved.cpu.0, what, begin_ns, end_ns, pages: moved.pages, zone }
    }

    /// Passes the kernel's counts and `high` at a snapshot to `sink`.
    fn counts<E>(&self, tag: &str, time_ns: u64, sink: &mut dyn FnMut(Mark<'_>) -> Result<(), E>) -> Result<(), E> {
        let Some((_, info)) = self.trace.snapshots().zoneinfo.iter().find(|(t, _)| t == tag) else { return Ok(()) };
        for zone in info.zones.iter().filter(|zone| zone.managed > 0) {
            for set in &zone.pagesets {
                let (cpu, count, high) = (set.cpu, set.count, set.high);
                sink(Mark::Pageset { time_ns, cpu, node: zone.node, zone: &zone.name, count, high })?;
            }
        }
        Ok(())
    }
}

/// Moves of a replay in the order of their places.
struct Pending<'m> {
    refills: std::iter::Peekable<std::slice::Iter<'m, Move>>,
    drains: std::iter::Peekable<std::slice::Iter<'m, Move>>,
}

const REFILL: &str = "refill";
const DRAIN: &str = "drain";

impl<'m> Pending<'m> {
    fn new(moves: &'m Moves) -> Self {
        Pending { refills: moves.refills.iter().peekable(), drains: moves.drains.iter().peekable() }
    }

    /// The next move at or before a place.
    fn next(&mut self, place: u64) -> Option<(&'static str, &'m Move)> {
        let due = |moved: &&Move| moved.place <= place;
        let refill = self.refills.next_if(|moved| due(moved)).map(|moved| (REFILL, moved));
        refill.or_else(|| self.drains.next_if(|moved| due(moved)).map(|moved| (DRAIN, moved)))
    }
}

/// The open refill and drain of one kernel CPU.
#[derive(Default)]
struct CpuState {
    /// The time of the open refill's first block, and the place of its last block.
    refill: Option<(u64, u64)>,
    /// The time and place of the CPU's last event other than a drain, and the time of the last drained block since.
    cause: Option<(u64, u64)>,
    drained: Option<u64>,
}

/// The kernel's moves, matched with the recorded events.
struct Kernel<'m> {
    refills: HashMap<(u32, u64), Vec<&'m Move>>,
    drains: HashMap<(u32, u64), Vec<&'m Move>>,
    cpus: HashMap<u32, CpuState>,
    /// The times of places, for moves by other CPUs.
    times: HashMap<u64, u64>,
}

/// Receives a move: `refill` or `drain`, the move, its begin and its end in nanoseconds.
type Take<'t, E> = dyn FnMut(&'static str, &Move, u64, u64) -> Result<(), E> + 't;

impl<'m> Kernel<'m> {
    fn new(moves: &'m Moves) -> Self {
        let by_place = |moves: &'m [Move]| {
            let mut all: HashMap<(u32, u64), Vec<&Move>> = HashMap::new();
            moves.iter().for_each(|moved| all.entry((moved.cpu.0, moved.place)).or_default().push(moved));
            all
        };
        let times = moves.refills.iter().chain(&moves.drains).map(|moved| (moved.place, 0)).collect();
        Kernel { refills: by_place(&moves.refills), drains: by_place(&moves.drains), cpus: HashMap::new(), times }
    }

    fn event<E>(&mut self, event: &Event, place: u64, take: &mut Take<'_, E>) -> Result<(), E> {
        if let Some(time) = self.times.get_mut(&place) {
            *time = event.time_ns;
        }
        let (cpu, now) = (event.cpu.0, event.time_ns);
        let state = self.cpus.entry(cpu).or_default();
        match event.kind {
            Kind::ZoneLocked { .. } | Kind::ExtFrag { .. } => {
                state.refill = Some((state.refill.map_or(now, |(begin, _)| begin), place));
            }
            Kind::Drain { .. } => state.drained = Some(now),
            _ if event.kind.is_input() => {
                if let Some((begin, at)) = state.refill.take() {
                    for moved in self.refills.remove(&(cpu, at)).unwrap_or_default() {
                        take(REFILL, moved, begin, now)?;
                    }
                }
                if let (Some((begin, at)), Some(end)) = (state.cause, state.drained.take()) {
                    for moved in self.drains.remove(&(cpu, at)).unwrap_or_default() {
                        take(DRAIN, moved, begin, end)?;
                    }
                }
                state.cause = Some((now, place));
            }
            _ => {}
        }
        Ok(())
    }

    /// Reports the remaining moves without a duration. The CPU's own events do not show them, such as a drain by
    /// another CPU.
    fn finish<E>(self, take: &mut Take<'_, E>) -> Result<(), E> {
        let left = |moves: HashMap<(u32, u64), Vec<&'m Move>>| {
            let mut left: Vec<&Move> = moves.into_values().flatten().collect();
            left.sort_by_key(|moved| moved.place);
            left
        };
        for (what, moves) in [(REFILL, left(self.refills)), (DRAIN, left(self.drains))] {
            for moved in moves {
                let time = self.times.get(&moved.place).copied().unwrap_or(0);
                take(what, moved, time, time)?;
            }
        }
        Ok(())
    }
}
