//! What this machine's hardware and kernel cost: latencies of caches, lines of other cores, atomic operations, clearing
//! of pages, and page faults by number of tasks. Nothing here needs a privilege.
//!
//! Each figure has several samples. As in the rounds of patterns, a sample counts only if every thread had its CPU for
//! 97 % of the time. If no sample does, the figure keeps the least disturbed samples and is marked as disturbed. Time in
//! which a thread was kept off its CPU never counts.
//!
//! | module | contents |
//! | --- | --- |
//! | `mapping`, `fork` | memory and child processes: the unsafe code |
//! | `chase` | loads that depend on each other |
//! | `cores` | lines of other cores, atomic operations, clocks |
//! | `clear` | clearing of pages |
//! | [`faults`] | the page-fault benchmark |
//! | [`memory`] | memory that the measurement may use |
//! | [`figure`] | samples, and when they count |

mod chase;
mod clear;
mod cores;
pub mod faults;
pub mod figure;
mod fork;
mod mapping;
pub mod memory;

use std::io;
use std::thread;

use rustix::thread::{CpuSet, sched_setaffinity};
use schemars::JsonSchema;
use serde::Serialize;

use cores::Distance;
pub use figure::{Effort, Figure, KeepOn};

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// Limits of the memory that [`Quantity::Memory`] and its relatives use. At least twice the last level is needed, or the
/// last level has a part of it.
const MEMORY_BYTES: (usize, usize) = (64 << 20, 1 << 30);

/// A CPU that the measurement may use, and its place in the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The system's number of the CPU.
    pub cpu: usize,
    /// Its socket.
    pub socket: usize,
    /// Its core, unique in the machine.
    pub core: usize,
    /// Its last-level cache, unique in the machine.
    pub last_level: usize,
}

/// The machine to measure.
#[derive(Clone, Debug)]
pub struct Host {
    /// The CPUs to use, in the order in which tasks fill the machine.
    pub places: Vec<Place>,
    /// Size of the first-level data cache, of the second level, and of the last level, in bytes.
    pub cache_bytes: [usize; 3],
    /// Memory that the measurement may use, in bytes.
    pub memory_bytes: usize,
}

/// A measured quantity.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// A load that hits the first level, in ns.
    L1,
    /// A load that hits the second level, in ns.
    L2,
    /// A load that hits the last level, in ns.
    LastLevel,
    /// A load from memory of the own socket, in ns.
    Memory,
    /// A load from memory of another socket, in ns.
    RemoteMemory,
    /// An atomic addition to a line in the own cache, in ns.
    Atomic,
    /// An atomic addition to a line to which all CPUs add: ns of machine time per addition.
    AtomicShared,
    /// A load of a line that the core's other thread has written, in ns.
    SameCore,
    /// A load of a line that another core with the same last level has written, in ns.
    SameLastLevel,
    /// A load of a line that a core of the same socket with another last level has written, in ns.
    SameSocket,
    /// A load of a line that a core of another socket has written, in ns.
    OtherSocket,
    /// Clearing 4 KiB that are in the second level, in ns.
    ClearL2,
    /// Clearing 4 KiB that are in the last level, in ns.
    ClearLastLevel,
    /// Clearing 4 KiB that are in memory, in ns.
    ClearMemory,
    /// The speed of a core that works alone, relative to its speed while all cores work.
    Turbo,
}

impl Quantity {
    /// All quantities, in the order of measurement.
    pub const ALL: [Quantity; 15] = [
        Quantity::L1,
        Quantity::L2,
        Quantity::LastLevel,
        Quantity::Memory,
        Quantity::RemoteMemory,
        Quantity::SameCore,
        Quantity::SameLastLevel,
        Quantity::SameSocket,
        Quantity::OtherSocket,
        Quantity::Atomic,
        Quantity::AtomicShared,
        Quantity::ClearL2,
        Quantity::ClearLastLevel,
        Quantity::ClearMemory,
        Quantity::Turbo,
    ];

    /// What is measured, for people.
    pub const fn about(self) -> &'static str {
        match self {
            Quantity::L1 => "load, first level",
            Quantity::L2 => "load, second level",
            Quantity::LastLevel => "load, last level",
            Quantity::Memory => "load, memory",
            Quantity::RemoteMemory => "load, other socket's memory",
            Quantity::SameCore => "line of the core's other thread",
            Quantity::SameLastLevel => "line of a core, same last level",
            Quantity::SameSocket => "line of a core, same socket",
            Quantity::OtherSocket => "line of a core, other socket",
            Quantity::Atomic => "atomic addition, own line",
            Quantity::AtomicShared => "atomic addition, all CPUs",
            Quantity::ClearL2 => "clear 4 KiB, second level",
            Quantity::ClearLastLevel => "clear 4 KiB, last level",
            Quantity::ClearMemory => "clear 4 KiB, memory",
            Quantity::Turbo => "clock of one core to all cores",
        }
    }
}

/// Bytes of a page of this system.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

impl Host {
    /// Measures a quantity.
    pub fn measure(&self, quantity: Quantity, effort: Effort, keep_on: KeepOn<'_>) -> Figure {
        let [l1, l2, _] = self.cache_bytes;
        let sampler = figure::Sampler { effort, keep_on };
        let measured = match quantity {
            Quantity::L1 => self.loads(l1 / 2, None, &sampler),
            Quantity::L2 => self.loads(l2 / 2, None, &sampler),
            Quantity::LastLevel => self.loads(self.last_level_bytes(), None, &sampler),
            Quantity::Memory => self.memory_bytes().and_then(|bytes| self.loads(bytes, None, &sampler)),
            Quantity::RemoteMemory => self.remote().and_then(|writer| {
                let bytes = self.memory_bytes()?;
                self.loads(bytes, Some(writer), &sampler)
            }),
            Quantity::Atomic => self.first().map(|first| on_cpu(first.cpu, || cores::atomic(&sampler))),
            Quantity::AtomicShared => self.several(1).map(|cpus| cores::shared_atomic(&cpus, &sampler)),
            Quantity::SameCore => self.between(Distance::SameCore, &sampler),
            Quantity::SameLastLevel => self.between(Distance::SameLastLevel, &sampler),
            Quantity::SameSocket => self.between(Distance::SameSocket, &sampler),
            Quantity::OtherSocket => self.between(Distance::OtherSocket, &sampler),
            Quantity::ClearL2 => self.clear(l2 / 2, &sampler),
            Quantity::ClearLastLevel => self.clear(self.last_level_bytes(), &sampler),
            Quantity::ClearMemory => self.memory_bytes().and_then(|bytes| self.clear(bytes, &sampler)),
            Quantity::Turbo => self.one_per_core().map(|cpus| cores::turbo(&cpus, &sampler)),
        };
        measured.unwrap_or_else(Figure::none)
    }
}

/// The reason why a quantity cannot be measured.
type Reason = String;

impl Host {
    fn first(&self) -> Result<Place, Reason> {
        self.places.first().copied().ok_or_else(|| "no CPU".to_owned())
    }

    /// All CPUs, if there are at least two.
    fn several(&self, beyond: usize) -> Result<Vec<usize>, Reason> {
        let cpus: Vec<usize> = self.places.iter().map(|place| place.cpu).collect();
        if cpus.len() > beyond { Ok(cpus) } else { Err("only one CPU".to_owned()) }
    }

    /// A CPU of each core.
    fn one_per_core(&self) -> Result<Vec<usize>, Reason> {
        let mut firsts: Vec<Place> = vec![];
        for &place in &self.places {
            if firsts.iter().all(|first| first.core != place.core) {
                firsts.push(place);
            }
        }
        if firsts.len() < 2 {
            return Err("only one core".to_owned());
        }
        Ok(firsts.iter().map(|place| place.cpu).collect())
    }

    /// A CPU of another socket than the first CPU's.
    fn remote(&self) -> Result<usize, Reason> {
        let own = self.first()?.socket;
        let other = self.places.iter().find(|place| place.socket != own);
        other.map(|place| place.cpu).ok_or_else(|| "only one socket".to_owned())
    }

    /// A power of two between the second level and the last: far above the second, so that nearly all lines come from
    /// the last, and at most half of the last.
    fn last_level_bytes(&self) -> usize {
        let [_, l2, last] = self.cache_bytes;
        let middle = ((l2 as f64 * last as f64).sqrt() as usize).max(4 * l2).min(last / 2).max(2 * LINE_BYTES);
        1 << middle.ilog2()
    }

    /// A power of two of at least twice the last level, within [`MEMORY_BYTES`] and half of the free memory.
    fn memory_bytes(&self) -> Result<usize, Reason> {
        let (least, most) = MEMORY_BYTES;
        let free = self.memory_bytes / 2;
        if free < least {
            return Err(format!("{} MiB of memory are free; needed: {} MiB", self.memory_bytes >> 20, least >> 19));
        }
        let wanted = (2 * self.cache_bytes[2]).next_power_of_two().clamp(least, most);
        Ok(wanted.min(1 << free.ilog2()))
    }

    /// The latency of loads from a buffer, which a thread on the CPU `writer` has written.
    fn loads(&self, bytes: usize, writer: Option<usize>, sampler: &figure::Sampler<'_>) -> Result<Figure, Reason> {
        let reader = self.first()?.cpu;
        let bytes = 1 << bytes.max(2 * LINE_BYTES).ilog2();
        let cycle = on_cpu(writer.unwrap_or(reader), || chase::Cycle::new(bytes));
        let mut cycle = cycle.map_err(|error| no_memory(bytes, &error))?;
        let figure = on_cpu(reader, || sampler.steps(|steps| cycle.follow(steps)));
        Ok(figure.over(size(bytes)))
    }

    fn clear(&self, bytes: usize, sampler: &figure::Sampler<'_>) -> Result<Figure, Reason> {
        let bytes = 1 << bytes.ilog2();
        let cpu = self.first()?.cpu;
        let mut pages = on_cpu(cpu, || clear::Pages::new(bytes)).map_err(|error| no_memory(bytes, &error))?;
        let figure = on_cpu(cpu, || sampler.steps(|steps| pages.clear(steps)));
        Ok(figure.over(size(bytes)))
    }

    /// The latency of lines between CPUs of this distance.
    fn between(&self, distance: Distance, sampler: &figure::Sampler<'_>) -> Result<Figure, Reason> {
        let pairs = cores::pairs(&self.places, distance);
        if pairs.is_empty() {
            return Err(format!("no two CPUs {}", distance.about()));
        }
        cores::lines(&pairs, sampler).map_err(|error| no_memory(cores::SHARED_BYTES, &error))
    }

    /// Pairs of CPUs with the same last level, and of other CPUs of the same socket on different cores: how often a line
    /// that another core of the socket has written comes from each.
    pub fn pairs_in_socket(&self) -> [usize; 2] {
        let count = |distance| cores::all_pairs(&self.places, distance).count();
        [Distance::SameLastLevel, Distance::SameSocket].map(count)
    }
}

fn no_memory(bytes: usize, error: &io::Error) -> Reason {
    format!("cannot map {}: {error}", size(bytes))
}

/// A size in words, such as `16 MiB`.
fn size(bytes: usize) -> String {
    if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) }
}

/// Lets the calling thread run only on `cpu`. A refusal makes samples less reliable, and other CPUs' work shows in their
/// spread.
fn pin(cpu: usize) {
    let mut one = CpuSet::new();
    one.set(cpu);
    let _ = sched_setaffinity(None, &one);
}

/// Runs `work` in a thread on `cpu`.
fn on_cpu<T: Send>(cpu: usize, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            pin(cpu);
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests;
