//! Machine descriptions: the hardware and costs of a simulated machine, as TOML.
//!
//! A description has five tables, from facts to the one fitted number: see [`Machine`]. The files in `machines/*.toml` give the
//! meaning, unit and source of each key.

mod describe;
mod detect;
mod error;
mod numbers;
mod shipped;

use std::ops::RangeInclusive;

use pageset::Pfn;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use detect::{DetectError, detect};
pub use error::MachineError;
pub use numbers::{Count, Cycles, Kib, Ns, Rate, Share, Slowdown};
pub use shipped::{SHIPPED, find};

use crate::engine::{CacheCosts, EngineConfig, LINE_BYTES, Memory, Mode, Socket, Topology};
use crate::time::Time;

/// The descriptions state the costs of clearing 4 KiB. A page may have more.
const PAGE_IN_4_KIB: u64 = Pfn::PAGE_BYTES / 4096;
/// Upper limit of CPUs. The state of a line could name more.
const MAX_CPUS: u64 = 4096;
/// Upper limit of memory in GiB: page numbers have 32 bits.
const MAX_GIB: u64 = 8 << 10;
/// Paces of a description. A pace beyond them would make up for another error.
pub(crate) const PACES: RangeInclusive<f64> = 0.01..=100.0;

/// A machine description. The table of a value says how far to trust it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The name on the command line.
    pub name: String,
    /// A short description.
    pub about: String,
    /// The microarchitecture, for people.
    pub microarchitecture: String,
    /// Published facts and measurements. Comments in the files mark values from memory and guesses.
    pub cited: Cited,
    /// Values that follow from cited ones.
    pub derived: Derived,
    /// Costs that are set once for all machines.
    pub shared: Shared,
    /// Guesses, the same for all machines unless the file gives a reason.
    pub guessed: Guessed,
    /// The one number that is fitted to this machine.
    pub fitted: Fitted,
}

/// Facts from the vendor, and published measurements of an idle machine.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cited {
    /// Sockets; each socket has one memory node, or [`Self::nodes_per_socket`].
    pub sockets: Count,
    /// Memory nodes of a socket, with equal parts of its cores, memory and last level. Default 1.
    #[serde(default = "Count::one", skip_serializing_if = "Count::is_one")]
    pub nodes_per_socket: Count,
    /// Cores per socket.
    pub cores_per_socket: Count,
    /// Threads per core.
    pub threads_per_core: Count,
    /// Memory of the machine in GiB, spread evenly over the nodes.
    pub memory_gib: Count,
    /// Base clock in GHz.
    pub clock_ghz: Rate,
    /// First-level data cache of a core, in KiB.
    pub l1_kib: Kib,
    /// Second-level cache of a core, in KiB.
    pub l2_kib: Kib,
    /// Last-level cache of a socket, in KiB; all of them together.
    pub llc_kib: Kib,
    /// Last-level caches of a node, each shared by equally many of its cores. Default 1.
    #[serde(default = "Count::one", skip_serializing_if = "Count::is_one")]
    pub last_levels_per_node: Count,
    /// Hit in the first level, in ns.
    pub l1_ns: Ns,
    /// Hit in the second level, in ns.
    pub l2_ns: Ns,
    /// Hit in the last level of the own socket, in ns.
    pub llc_ns: Ns,
    /// Line from memory of the own node, in ns.
    pub memory_ns: Ns,
    /// Line from memory of another socket, in ns.
    pub remote_memory_ns: Ns,
    /// Line from memory of another node of the socket, in ns. Required for more than one node per socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near_memory_ns: Option<Ns>,
    /// Line that another core of the last level has written, on an idle machine, in ns.
    pub core_to_core_ns: Ns,
    /// Line that a core of another last level of the socket has written, on an idle machine, in ns. Required for more than
    /// one last level per socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near_transfer_ns: Option<Ns>,
    /// Line that a core of another socket has written, in ns.
    pub remote_transfer_ns: Ns,
    /// What the memory of a socket transfers, in GB a second.
    pub memory_gb_per_s: Rate,
    /// Atomic operation on a line in the own cache, in cycles.
    pub atomic_cycles: Cycles,
    /// The exception of a page fault and the return from it, in cycles. Default 0: part of [`Shared::fault_cycles`].
    #[serde(default = "Cycles::none")]
    pub fault_entry_cycles: Cycles,
}

/// Values that follow from the microarchitecture and from cited values.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Derived {
    /// Clearing 4 KiB in the core's own caches, in ns.
    pub clear_l2_ns: Ns,
    /// Clearing 4 KiB in the last level, in ns.
    pub clear_llc_ns: Ns,
    /// Clearing 4 KiB in memory by one core alone, in ns.
    pub clear_memory_ns: Ns,
    /// Memory traffic of clearing 4 KiB in memory, in bytes.
    pub clear_traffic_bytes: Count,
}

/// Costs that are set together on the published rows of all machines, and judged on machines that were left out.
#[derive(Clone, Copy, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// Work of a page fault outside of locks, without [entry and exit](Cited::fault_entry_cycles) and without clearing the page, in
    /// cycles.
    pub fault_cycles: Cycles,
    /// Instructions of one page put on or taken off the LRU, but for the locked operations of joining it, in cycles.
    pub lru_page_cycles: Cycles,
    /// Latency of a line that another core of the last level has written, with [40 busy cores](crate::engine::LOAD_CORES), relative
    /// to an idle machine. Lines from farther away take as much longer as those.
    pub transfer_load: Slowdown,
}

/// Assumptions of the model. None is fitted to a machine; the variations of holds and of cores were chosen with rows in sight.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guessed {
    /// Slowdown of work while the other thread of the core works.
    pub smt_slowdown: Slowdown,
    /// Slowdown of work while the other thread of the core polls a lock. Default 1.
    #[serde(default = "Slowdown::none")]
    pub spin_slowdown: Slowdown,
    /// How many times longer reused lines stay in the last level than streamed data. Default 1.
    #[serde(default = "Count::one")]
    pub llc_reuse_factor: Count,
    /// Coefficient of variation of work: standard deviation over mean.
    pub work_cv: Share,
    /// Coefficient of variation of the latency of lines from outside the core.
    pub line_cv: Share,
    /// Coefficient of variation of a whole lock hold: one factor scales all that happens under the lock. Default 0.
    #[serde(default = "Share::none")]
    pub hold_cv: Share,
    /// Coefficient of variation of the speed of cores: each core's work outside of locks, and its lines from outside, take
    /// longer or shorter by the same factor, always. All sockets are alike. Default 0: all cores are equal.
    #[serde(default = "Share::none")]
    pub core_cv: Share,
    /// Bytes of a page descriptor: a power of two from 16 to 256.
    pub descriptor_bytes: Count,
    /// Instructions around a hold of a zone lock, in cycles.
    pub zone_hold_cycles: Cycles,
    /// Instructions to add a block to or remove it from a free list, in cycles.
    pub list_step_cycles: Cycles,
    /// Instructions around a hold of an LRU lock, in cycles.
    pub lru_hold_cycles: Cycles,
    /// Work to unmap one page outside of locks, in cycles.
    pub unmap_page_cycles: Cycles,
}

/// The number that is fitted to a machine.
#[derive(Clone, Copy, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// The duration of everything on the machine, relative to the other tables of its description. It was fitted to a
    /// score.
    #[schemars(extend("bad" = "Far from 1: the machine's clock or another value of its description is wrong.",
        "todo" = "Compare clock_ghz with the clock that the machine runs at under load."))]
    pub pace: Rate,
}

/// The clock in GHz of the core whose nanoseconds the engine's work is in.
const REFERENCE_GHZ: f64 = 2.5;

impl Machine {
    /// Parses a description. Error messages name `file`.
    pub fn parse(file: &str, text: &str) -> Result<Machine, MachineError> {
        let machine: Machine = toml::from_str(text).map_err(|error| MachineError::of_toml(file, text, &error))?;
        match machine.conflict() {
            Some((key, what)) => Err(MachineError::at_key(file, text, key, what)),
            None => Ok(machine),
        }
    }

    /// A machine with these sockets and cores, one thread per core, for runs that ignore time. Other numbers come from
    /// the smallest shipped machine.
    pub(crate) fn of_cpus(sockets: u32, cores_per_socket: u32) -> Option<Machine> {
        let mut machine = find("lkp-sb02")?.ok()?;
        let count = |n: u32| Count::try_from(i64::from(n)).ok();
        machine.cited.sockets = count(sockets)?;
        machine.cited.cores_per_socket = count(cores_per_socket)?;
        machine.cited.threads_per_core = count(1)?;
        Some(machine)
    }

    /// One node of this machine as a machine. `None` for a machine with one node, or when its memory does not split
    /// into whole GiB.
    pub(crate) fn one_node(&self) -> Option<Machine> {
        let (nodes, per_socket) = (self.node_count(), self.cited.nodes_per_socket.get());
        let gib = self.cited.memory_gib.get();
        if nodes == 1 || !gib.is_multiple_of(nodes) {
            return None;
        }
        let count = |n: u64| Count::try_from(n as i64).ok();
        let mut machine = self.clone();
        let c = &mut machine.cited;
        (c.sockets, c.nodes_per_socket) = (Count::one(), Count::one());
        c.cores_per_socket = count(c.cores_per_socket.get() / per_socket)?;
        c.memory_gib = count(gib / nodes)?;
        c.llc_kib = Kib::try_from((c.llc_kib.get() / per_socket) as i64).ok()?;
        c.memory_gb_per_s = Rate::try_from(c.memory_gb_per_s.get() / per_socket as f64).ok()?;
        Some(machine)
    }

    fn node_count(&self) -> u64 {
        self.cited.sockets.get() * self.cited.nodes_per_socket.get()
    }

    /// The first conflict between keys: the key and the allowed values.
    fn conflict(&self) -> Option<(&'static str, String)> {
        let h = &self.cited;
        let cpus = [h.sockets, h.cores_per_socket, h.threads_per_core]
            .iter()
            .fold(1, |all: u64, n| all.saturating_mul(n.get()));
        if cpus > MAX_CPUS {
            return Some(("sockets", format!("{cpus} CPUs in all; allowed: 1 to {MAX_CPUS}")));
        }
        let (cores, per_socket) = (h.cores_per_socket.get(), h.nodes_per_socket.get());
        if !cores.is_multiple_of(per_socket) {
            let what = format!("{per_socket}; allowed: a divisor of the {cores} cores_per_socket");
            return Some(("nodes_per_socket", what));
        }
        let (cores, last_levels) = (cores / per_socket, h.last_levels_per_node.get());
        if !cores.is_multiple_of(last_levels) {
            let what = format!("{last_levels}; allowed: a divisor of the {cores} cores of a node");
            return Some(("last_levels_per_node", what));
        }
        if per_socket > 1 && h.near_memory_ns.is_none() {
            let what = format!("{per_socket} without near_memory_ns; allowed: 1, or with near_memory_ns");
            return Some(("nodes_per_socket", what));
        }
        if per_socket * last_levels > 1 && h.near_transfer_ns.is_none() {
            let (key, n) =
                if per_socket > 1 { ("nodes_per_socket", per_socket) } else { ("last_levels_per_node", last_levels) };
            return Some((key, format!("{n} without near_transfer_ns; allowed: 1, or with near_transfer_ns")));
        }
        let (gib, nodes) = (h.memory_gib.get(), self.node_count());
        if gib > MAX_GIB || gib < nodes {
            let each = if per_socket > 1 { "node" } else { "socket" };
            return Some(("memory_gib", format!("{gib} GiB; allowed: {nodes} (one a {each}) to {MAX_GIB}")));
        }
        if h.l1_kib > h.l2_kib {
            return Some(("l1_kib", "larger than l2_kib; allowed: l1_kib up to l2_kib".to_owned()));
        }
        let pace = self.fitted.pace.get();
        if !PACES.contains(&pace) {
            return Some(("pace", format!("{pace}; allowed: {} to {}", PACES.start(), PACES.end())));
        }
        let bytes = self.guessed.descriptor_bytes.get();
        if !bytes.is_power_of_two() || !(16..=256).contains(&bytes) {
            return Some(("descriptor_bytes", format!("{bytes}; allowed: 16, 32, 64, 128 or 256")));
        }
        None
    }

    /// The numbering of CPUs, cores and sockets.
    pub fn topology(&self) -> Topology {
        Topology {
            sockets: self.node_count() as u32,
            cores_per_socket: (self.cited.cores_per_socket.get() / self.cited.nodes_per_socket.get()) as u32,
            threads_per_core: self.cited.threads_per_core.get() as u32,
            nodes_per_package: self.cited.nodes_per_socket.get() as u32,
            last_levels_per_node: self.cited.last_levels_per_node.get() as u32,
        }
    }

    /// The nodes.
    pub fn nodes(&self) -> impl Iterator<Item = Socket> + use<> {
        (0..self.topology().sockets).map(Socket)
    }

    /// Pages of memory per node.
    pub fn node_pages(&self) -> u64 {
        (self.cited.memory_gib.get() << 30) / Pfn::PAGE_BYTES / self.node_count()
    }

    /// The duration of something measured in nanoseconds.
    pub fn time(&self, ns: Ns) -> Time {
        Time::from_ns(ns.get() * self.fitted.pace.get())
    }

    /// The duration of instructions that run at the core's clock.
    pub fn cycles(&self, cycles: Cycles) -> Time {
        Time::from_ns(cycles.get() / self.cited.clock_ghz.get() * self.fitted.pace.get())
    }

    /// Cycles as work of the engine, which slows down with the clock and the pace.
    pub fn work(cycles: Cycles) -> Time {
        Time::from_ns(cycles.get() / REFERENCE_GHZ)
    }

    /// Work of a page fault outside of locks, without clearing the page.
    pub(crate) fn fault_work(&self) -> Time {
        Self::work(self.cited.fault_entry_cycles) + Self::work(self.shared.fault_cycles)
    }

    /// Duration of the engine's work, relative to the reference core.
    fn work_factor(&self) -> f64 {
        REFERENCE_GHZ / self.cited.clock_ghz.get() * self.fitted.pace.get()
    }

    /// The engine configuration of this machine.
    pub fn engine_config(&self, seed: u64) -> EngineConfig {
        let (c, d, g) = (&self.cited, &self.derived, &self.guessed);
        let lines = |kib: Kib| kib.get() * 1024 / LINE_BYTES;
        let last_levels = c.nodes_per_socket.get() * c.last_levels_per_node.get();
        let transfer = self.time(c.core_to_core_ns);
        let near_transfer = self.time(c.near_transfer_ns.unwrap_or(c.core_to_core_ns));
        let near_memory = self.time(c.near_memory_ns.unwrap_or(c.remote_memory_ns));
        let [l1, l2, llc, memory, remote_transfer, remote_memory] =
            [c.l1_ns, c.l2_ns, c.llc_ns, c.memory_ns, c.remote_transfer_ns, c.remote_memory_ns].map(|ns| self.time(ns));
        // A page in another core's cache comes through the last level. Prefetchers hide the distance of memory.
        let page = [
            d.clear_l2_ns,
            d.clear_l2_ns,
            d.clear_llc_ns,
            d.clear_llc_ns,
            d.clear_memory_ns,
            d.clear_memory_ns,
            d.clear_memory_ns,
            d.clear_llc_ns,
            d.clear_memory_ns,
        ];
        // The engine clears a page as work, which follows the clock; these times do not.
        let as_work =
            |ns: Ns| Time::from_ns(ns.get() * PAGE_IN_4_KIB as f64 * self.fitted.pace.get() / self.work_factor());
        EngineConfig {
            topology: self.topology(),
            cache: CacheCosts {
                l1_lines: lines(c.l1_kib),
                l2_lines: lines(c.l2_kib),
                llc_lines: lines(c.llc_kib) / last_levels,
                llc_reuse_factor: g.llc_reuse_factor.get(),
                line: [l1, l2, llc, transfer, memory, remote_transfer, remote_memory, near_transfer, near_memory],
                page: page.map(as_work),
                transfer_load: self.shared.transfer_load.get(),
            },
            memory: Memory {
                bytes_per_second: (c.memory_gb_per_s.get() * 1e9
                    / c.nodes_per_socket.get() as f64
                    / self.fitted.pace.get()) as u64,
                bytes_per_page: d.clear_traffic_bytes.get() * PAGE_IN_4_KIB,
            },
            atomic: self.cycles(c.atomic_cycles),
            work_permille: (1000.0 * self.work_factor()).round() as u64,
            smt_permille: g.smt_slowdown.permille(),
            spin_permille: g.spin_slowdown.permille(),
            work_cv: g.work_cv.get(),
            line_cv: g.line_cv.get(),
            hold_cv: g.hold_cv.get(),
            core_cv: g.core_cv.get(),
            seed,
            mode: Mode::Earliest,
        }
    }

    /// Pages of the last-level cache per CPU that shares it. Specification: `linux-page-allocator.md` 4.2.
    pub fn cache_slice_pages(&self) -> u64 {
        self.cited.llc_kib.get() * 1024
            / Pfn::PAGE_BYTES
            / (self.cited.cores_per_socket.get() * self.cited.threads_per_core.get())
    }

    /// Pages of all data caches per CPU, as in the first posting. Specification: `linux-page-allocator.md` 4.2.
    pub fn cache_slice_of_all_levels(&self) -> u64 {
        let of_core = (self.cited.l1_kib.get() + self.cited.l2_kib.get()) * 1024 / Pfn::PAGE_BYTES;
        self.cache_slice_pages() + of_core / self.cited.threads_per_core.get()
    }
}

#[cfg(test)]
mod tests;
