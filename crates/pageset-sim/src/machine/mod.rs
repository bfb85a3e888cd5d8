//! Machine descriptions: what a simulated machine is made of, as TOML.
//!
//! Hardware facts, what the model guesses for all machines, and the three costs that are fitted are three tables of their
//! own. Each key's meaning, unit and source is beside it in `machines/*.toml`.

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

/// CPUs that a machine may have: as many as a line's state can name, with room.
const MOST_CPUS: u64 = 4096;
/// Memory that a machine may have: page numbers have 32 bits.
const MOST_GIB: u64 = 8 << 10;

/// One machine.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its name on the command line.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Facts.
    pub hardware: Hardware,
    /// Guesses, the same for all machines unless its file says why not.
    pub model: Model,
    /// What `pageset machine calibrate` fits.
    pub calibrated: Calibrated,
}

/// What the vendor says, and latencies that others have measured.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// Sockets, each a memory node.
    pub sockets: Count,
    /// Cores of a socket.
    pub cores_per_socket: Count,
    /// Threads of a core.
    pub threads_per_core: Count,
    /// Memory of the whole machine, spread evenly.
    pub memory_gib: Count,
    /// First-level data cache of a core.
    pub l1_kib: Kib,
    /// Second-level cache of a core.
    pub l2_kib: Kib,
    /// Last-level cache of a socket.
    pub llc_kib: Kib,
    /// A hit in the first level.
    pub l1_ns: Ns,
    /// A hit in the second.
    pub l2_ns: Ns,
    /// A hit in the socket's last level.
    pub llc_ns: Ns,
    /// A line from memory of the own node.
    pub memory_ns: Ns,
    /// A line from memory of another node.
    pub remote_memory_ns: Ns,
    /// A line that a core of another socket has written.
    pub remote_transfer_ns: Ns,
    /// Clearing 4 KiB that lie in the core's own caches.
    pub clear_l2_ns: Ns,
    /// Clearing 4 KiB that lie in the last level.
    pub clear_llc_ns: Ns,
    /// Clearing 4 KiB that lie in memory.
    pub clear_memory_ns: Ns,
    /// An atomic operation on a line of the own cache.
    pub atomic_ns: Ns,
    /// How many times as fast one core of a socket is as all of them together: turbo. Without it clocks are the same.
    #[serde(default = "Slowdown::none")]
    pub turbo: Slowdown,
}

/// What the model assumes. None of it is fitted.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Work takes so many times as long while the other thread of the core works.
    pub smt_slowdown: Slowdown,
    /// Lines that are touched again outlive data that stream through the last level by so many times. 1 where left
    /// out.
    #[serde(default = "Count::one")]
    pub llc_reuse_factor: Count,
    /// Coefficient of variation of work.
    pub work_cv: Share,
    /// Coefficient of variation of line latencies outside of the core.
    pub line_cv: Share,
    /// Coefficient of variation of each hold of a lock as a whole: all that happens under it varies together. 0 where
    /// left out.
    #[serde(default = "Share::none")]
    pub hold_cv: Share,
    /// Bytes of a page's descriptor: a power of two from 16 to 256.
    pub descriptor_bytes: Count,
    /// Instructions around a hold of a zone lock.
    pub zone_hold_ns: Ns,
    /// Instructions of one block put on or taken off a free list.
    pub list_step_ns: Ns,
    /// Instructions around a hold of an LRU lock.
    pub lru_hold_ns: Ns,
    /// Work of unmapping one page outside of locks.
    pub unmap_page_ns: Ns,
    /// Whether a refill fetches the descriptor of each next page of its list ahead, so well that it never waits for one but
    /// the first: what prefetching them could bring at most. Off where the key is left out.
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
    /// Reads a description; `file` is its name in messages.
    ///
    /// # Errors
    /// What is wrong, with the line and the key.
    pub fn parse(file: &str, text: &str) -> Result<Machine, MachineError> {
        let machine: Machine = toml::from_str(text).map_err(|error| MachineError::of_toml(file, text, &error))?;
        match machine.wrong() {
            Some((key, what)) => Err(MachineError::at_key(file, text, key, what)),
            None => Ok(machine),
        }
    }

    /// A machine of so many sockets and cores, of one thread each, for runs in which time means nothing. Its other numbers
    /// are those of the smallest shipped machine.
    pub(crate) fn of_cpus(sockets: u32, cores_per_socket: u32) -> Option<Machine> {
        let mut machine = find("lkp-sb02")?.ok()?;
        let count = |n: u32| Count::try_from(i64::from(n)).ok();
        machine.hardware.sockets = count(sockets)?;
        machine.hardware.cores_per_socket = count(cores_per_socket)?;
        machine.hardware.threads_per_core = count(1)?;
        Some(machine)
    }

    /// One node of this machine, as a machine; none where there is but one, or its memory is no whole number of GiB.
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

    /// What does not go together: a key and what is allowed.
    fn wrong(&self) -> Option<(&'static str, String)> {
        let h = &self.hardware;
        let cpus = h.sockets.get() * h.cores_per_socket.get() * h.threads_per_core.get();
        if cpus > MOST_CPUS {
            return Some(("sockets", format!("{cpus} CPUs in all; allowed: 1 to {MOST_CPUS}")));
        }
        let gib = h.memory_gib.get();
        if gib > MOST_GIB || gib < h.sockets.get() {
            let sockets = h.sockets.get();
            return Some(("memory_gib", format!("{gib} GiB; allowed: {sockets} (one a socket) to {MOST_GIB}")));
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

    /// Its CPUs.
    #[must_use]
    pub fn topology(&self) -> Topology {
        Topology {
            sockets: self.hardware.sockets.get() as u32,
            cores_per_socket: self.hardware.cores_per_socket.get() as u32,
            threads_per_core: self.hardware.threads_per_core.get() as u32,
        }
    }

    /// Its nodes.
    pub fn nodes(&self) -> impl Iterator<Item = Socket> + use<> {
        (0..self.topology().sockets).map(Socket)
    }

    /// Pages of each node's memory.
    #[must_use]
    pub fn node_pages(&self) -> u64 {
        (self.hardware.memory_gib.get() << 18) / self.hardware.sockets.get()
    }

    /// The engine of this machine.
    #[must_use]
    pub fn engine_config(&self, seed: u64) -> EngineConfig {
        let (h, m) = (&self.hardware, &self.model);
        let lines = |kib: Kib| kib.get() * 1024 / LINE_BYTES;
        let transfer = self.calibrated.transfer_ns;
        let line = [h.l1_ns, h.l2_ns, h.llc_ns, transfer, h.memory_ns, h.remote_transfer_ns, h.remote_memory_ns];
        // A page in another core's cache comes through the last level; prefetchers hide how far away memory is.
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

    /// Pages of the last-level cache for each CPU that shares it. Specification: `linux-page-allocator.md` 4.2.
    #[must_use]
    pub fn cache_slice_pages(&self) -> u64 {
        let topology = self.topology();
        self.hardware.llc_kib.get() / 4 / u64::from(topology.cores_per_socket * topology.threads_per_core)
    }

    /// The same over all levels of data: the form of the first posting. Specification: `linux-page-allocator.md` 4.2.
    #[must_use]
    pub fn cache_slice_of_all_levels(&self) -> u64 {
        let of_core = (self.hardware.l1_kib.get() + self.hardware.l2_kib.get()) / 4;
        self.cache_slice_pages() + of_core / u64::from(self.topology().threads_per_core)
    }
}

#[cfg(test)]
mod tests;
