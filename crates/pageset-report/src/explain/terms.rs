//! Patterns, words, and columns that no field of a result is: what each is, when it is bad, and what to do.

use super::{Kind, Term, term};

const fn column(name: &'static str, what: &'static str, bad: &'static str, todo: &'static str) -> Term {
    term(Kind::Column, name, what, bad, todo)
}

const fn metric(name: &'static str, what: &'static str, bad: &'static str, todo: &'static str) -> Term {
    term(Kind::Metric, name, what, bad, todo)
}

const fn word(name: &'static str, what: &'static str, bad: &'static str, todo: &'static str) -> Term {
    term(Kind::Word, name, what, bad, todo)
}

const fn pattern(name: &'static str, what: &'static str, bad: &'static str, todo: &'static str) -> Term {
    term(Kind::Pattern, name, what, bad, todo)
}

const fn verdict(name: &'static str, what: &'static str, bad: &'static str, todo: &'static str) -> Term {
    term(Kind::Verdict, name, what, bad, todo)
}

#[rustfmt::skip] // One entry in three lines.
pub(super) const TERMS: &[Term] = &[
    // `pageset trace info`.
    column("alloc", "Allocated blocks (event mm_page_alloc).", "", ""),
    column("free", "Freed blocks (event mm_page_free).", "", ""),
    column("drain", "Blocks that pagesets returned to the free lists (event mm_page_pcpu_drain).",
        "As many as free: every page returns to the zone.", "See the patterns travelling-pages and exit-bursts."),
    column("batched", "Pages freed in batches (event mm_page_free_batched). Each is also counted under free.", "", ""),
    column("zone_locked", "Blocks taken from the free lists under the zone lock (event mm_page_alloc_zone_locked). Refills move these blocks.",
        "As many as alloc: every page comes from the zone.", "As drain."),
    column("extfrag", "Blocks taken from another migratetype's pageblocks (event mm_page_alloc_extfrag).",
        "A steady increase: memory becomes fragmented, and huge pages become rare.",
        "Let compaction run (vm.compaction_proactiveness), or raise vm.min_free_kbytes carefully."),
    column("decay", "Runs of the once-a-second work, which shrinks idle pagesets by an eighth.", "", ""),
    column("reclaim", "How often kswapd woke up or fell asleep, or direct reclaim began.", "Any direct reclaim: processes wait for memory.", "Free memory."),
    column("bulk", "Bulk allocations: calls that allocate several single pages at once. The recorder's probes count them.", "", ""),
    column("marker", "Markers that show when a snapshot was read.", "", ""),
    column("fork", "New processes and threads.", "", ""),
    column("state_change", "How often a round of reclaim ended, or a CPU or memory went offline or came online.", "", ""),
    // `pageset top`.
    column("moves", "Pages that the busiest CPU refills and drains per second, divided by batch: about how often it takes a zone lock.", "Above 1,000, if waits for zone locks are not measured.", "Run pageset advise --live 5."),
    column("fragmentation index", "Why a zone has no free huge page: near 0 too little memory is free, near 1 free memory is in small blocks. `ok` if one is free.", "Above 0.5, for loads that need huge pages.", "Raise vm.compaction_proactiveness."),
    metric("pageset_zone_fragmentation_ratio", "The fragmentation index for huge pages; -1 if one is free.", "As fragmentation index.", "As fragmentation index."),
    column("mark", "The lowest watermark that the zone's free pages are below; `ok` if they are above all watermarks; `closed` if they are, but lowmem_reserve keeps the zone from requests that may use Normal.",
        "A watermark for long: pagesets shrink at every free, and kswapd reclaims memory.", "Free memory."),
    column("wait %", "The sum of refill wait %, drain wait %, direct alloc wait % and direct free wait %.",
        "Above a few percent: the zone lock is a limit. `0.00` with many busy CPUs is the purpose of pagesets.",
        "Aim for fewer and larger refills; see `pageset advise`."),
    metric("pgalloc", "Allocated pages of all zones: the sum of pgalloc_* in /proc/vmstat.", "", ""),
    metric("pgfree", "Freed pages.", "", ""),
    metric("pgfault", "Page faults, including minor faults.", "", ""),
    metric("allocstall", "Direct reclaims: a process had to free memory before its allocation.", "Any that repeat.", "Free memory."),
    metric("pgscan_kswapd", "Pages that kswapd scanned.", "A steady increase: the machine is short of memory.", "Free memory."),
    metric("compact_stall", "Direct compactions: a process had to move pages to get a large block.", "Thousands per second.",
        "Request fewer huge pages (transparent_hugepage/defrag), or raise vm.compaction_proactiveness."),
    metric("thp_fault_alloc", "Page faults that got a huge page.", "", ""),
    metric("thp_fault_fallback", "Page faults that requested a huge page and got small pages.", "More than thp_fault_alloc.", "As compact_stall."),
    column("time %", "The share of all CPUs' time spent waiting for zone locks on a path since the previous look.", "As wait %.", "As wait %."),
    column("most %", "The share of its time that the CPU named next to it waited on a path. It waited longest of all CPUs.", "As wait %.", "As wait %."),
    column("on CPU", "The CPU that waited longest on a path since the previous look.", "", ""),
    column("p90", "The duration that 90 of 100 waits for zone locks do not exceed.", "As wait %.", "As wait %."),
    column("elsewhere", "The pages that a CPU holds of zones other than the shown one.", "", ""),
    // `pageset advise`.
    pattern("travelling-pages", "Pages are allocated on one CPU and freed on another, as in networking and pipelines. One CPU refills the pages that the other drains.",
        "Each page passes through the zone twice, under any setting.",
        "Run both ends on one CPU or one node, or reuse buffers. No sysctl helps."),
    pattern("exit-bursts", "A process exits or unmaps a large mapping, and frees more pages in a row than one drain moves (2016).",
        "high grows too late, or decays before the next burst.",
        "Raise vm.watermark_scale_factor, which raises high_min. Or set vm.percpu_pagelist_high_fraction to 8 to 20, which switches auto-tuning off."),
    pattern("high-order-churn", "Much of the traffic is in blocks of orders 1 to 3: socket buffers, slabs, kernel stacks.",
        "On 5.18 to 6.15: each run of such frees empties the pageset.",
        "Use a newer kernel. See `pageset explain high_threshold_616`."),
    pattern("hoarding-cpu", "One CPU holds most of the cached pages and makes little of the traffic. It once freed many pages, which other CPUs cannot use.",
        "On a machine short of memory.",
        "Wait: the pages decay by an eighth per second. Or set vm.percpu_pagelist_high_fraction to 100 or more, at the cost of more refills."),
    // `pageset agent` and `fleet`.
    verdict("healthy", "CPUs do not wait for zone locks, or move too few pages to wait.", "", ""),
    verdict("tuning-off", "A CPU waits for zone locks, or moves many batches, and a vm.percpu_pagelist_high_fraction of 100 and more keeps lists smaller than auto-tuning makes them.",
        "Always.", "Run sysctl vm.percpu_pagelist_high_fraction=0, the kernel's default."),
    verdict("lists-too-small", "A CPU waits for zone locks, or moves many batches, and lists are fixed: by a fraction above 8, or by a kernel without auto-tuning (5.14 to 6.6). A fraction of 8 makes them as large as the kernel allows.",
        "Always.", "Run pageset advise --live 5 for the gain, and for the price in pages held."),
    verdict("zone-lock-waits", "A CPU waits for zone locks, and no setting is known that makes lists larger.",
        "Above 5 % of the CPU's time.", "Run pageset advise --live 5: it looks for patterns of the load too."),
    verdict("zone-lock-moves", "A CPU moves 1,000 batches a second and more, and waits are not measured.",
        "Perhaps: only waits tell.", "Give the agent CAP_SYSLOG, or run pageset advise --live 5."),
    verdict("memory-short", "A zone is below its low or min watermark.", "Below min: allocations wait.", "Free memory."),
    verdict("direct-reclaim", "Allocations wait until they have freed memory themselves.", "Always.", "Free memory."),
    verdict("not-counted", "Memory is not short. Refills, drains and waits are not counted, for want of a privilege or of a feature of the kernel.",
        "", "Run the agent as root, or with the capabilities BPF, PERFMON and SYSLOG."),
    verdict("one-look", "Memory is not short. Changes need a second look.", "", ""),
    // `pageset diff`.
    column("A spread %", "The standard deviation of the samples of A, in percent of their mean; `-` for a single sample.",
        "Above some percent: only large changes are more than noise.", "Give more samples: more seeds, rounds or files."),
    column("B spread %", "The standard deviation of the samples of B, in percent of their mean; `-` for a single sample.",
        "As A spread %.", "As A spread %."),
    // `pageset-lab`.
    column("+- %", "Half the width of the 95 % interval of the mean, in percent of the score: over the seeds, or over ten batches of time for a single seed. In JSON: `interval`.",
        "Larger than the differences of interest.", "Use more --seeds, or a smaller --precision."),
    column("+-", "Half the width of the 95 % interval of the lock's share of time, in percentage points, as +- %.", "As +- %.", "As +- %."),
    column("spread %", "The standard deviation between the seeds, in percent of the mean; `-` for a single seed.",
        "Larger than the differences of interest.", "Use more --seeds, or more --duration."),
    // `pageset-lab sim`.
    column("a second", "Operations of the workload per second of simulated time, of all tasks. The heading names the operation: page faults, requests, messages. In JSON: `score`.",
        "", "Compare rows. A single row depends on the machine's description."),
    // `pageset-lab compare`.
    column("experiment", "The experiment of the table.", "", ""),
    column("state", "The patches that were applied to the base.", "", ""),
    column("p", "The published value.", "", ""),
    column("s", "The simulated value: the mean over the seeds.", "", ""),
    column("spread", "The standard deviation between the seeds.", "As spread %.", "As spread %."),
    column("error", "Simulated minus published: in percent, for shares in percentage points. Over all rows: the mean of the absolute errors.",
        "Not smaller than the error of doing nothing.", "Do not trust the simulator for this column."),
    column("doing nothing", "The error of the forecast that nothing changes. It repeats the base row, or the row of fewest tasks.", "", ""),
    column("nothing", "As doing nothing.", "", ""),
    column("Amdahl", "The error of Amdahl's law, fitted to the rows of fewest and most tasks.", "", ""),
    column("change_pct", "The change of the score from batch 31, in percent.", "", ""),
    column("zone_contention_pct", "The time spent waiting for zone locks, in percent of the CPUs' time.", "Above ten: the lock is the limit.", ""),
    column("LRU", "The time spent waiting for LRU locks, in percent of the CPUs' time.", "Above ten: the lock is the limit.", ""),
    column("lru_contention_pct", "The time spent waiting for LRU locks, in percent of the CPUs' time.", "Above ten: the lock is the limit.", ""),
    column("total_contention_pct", "The time spent waiting for zone and LRU locks together, in percent of the CPUs' time.", "", ""),
    column("processes_faults_per_s", "Page faults per second of all processes together; the row gives their number.", "", ""),
    column("threads_faults_per_s", "Page faults per second of all threads of one process; the row gives their number.", "", ""),
    // Words that outputs and entries use.
    word("pageset", "A CPU's own list of free pages of a zone (per-CPU pageset, PCP). Allocations take from it and frees add to it without the zone lock.", "", ""),
    word("pcp", "As pageset.", "", ""),
    word("zone lock", "The lock that protects a zone's free lists. Each refill, each drain and each block that bypasses the pagesets takes it once.",
        "CPUs that wait for it do nothing else; see wait %.", "See `pageset advise`."),
    word("zone", "A part of a node's memory with the same use: DMA, DMA32, Normal or Movable. Each zone has its own lock and pagesets.", "", ""),
    word("refill", "An empty pageset takes pages from its zone, many per hold of the zone lock.", "", ""),
    word("auto-tuning", "From 6.7 on the kernel moves each pageset's high between high_min and high_max: up at refills and drains, down in pauses and when memory is short. `pageset top` shows whether auto-tuning is on.",
        "Off by accident: vm.percpu_pagelist_high_fraction is not 0.",
        "Run sysctl vm.percpu_pagelist_high_fraction=0. docs/guide/advice.md lists loads that auto-tuning does not suit."),
    word("vm.percpu_pagelist_high_fraction", "The sysctl (5.14 and later) that fixes high at zone / fraction / CPUs. From 6.7 on any value but 0 switches auto-tuning off.", "",
        "If unsure, use 0 on 6.7 and later. `pageset advise` shows what another value gains and costs."),
    word("watermark", "A threshold of a zone's free pages: min, low or high. Below high pagesets shrink at every free. Below low kswapd wakes up. Below min only urgent allocations succeed.",
        "Free pages below any watermark for long.", "Free memory."),
    word("order", "The size of a block as a power of two, in pages. Pagesets cache orders 0 to 3, and 9, which is a huge page.", "", ""),
    word("migratetype", "The use of a block, by whether its pages can be moved: unmovable, movable or reclaimable. Free lists and pagesets keep the types apart.", "", ""),
    word("pageblock", "The 512 pages (2 MiB) that share one migratetype; as large as a huge page.", "", ""),
];
