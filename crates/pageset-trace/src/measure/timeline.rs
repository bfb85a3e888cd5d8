//! When the kernel and each replay refilled and drained.
//!
//! The kernel's refills last from the first block taken to the allocation that caused them, its drains from the free to the
//! last block given back, by the recorded times. A replay has no time of its own: its refills and drains stand where the
//! recorded events are that caused them, and last no time. The kernel's count and high come from the snapshots.

use std::collections::HashMap;

use super::Measured;
use crate::error::TraceError;
use crate::event::{Event, Kind};
use crate::replay::{Move, Moves};

/// Something on a timeline.
#[derive(Clone, Copy, Debug)]
pub enum Mark<'m> {
    /// A refill or a drain.
    Move {
        /// Whose: nothing for the kernel, else the row of the result.
        row: Option<usize>,
        /// The CPU.
        cpu: u32,
        /// `refill` or `drain`.
        what: &'static str,
        /// When it begins.
        begin_ns: u64,
        /// When it ends.
        end_ns: u64,
        /// Pages moved.
        pages: u32,
        /// The zone's node and name.
        zone: Option<(u32, &'m str)>,
    },
    /// What a pageset of the kernel held, and its limit.
    Pageset {
        /// When.
        time_ns: u64,
        /// The CPU.
        cpu: u32,
        /// The zone's node.
        node: u32,
        /// The zone's name.
        zone: &'m str,
        /// Pages held.
        count: u64,
        /// The present limit.
        high: u64,
    },
}

impl Measured<'_> {
    /// Reads the recording once more and passes on each refill, drain and snapshot of a pageset, about in the order of
    /// time.
    ///
    /// # Errors
    /// Those of `sink`; a recording whose file has changed meanwhile.
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

    /// The kernel's count and high at a snapshot.
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

/// What a CPU of the kernel is in the middle of.
#[derive(Default)]
struct Doing {
    /// When the first block of a refill was taken, and the place of the last.
    taking: Option<(u64, u64)>,
    /// Its last event that was no drain: time and place; and when the last block was given back since.
    cause: Option<(u64, u64)>,
    given: Option<u64>,
}

/// The kernel's moves, matched with the events that made them.
struct Kernel<'m> {
    refills: HashMap<(u32, u64), Vec<&'m Move>>,
    drains: HashMap<(u32, u64), Vec<&'m Move>>,
    cpus: HashMap<u32, Doing>,
    /// Times of places, for moves that other CPUs made.
    times: HashMap<u64, u64>,
}

/// Takes a move: what it is, its begin and its end in nanoseconds.
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
        let doing = self.cpus.entry(cpu).or_default();
        match event.kind {
            Kind::ZoneLocked { .. } | Kind::ExtFrag { .. } => {
                doing.taking = Some((doing.taking.map_or(now, |(begin, _)| begin), place));
            }
            Kind::Drain { .. } => doing.given = Some(now),
            _ if event.kind.is_input() => {
                if let Some((begin, at)) = doing.taking.take() {
                    for moved in self.refills.remove(&(cpu, at)).unwrap_or_default() {
                        take(REFILL, moved, begin, now)?;
                    }
                }
                if let (Some((begin, at)), Some(end)) = (doing.cause, doing.given.take()) {
                    for moved in self.drains.remove(&(cpu, at)).unwrap_or_default() {
                        take(DRAIN, moved, begin, end)?;
                    }
                }
                doing.cause = Some((now, place));
            }
            _ => {}
        }
        Ok(())
    }

    /// What no event of the CPU's own shows, such as a drain by another CPU, lasts no time.
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
