//! Columns and numbers: what each is, when it is bad, what to do.

use super::{Kind, Term, term};

const fn column(name: &'static str, what: &'static str, bad: &'static str, todo: &'static str) -> Term {
    term(Kind::Column, name, what, bad, todo)
}

#[rustfmt::skip] // One entry in three lines.
pub(super) const TERMS: &[Term] = &[
    // `pageset replay`.
    column("rules", "The name of the set of rules that a row was replayed under. `kernel, as recorded` is what the kernel itself did.", "", ""),
    column("level", "What the replay might use: `input only` is what the machine was asked for; `reconstructed` also what the kernel's refills and drains reveal of unseen state.",
        "", "Never compare rows of unlike levels."),
    column("refills", "How often a pageset was empty and fetched pages from its zone: one hold of the zone lock each, unless rules say otherwise.",
        "Many for the pages moved, on many CPUs: the zone lock becomes the limit.",
        "Compare rule sets; on a stock kernel see `pageset advise`."),
    column("refill pages", "Pages that refills moved from zones to pagesets.",
        "Near the number of pages allocated: what is freed does not serve what is allocated; pages travel, or lists are too small.",
        "See the patterns travelling-pages and exit-bursts."),
    column("drains", "How often a pageset gave pages back to its zone, ticks included: one hold of the zone lock each.",
        "As refills.", "As refills."),
    column("drain pages", "Pages that drains moved from pagesets to zones.", "As refill pages.", "As refill pages."),
    column("locks/1000 ops", "Holds of a zone lock for 1000 allocations and frees: refills, drains, and blocks that pass the pagesets by.",
        "Above some tens, on machines with many CPUs. On two CPUs even hundreds cost little.",
        "Compare rule sets. A change that does not halve it is not worth a setting."),
    column("most held", "The most pages that all pagesets together held at any time: memory that others get only after a drain. Unit: pages.",
        "A large part of the zone, on a machine that is short of memory.",
        "vm.percpu_pagelist_high_fraction bounds it, at the price of more refills and drains."),
    column("failed", "Allocations that failed. In `pageset trace info`: in the kernel while recording; in a replay: in the replay only.",
        "Any.", "See the warnings kernel-failures and replay-failures."),
    column("refills near", "The share of the kernel's refills that the replay does within 512 events of the same place.",
        "Below 95 % for a steady load: the replay does not follow the kernel closely.",
        "Look at the warnings below the table before trusting small differences."),
    column("drains near", "The share of the kernel's drains that the replay does within 512 events of the same place.",
        "As refills near.", "As refills near."),
    // `pageset trace info`.
    column("alloc", "Blocks allocated (event mm_page_alloc).", "", ""),
    column("free", "Blocks freed (event mm_page_free). Of a zone: its pages on free lists, those in pagesets not counted.",
        "Of a zone: below `high` kswapd works towards it and pagesets shrink at every free; below `min` allocations wait.",
        "Free memory, or give the machine more."),
    column("batched", "Pages freed in batches (event mm_page_free_batched), each also counted under free.", "", ""),
    column("zone_locked", "Blocks taken from the free lists under the zone lock (event mm_page_alloc_zone_locked): what refills move.",
        "As many as alloc: every page comes from the zone.", "As refill pages."),
    column("drain", "Blocks that pagesets gave back to the free lists (event mm_page_pcpu_drain).",
        "As many as free: every page goes back to the zone.", "As drain pages."),
    column("extfrag", "Blocks taken from another migratetype's pageblocks (event mm_page_alloc_extfrag).",
        "Growing all the time: memory fragments, and huge pages get rare.",
        "Let compaction run (vm.compaction_proactiveness), or raise vm.min_free_kbytes with care."),
    column("decay", "Runs of the once-a-second work that lets idle pagesets shrink by an eighth.", "", ""),
    column("reclaim", "kswapd woken or asleep, direct reclaim begun.", "Any direct reclaim: processes wait for memory.", "Free memory."),
    column("marker", "Where a snapshot was read.", "", ""),
    column("node", "The memory node (NUMA) that a zone lies in.", "", ""),
    column("zone", "A part of a node's memory by what it can be used for: DMA, DMA32, Normal, Movable. Each has its own lock and pagesets.", "", ""),
    column("at", "The snapshot's tag: `init` before the recorded command, `fini` after it.", "", ""),
    column("managed", "Pages of the zone that the allocator was given.", "", ""),
    column("min", "The min watermark, in pages: below it only urgent allocations are served.", "free below it.", "Free memory."),
    column("low", "The low watermark, in pages: below it kswapd is woken. From 5.14 on it also gives `high_min`: its pages divided by the node's CPUs.",
        "free below it.", "Free memory."),
    column("high", "Of a zone: the high watermark, in pages, at which kswapd stops. Of a pageset: the pages it may keep before it drains.",
        "Of a pageset: at high_min all the time under load, while its zone has plenty free.",
        "See docs/tuning.md, the table of when self-tuning does not suit a load."),
    column("batch", "Pages that an unscaled refill or drain moves; 63 for zones of 256 MiB and more (31 to 4.18).", "", ""),
    column("high_min", "The lower bound of a pageset's high, in pages; from 6.7 on. Equal to high_max: auto-tuning is off.", "", ""),
    column("high_max", "The upper bound of a pageset's high, in pages: the zone's eighth divided by its CPUs; from 6.7 on.", "", ""),
    column("held", "Pages in pagesets: free, but only to the CPU that holds them.",
        "A few percent of the zone on a machine short of memory, or nearly all on one CPU.",
        "See the pattern hoarding-cpu."),
];
