//! Machine descriptions: the hardware and costs of a simulated machine, as TOML.
//!
//! A description has three tables: hardware facts, model assumptions for all machines, and the three fitted costs. The
//! files in `machines/*.toml` give the meaning, unit and source of each key.

mod detect;
mod error;
mod numbers;
mod shipped;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use detect::{DetectError, detect};
pub use error::MachineError;
pub use numbers::{Count, Kib, Ns, Share, Slowdown};
pub use shipped::{SHIPPED, find};

use crate::engine::{CacheCosts, EngineConfig, LINE_BYTES, Mode, Socket, Topology};
use crate::time::Time;

/// Upper limit of CPUs. The state of a line could name more.
const MAX_CPUS: u64 = 4096;
/// Upper limit of memory in GiB: page numbers have 32 bits.
const MAX_GIB: u64 = 8 << 10;

/// A machine description.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The name on the command line.
    pub name: String,
    /// A short description.
    pub about: String,
    /// Hardware facts.
    pub hardware: Hardware,
    /// Model assumptions. They are the same for all machines unless the file gives a reason.
    pub model: Model,
    /// The costs that `pageset machine calibrate` fits.
    pub calibrated: Calibrated,
}

/// Facts from the vendor, and published latency measurements.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// Sockets; each socket is a memory node.
    pub sockets: Count,
    /// Cores per socket.
    pub cores_per_socket: Count,
    /// Threads per core.
    pub threads_per_core: Count,
    /// Memory of the machine in GiB, spread evenly over the nodes.
    pub memory_gib: Count,
    /// First-level data cache of a core, in KiB.
    pub l1_kib: Kib,
    /// Second-level cache of a core, in KiB.
    pub l2_kib: Kib,
    /// Last-level cache of a socket, in KiB.
    pub llc_kib: Kib,
    /// Hit in the first level, in ns.
    pub l1_ns: Ns,
    /// Hit in the second level, in ns.
    pub l2_ns: Ns,
    /// Hit in the last level of the own socket, in ns.
    pub llc_ns: Ns,
    /// Line from memory of the own node, in ns.
    pub memory_ns: Ns,
    /// Line from memory of another node, in ns.
    pub remote_memory_ns: Ns,
    /// Line that a core of another socket has written, in ns.
    pub remote_transfer_ns: Ns,
    /// Clearing 4 KiB in the core's own caches, in ns.
    pub clear_l2_ns: Ns,
    /// Clearing 4 KiB in the last level, in ns.
    pub clear_llc_ns: Ns,
    /// Clearing 4 KiB in memory, in ns.
    pub clear_memory_ns: Ns,
    /// Atomic operation on a line in the own cache, in ns.
    pub atomic_ns: Ns,
    /// Turbo: speed of a core that works alone on its socket, relative to a socket with all cores busy. Default 1:
    /// equal clocks.
    #[serde(default = "Slowdown::none")]
    pub turbo: Slowdown,
}

/// Assumptions of the model. None of them is fitted.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Slowdown of work while the other thread of the core works.
    pub smt_slowdown: Slowdown,
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
    /// Bytes of a page descriptor: a power of two from 16 to 256.
    pub descriptor_bytes: Count,
    /// Instructions around a hold of a zone lock, in ns.
    pub zone_hold_ns: Ns,
    /// Instructions to add a block to or remove it from a free list, in ns.
    pub list_step_ns: Ns,
    /// Instructions around a hold of an LRU lock, in ns.
    pub lru_hold_ns: Ns,
    /// Work to unmap one page outside of locks, in ns.
    pub unmap_page_ns: Ns,
    /// Whether a refill prefetches the descriptor of each next page of its list, so that it waits only for the first.
    /// This is the upper bound of what prefetching can gain. Default false.
    #[serde(default)]
    pub prefetch_next: bool,
}

/// The costs that are fitted to one published row.
#[derive(Clone, Copy, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibrated {
    /// Work of a page fault outside of locks, without clearing the page.
    pub fault_ns: Ns,
    /// A line that another core of the socket has written, under load.
    pub transfer_ns: Ns,
    /// Instructions of one page put on or taken off the LRU, but for the locked operations of joining it.
    pub lru_page_ns: Ns,
}

impl Machine {
    /// Parses a description. Error messages name `file`.
    ///
    /// # Errors
    /// The fault, with its line and key.
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
        machine.hardware.sockets = count(sockets)?;
        machine.hardware.cores_per_socket = count(cores_per_socket)?;
        machine.hardware.threads_per_core = count(1)?;
        Some(machine)
    }

    /// One node of this machine as a machine. `None` for a machine with one node, or when its memory does not split
    /// into whole GiB.
    pub(crate) fn one_node(&self) -> Option<Machine> {
        let sockets = self.hardware.sockets.get();
        let gib = self.hardware.memory_gib.get();
        if sockets == 1 || !gib.is_multiple_of(sockets) {
            return None;
        }
        let mut machine = self.clone();
        machine.hardware.sockets = Count::try_from(1).ok()?;
        machine.hardware.memory_gib = Count::try_from((gib / sockets) as i64).ok()?;
        Some(machine)
    }

    /// The first conflict between keys: the key and the allowed values.
    fn conflict(&self) -> Option<(&'static str, String)> {
        let h = &self.hardware;
        let cpus = h.sockets.get() * h.cores_per_socket.get() * h.threads_per_core.get();
        if cpus > MAX_CPUS {
            return Some(("sockets", format!("{cpus} CPUs in all; allowed: 1 to {MAX_CPUS}")));
        }
        let gib = h.memory_gib.get();
        if gib > MAX_GIB || gib < h.sockets.get() {
            let sockets = h.sockets.get();
            return Some(("memory_gib", format!("{gib} GiB; allowed: {sockets} (one a socket) to {MAX_GIB}")));
        }
        if h.l1_kib > h.l2_kib {
            return Some(("l1_kib", "larger than l2_kib; allowed: l1_kib up to l2_kib".to_owned()));
        }
        let bytes = self.model.descriptor_bytes.get();
        if !bytes.is_power_of_two() || !(16..=256).contains(&bytes) {
            return Some(("descriptor_bytes", format!("{bytes}; allowed: 16, 32, 64, 128 or 256")));
        }
        None
    }

    /// The numbering of CPUs, cores and sockets.
    #[must_use]
    pub fn topology(&self) -> Topology {
        Topology {
            sockets: self.hardware.sockets.get() as u32,
            cores_per_socket: self.hardware.cores_per_socket.get() as u32,
            threads_per_core: self.hardware.threads_per_core.get() as u32,
        }
    }

    /// The nodes.
    pub fn nodes(&self) -> impl Iterator<Item = Socket> + use<> {
        (0..self.topology().sockets).map(Socket)
    }

    /// Pages of memory per node.
    #[must_use]
    pub fn node_pages(&self) -> u64 {
        (self.hardware.memory_gib.get() << 18) / self.hardware.sockets.get()
    }

    /// The engine configuration of this machine.
    #[must_use]
    pub fn engine_config(&self, seed: u64) -> EngineConfig {
        let (h, m) = (&self.hardware, &self.model);
        let lines = |kib: Kib| kib.get() * 1024 / LINE_BYTES;
        let transfer = self.calibrated.transfer_ns;
        let line = [h.l1_ns, h.l2_ns, h.llc_ns, transfer, h.memory_ns, h.remote_transfer_ns, h.remote_memory_ns];
        // A page in another core's cache comes through the last level. Prefetchers hide the distance of memory.
        let page = [
            h.clear_l2_ns,
            h.clear_l2_ns,
            h.clear_llc_ns,
            h.clear_llc_ns,
            h.clear_memory_ns,
            h.clear_memory_ns,
            h.clear_memory_ns,
        ];
        EngineConfig {
            topology: self.topology(),
            cache: CacheCosts {
                l1_lines: lines(h.l1_kib),
                l2_lines: lines(h.l2_kib),
                llc_lines: lines(h.llc_kib),
                llc_reuse_factor: m.llc_reuse_factor.get(),
                line: line.map(Time::from),
                page: page.map(Time::from),
            },
            atomic: h.atomic_ns.into(),
            smt_permille: m.smt_slowdown.permille(),
            turbo_permille: 1_000_000 / h.turbo.permille(),
            work_cv: m.work_cv.get(),
            line_cv: m.line_cv.get(),
            hold_cv: m.hold_cv.get(),
            seed,
            mode: Mode::Earliest,
        }
    }

    /// Pages of the last-level cache per CPU that shares it. Specification: `linux-page-allocator.md` 4.2.
    #[must_use]
    pub fn cache_slice_pages(&self) -> u64 {
        let topology = self.topology();
        self.hardware.llc_kib.get() / 4 / u64::from(topology.cores_per_socket * topology.threads_per_core)
    }

    /// Pages of all data caches per CPU, as in the first posting. Specification: `linux-page-allocator.md` 4.2.
    #[must_use]
    pub fn cache_slice_of_all_levels(&self) -> u64 {
        let of_core = (self.hardware.l1_kib.get() + self.hardware.l2_kib.get()) / 4;
        self.cache_slice_pages() + of_core / u64::from(self.topology().threads_per_core)
    }
}

#[cfg(test)]
mod tests;
