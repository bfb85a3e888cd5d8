//! `--timeline`: a recording and its replays as a trace for Perfetto (the JSON form, which its viewer opens).
//!
//! A process for the kernel and one for each set of rules; a track a CPU. The kernel's refills last from the first block
//! taken to the allocation that caused them, its drains from the free to the last block given back, by the recorded times.
//! A replay has no time of its own: its refills and drains stand where the recorded events are that caused them, and
//! last no time. Counters are the kernel's count and high, from the snapshots.

use std::collections::HashMap;
use std::io::{self, Write};

use pageset_trace::replay::{Move, Moves};
use pageset_trace::{Event, Kind, Trace};
use serde_json::{Value, json};

use super::measure::Report;
use crate::error::Failure;
use crate::perfetto::{Writer, micros};

/// The kernel's number among the processes; the sets of rules follow.
const KERNEL: usize = 1;

/// Writes the timeline of a report whose moves were kept.
///
/// # Errors
/// Those of writing; a recording whose file has changed meanwhile.
pub(super) fn write(report: &Report<'_>, out: impl Write) -> Result<(), Failure> {
    let mut events = Writer::new(out)?;
    events.process(KERNEL, "kernel, as recorded")?;
    for (i, row) in report.rows.iter().enumerate() {
        events.process(KERNEL + 1 + i, &format!("{}, {}", row.name, row.level.name()))?;
        for cpu in 0..report.setting().cpus.len() {
            events.track(KERNEL + 1 + i, cpu as u32)?;
        }
    }
    for cpu in 0..report.setting().cpus.len() {
        events.track(KERNEL, cpu as u32)?;
    }
    let mut kernel = Kernel::new(report);
    let mut replays: Vec<Pending<'_>> = report.rows.iter().map(|row| Pending::new(&row.moves)).collect();
    let mut place = 0;
    for event in report.trace.events()? {
        let event = event?;
        kernel.event(&event, place, report, &mut events)?;
        if event.kind.is_input() {
            for (i, pending) in replays.iter_mut().enumerate() {
                while let Some((what, moved)) = pending.next(place) {
                    let (process, cpu) = (KERNEL + 1 + i, moved.cpu.0);
                    events.slice(process, cpu, what, event.time_ns, event.time_ns, &args(report, moved))?;
                }
            }
            place += 1;
        }
        if let Kind::SnapshotEnd(tag) = &event.kind {
            counters(report.trace, tag, event.time_ns, &mut events)?;
        }
    }
    kernel.finish(report, &mut events)?;
    events.finish()
}

/// The kernel's count and high at a snapshot.
fn counters(trace: &Trace, tag: &str, time_ns: u64, events: &mut Writer<impl Write>) -> io::Result<()> {
    let Some((_, info)) = trace.snapshots().zoneinfo.iter().find(|(t, _)| t == tag) else { return Ok(()) };
    for zone in info.zones.iter().filter(|zone| zone.managed > 0) {
        for set in &zone.pagesets {
            let name = format!("pageset of CPU {}, {} {}", set.cpu, zone.node, zone.name);
            events.event(&json!({
                "ph": "C", "pid": KERNEL, "name": name, "ts": micros(time_ns), "args": {"count": set.count, "high": set.high}
            }))?;
        }
    }
    Ok(())
}

fn args(report: &Report<'_>, moved: &Move) -> Value {
    let zone = report.setting().zones.get(moved.zone as usize);
    json!({ "pages": moved.pages, "zone": zone.map(|zone| format!("{} {}", zone.node.0, zone.name)) })
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

impl<'m> Kernel<'m> {
    fn new(report: &'m Report<'_>) -> Self {
        let by_place = |moves: &'m [Move]| {
            let mut all: HashMap<(u32, u64), Vec<&Move>> = HashMap::new();
            moves.iter().for_each(|moved| all.entry((moved.cpu.0, moved.place)).or_default().push(moved));
            all
        };
        let moves = report.replay.kernel();
        let times = moves.refills.iter().chain(&moves.drains).map(|moved| (moved.place, 0)).collect();
        Kernel { refills: by_place(&moves.refills), drains: by_place(&moves.drains), cpus: HashMap::new(), times }
    }

    fn event(
        &mut self,
        event: &Event,
        place: u64,
        report: &Report<'_>,
        events: &mut Writer<impl Write>,
    ) -> io::Result<()> {
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
                        events.slice(KERNEL, cpu, REFILL, begin, now, &args(report, moved))?;
                    }
                }
                if let (Some((begin, at)), Some(end)) = (doing.cause, doing.given.take()) {
                    for moved in self.drains.remove(&(cpu, at)).unwrap_or_default() {
                        events.slice(KERNEL, cpu, DRAIN, begin, end, &args(report, moved))?;
                    }
                }
                doing.cause = Some((now, place));
            }
            _ => {}
        }
        Ok(())
    }

    /// What no event of the CPU's own shows, such as a drain by another CPU, lasts no time.
    fn finish(self, report: &Report<'_>, events: &mut Writer<impl Write>) -> io::Result<()> {
        let left = |moves: HashMap<(u32, u64), Vec<&'m Move>>| {
            let mut left: Vec<&Move> = moves.into_values().flatten().collect();
            left.sort_by_key(|moved| moved.place);
            left
        };
        for (what, moves) in [(REFILL, left(self.refills)), (DRAIN, left(self.drains))] {
            for moved in moves {
                let time = self.times.get(&moved.place).copied().unwrap_or(0);
                events.slice(KERNEL, moved.cpu.0, what, time, time, &args(report, moved))?;
            }
        }
        Ok(())
    }
}
