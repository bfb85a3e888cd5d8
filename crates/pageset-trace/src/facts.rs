//! Facts about the machine of a recording, and about lost events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{MAX_CPUS, MAX_NODES, MAX_PAGEBLOCK_ORDER};

/// The machine, the kernel and the conditions of a recording.
///
/// Only the project's own form has all facts. The text form of the fixtures gives the CPU and node counts (from
/// zoneinfo), the pageblock order (from pagetypeinfo) and the losses (from the ring buffers' statistics).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Facts {
    /// `uname -r`.
    pub kernel_release: Option<String>,
    /// The kernel build, as in `uname -v`. Some distributions give the update of a stable series only here.
    pub kernel_version: Option<String>,
    /// CPUs that were on-line during the recording; 0 if unknown.
    pub cpus: u32,
    /// Bytes in a page: a power of two.
    pub page_size: u32,
    /// The order of a pageblock, the unit of grouping by migratetype: 9 on x86-64.
    pub pageblock_order: u8,
    /// The bracketed word of `/sys/kernel/mm/transparent_hugepage/enabled`: `always`, `madvise` or `never`.
    pub thp_enabled: Option<String>,
    /// Memory nodes with zones; 0 if unknown.
    pub nodes: u32,
    /// The memory node of each CPU, by CPU number; empty if not recorded.
    pub cpu_nodes: Vec<u32>,
    /// Each CPU's last-level cache: its bytes, and the number of CPUs that share it.
    pub caches: Vec<CpuCache>,
    /// `CONFIG_PCP_BATCH_SCALE_MAX`, 0 to 6, if the kernel's configuration was readable.
    pub batch_scale_max: Option<u8>,
    /// `vm.percpu_pagelist_high_fraction` during the recording: 0 (auto-tuning) or 8 and above.
    pub high_fraction: Option<u32>,
    /// The recorded command.
    pub command: Vec<String>,
    /// The exit status of the recorded command, or 128 and the number of the signal that ended it. `None` if there was
    /// no command, if the recording ended it, or if not recorded.
    #[schemars(extend("bad" = "Above 0: the command failed."))]
    pub command_status: Option<i32>,
    /// The trace clock: `mono`, `local`, … or `unknown`.
    pub clock: String,
    /// The recorder's own process and threads, with the numbers that events have.
    pub recorder_pids: Vec<u32>,
    /// Optional sources of events that were enabled, such as `kprobe:alloc_pages_bulk_noprof`. Without that source
    /// there are no [`Kind::BulkAlloc`](crate::Kind::BulkAlloc) events.
    #[schemars(extend("bad" = "None: the replay infers bulk allocations, the ends of reclaim and hotplug from later \
        events, or misses them.", "todo" = "Record on a kernel with CONFIG_KPROBE_EVENTS."))]
    pub sources: Vec<String>,
    /// The highest order of the recorded kernel's buddy allocator: 10 for most kernels.
    pub highest_order: Option<u8>,
    /// Whether pagesets were emptied before the recording, so that their content is known.
    pub lists_emptied: bool,
    /// The losses of each CPU's ring buffer; see overrun, commit_overrun, dropped, missed_pages.
    #[schemars(extend("bad" = "Anything but 0: a replay refuses such a recording without --lossy.",
        "todo" = "Record again with a larger --buffer."))]
    pub loss: Vec<Loss>,
    /// Events after a ring buffer was full. They are no loss: the recording ends before the first of them on all CPUs
    /// and is complete up to that point, but the command ran on.
    #[schemars(extend("todo" = "Use a larger --buffer with `pageset record` to record the whole command."))]
    pub after_full: u64,
    /// How another tool made the recording; `None` for the recorder.
    pub recipe: Option<Recipe>,
}

/// How another tool made a recording, as far as its file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Recipe {
    /// The tool: `perf record`, `trace-cmd record`, or `text` of either or of ftrace.
    pub tool: String,
    /// The tracepoints among [`Recipe::EVENTS`] that may have been recorded; `None` if the file does not say it.
    pub events: Option<Vec<String>>,
    /// The recorded CPUs; `None` for all CPUs, or if the file does not say it.
    pub cpus: Option<Vec<u32>>,
    /// Whether only some processes were recorded.
    pub some_processes: bool,
    /// Whether each event has a call graph.
    pub call_graphs: bool,
    /// Whether the events form groups.
    pub groups: bool,
    /// Whether the file ends in the middle of an event, which is left out.
    pub cut: bool,
}

impl Recipe {
    /// The tracepoints that a replay uses.
    pub const EVENTS: [&str; 11] = [
        "mm_page_alloc",
        "mm_page_free",
        "mm_page_free_batched",
        "mm_page_alloc_zone_locked",
        "mm_page_pcpu_drain",
        "mm_page_alloc_extfrag",
        "mm_vmscan_kswapd_wake",
        "mm_vmscan_kswapd_sleep",
        "mm_vmscan_direct_reclaim_begin",
        "sched_process_fork",
        "workqueue_execute_start",
    ];
}

/// The last-level cache that a CPU shares with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuCache {
    /// The CPU's number.
    pub cpu: u32,
    /// The size of a cache. Unit: bytes.
    pub bytes: u64,
    /// The number of CPUs that share it, including this one.
    pub sharers: u32,
}

/// Events that a CPU's ring buffer lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Loss {
    /// The CPU's number.
    pub cpu: u32,
    /// Events that were overwritten before the recorder read them.
    #[schemars(extend("bad" = "Any.", "todo" = "As loss."))]
    pub overrun: u64,
    /// Events that were lost because they interrupted the writing of another event.
    #[schemars(extend("bad" = "Any.", "todo" = "As loss."))]
    pub commit_overrun: u64,
    /// Events that were dropped because the buffer was full.
    #[schemars(extend("bad" = "Any.", "todo" = "As loss."))]
    pub dropped: u64,
    /// Pages of the ring buffer with a mark of missing events before them.
    #[schemars(extend("bad" = "Any.", "todo" = "As loss."))]
    pub missed_pages: u64,
}

impl Loss {
    /// Whether anything was lost.
    pub fn any(&self) -> bool {
        self.overrun | self.commit_overrun | self.dropped | self.missed_pages != 0
    }
}

impl Facts {
    /// The page size in bytes if a recording has none. Source: every x86-64 kernel.
    pub const DEFAULT_PAGE_SIZE: u32 = 4096;
    /// The pageblock order if a recording has none. Source: `linux-page-allocator.md` 9.
    pub const DEFAULT_PAGEBLOCK_ORDER: u8 = 9;

    /// Checks that a machine can have these numbers. An error has the fault and the allowed values.
    pub(crate) fn check(&self) -> Result<(), (String, String)> {
        let order_max = MAX_PAGEBLOCK_ORDER;
        if !self.page_size.is_power_of_two() {
            return Err((format!("pages of {} bytes", self.page_size), "a power of two".to_owned()));
        }
        if self.pageblock_order > order_max {
            return Err((
                format!("pageblocks of order {}", self.pageblock_order),
                format!("orders from 0 to {order_max}"),
            ));
        }
        if self.cpu_nodes.len() > MAX_CPUS as usize || self.cpu_nodes.iter().any(|&node| node >= MAX_NODES) {
            let allowed = format!("nodes below {MAX_NODES} for at most {MAX_CPUS} CPUs");
            return Err(("CPUs of nodes that no machine has".to_owned(), allowed));
        }
        let cpus = self.caches.iter().map(|cache| cache.cpu).chain(self.loss.iter().map(|loss| loss.cpu));
        if self.cpus > MAX_CPUS || cpus.max().is_some_and(|cpu| cpu >= MAX_CPUS) {
            return Err(("too many CPUs".to_owned(), format!("{MAX_CPUS} CPUs, numbered from 0")));
        }
        Ok(())
    }

    /// What a better recording of the same would be made with: a remedy that was not used. It follows "a longer recording". Empty if there
    /// is none.
    pub(crate) fn remedy(&self) -> &'static str {
        match &self.recipe {
            Some(Recipe { call_graphs: true, .. }) => ", made without call graphs (-g)",
            Some(Recipe { groups: true, .. }) => ", made without a group of events ({ })",
            Some(Recipe { some_processes: true, .. }) => ", made of all processes",
            Some(Recipe { cpus: Some(_), .. }) => ", made of all CPUs",
            Some(_) => ", made with `pageset record --empty-lists`",
            None if self.lists_emptied => "",
            None => ", made with --empty-lists",
        }
    }

    /// Whether the recorder has set its probes of the counters of other nodes' zones.
    pub fn records_counters(&self) -> bool {
        self.sources.iter().any(|source| source.contains("zone_page_state"))
    }

    /// Whether events were lost on any CPU.
    pub fn lost_events(&self) -> bool {
        self.loss.iter().any(Loss::any)
    }
}

impl Default for Facts {
    fn default() -> Self {
        Facts {
            kernel_release: None,
            kernel_version: None,
            cpus: 0,
            page_size: Self::DEFAULT_PAGE_SIZE,
            pageblock_order: Self::DEFAULT_PAGEBLOCK_ORDER,
            thp_enabled: None,
            nodes: 0,
            cpu_nodes: Vec::new(),
            caches: Vec::new(),
            batch_scale_max: None,
            high_fraction: None,
            command: Vec::new(),
            command_status: None,
            clock: "unknown".to_owned(),
            recorder_pids: Vec::new(),
            sources: Vec::new(),
            highest_order: None,
            lists_emptied: false,
            loss: Vec::new(),
            after_full: 0,
            recipe: None,
        }
    }
}
