//! Names of functions, sysctls, flags, fields and messages of the kernel, and of presets of rules, explained.

use pageset::policy::{PRESETS, Preset};

/// An entry.
struct Word {
    /// The name, and its other forms.
    names: &'static [&'static str],
    kind: &'static str,
    what: &'static str,
    /// When it is bad; empty if it is never bad by itself.
    bad: &'static str,
    todo: &'static str,
}

const fn word(
    kind: &'static str,
    names: &'static [&'static str],
    what: &'static str,
    bad: &'static str,
    todo: &'static str,
) -> Word {
    Word { names, kind, what, bad, todo }
}

#[rustfmt::skip]
const WORDS: &[Word] = &[
    word("message", &["page allocation failure", "warn_alloc", "warn_alloc_failed"],
        "The kernel found no free block of this order for this request. The lines after it (Mem-Info) show the zones at that moment.",
        "With GFP_KERNEL and order 0. With GFP_ATOMIC or GFP_NOWAIT most callers try again, so single messages are harmless.",
        "Give the whole text to `pageset explain FILE`: it says which zone was short and whether the memory or the order was missing."),
    word("message", &["page allocation stalls"],
        "Linux 4.9 to 4.14: a request has waited for reclaim for more than ten seconds.",
        "Always: the task does nothing meanwhile.", "Free memory, and find what holds it: `pageset explain FILE` with the text after it."),
    word("message", &["invoked oom-killer", "oom-killer", "out of memory"],
        "Reclaim found nothing for a request that may wait, so the kernel ends a process.",
        "Always.", "`pageset explain FILE` with the text after it: a zone may be short while others have memory (lowmem_reserve, CMA, cpuset)."),
    word("message", &["SLUB: Unable to allocate memory", "unable to allocate memory on node"],
        "A slab cache found no page for its objects. `default order` was tried first, then `min order`.",
        "As for `page allocation failure`.", "Look for Mem-Info near it, and give both to `pageset explain FILE`."),
    word("message", &["Mem-Info", "show_mem", "show_free_areas"],
        "The state of all zones: totals in pages, then for each zone free memory and marks in kB, then lowmem_reserve in pages, then free blocks by order.",
        "", "`pageset explain FILE` reads it."),
    word("message", &["soft lockup"],
        "A CPU ran in the kernel for more than 20 seconds without a schedule.",
        "Always. With native_queued_spin_lock_slowpath in the stack the CPU waited for a lock.", "`pageset explain FILE` with the stack says which lock."),
    word("field", &["free_pcp", "local_pcp", "pcp"],
        "In Mem-Info: pages in per-CPU lists. `free_pcp` is all CPUs together, `local_pcp` is the CPU that printed. They are free, but only their CPU can take them; the watermarks do not count them.",
        "If a request fails while free_pcp is larger than what lacks.",
        "Keep more free outside the lists (vm.min_free_kbytes, vm.watermark_scale_factor), or make the lists smaller (vm.percpu_pagelist_high_fraction)."),
    word("field", &["lowmem_reserve", "protection", "lowmem_reserve_ratio", "lowmem_reserve[]", "protections"],
        "Pages of a zone that are kept from requests that can use a higher zone; one number for each highest zone of a request. They add to the watermark. Unit: pages, in logs too.",
        "If a large zone has much free memory that requests may not use.",
        "vm.lowmem_reserve_ratio: a larger ratio keeps less. Leave it alone if drivers need memory below 4 GiB."),
    word("field", &["boost", "watermark_boost", "watermark_boost_factor", "vm.watermark_boost_factor"],
        "A temporary addition to the watermarks after a request took part of another type's pageblock; it wakes kswapd. min, low and high in zoneinfo include it. Since 5.0.",
        "If it is there all the time: free memory stays low and kswapd reclaims without end.", "sudo sysctl vm.watermark_boost_factor=0 switches it off."),
    word("field", &["CMA", "free_cma", "nr_free_cma", "CONFIG_CMA", "cma_alloc"],
        "Memory that drivers take in contiguous ranges. Meanwhile only requests for movable pages may use it, so free memory in CMA does not help the kernel's own requests.",
        "If most of `free` is `free_cma`: other requests fail although memory is free.",
        "Make the area smaller (boot parameter cma=SIZE)."),
    word("field", &["HighAtomic", "reserved_highatomic", "free_highatomic", "nr_free_highatomic", "MIGRATE_HIGHATOMIC"],
        "Pageblocks that are kept for atomic requests of order 1 and above, at most a hundredth of the zone. Others may not use them until memory is very short.",
        "If it is a large part of `free`.", "Kernels before 6.8 may keep too much; take a newer kernel."),
    word("field", &["min", "watermark", "watermarks", "min watermark", "WMARK_MIN"],
        "The watermark below which only urgent requests get pages. An atomic request may go down to about three eighths of it.",
        "`free` below it: requests reclaim themselves, and atomic ones may fail.", "Free memory, or raise vm.watermark_scale_factor so that kswapd starts earlier."),
    word("field", &["all_unreclaimable", "pages_scanned"],
        "Reclaim has looked at many pages of the zone and freed none. Kernels up to 4.11 print it for each zone.",
        "For a large zone.", "See what holds the memory: Unevictable, Shmem and SUnreclaim in /proc/meminfo."),
    word("field", &["fragmentation index", "extfrag_index", "extfrag", "extfrag_threshold", "unusable_index"],
        "/sys/kernel/debug/extfrag/extfrag_index: for each order why a request would fail: -1 it succeeds, near 0 too little memory is free, near 1 free memory is in small blocks. Below vm.extfrag_threshold (500 thousandths) the kernel reclaims, above it compacts.",
        "Near 1 for an order that you need.", "echo 1 | sudo tee /proc/sys/vm/compact_memory; for all times, vm.compaction_proactiveness."),
    word("flag", &["GFP_ATOMIC", "__GFP_HIGH", "__GFP_ATOMIC"],
        "The caller cannot wait, for example in an interrupt. It may use a part of the reserve below min; if that is not enough it fails at once.",
        "If it fails often: packets are dropped.", "vm.watermark_scale_factor=100 makes kswapd start earlier; vm.min_free_kbytes keeps more."),
    word("flag", &["GFP_NOWAIT"],
        "The caller does not wait and may not use the reserve. It has another way if it fails.", "", "Nothing, unless it is frequent."),
    word("flag", &["GFP_KERNEL", "GFP_USER", "GFP_KERNEL_ACCOUNT", "GFP_NOFS", "GFP_NOIO", "__GFP_RECLAIM", "__GFP_DIRECT_RECLAIM"],
        "The caller may wait: it reclaims memory itself if no zone is above min.", "If order 0 fails: memory is used up.", "Find what holds the memory."),
    word("flag", &["GFP_HIGHUSER_MOVABLE", "__GFP_MOVABLE", "GFP_HIGHUSER", "GFP_TRANSHUGE", "GFP_TRANSHUGE_LIGHT"],
        "For pages of processes and files. Movable ones may use all zones and CMA.", "", ""),
    word("flag", &["GFP_DMA", "GFP_DMA32", "__GFP_DMA", "__GFP_DMA32"],
        "For devices that reach only low addresses: 16 MiB (DMA) or 4 GiB (DMA32) on x86. Only these zones may serve it.",
        "If DMA32 is short although Normal has memory.", "vm.lowmem_reserve_ratio: a smaller ratio keeps more of the low zones for it."),
    word("sysctl", &["min_free_kbytes", "vm.min_free_kbytes"],
        "The sum of the min watermarks of all zones below HighMem and Movable, in KiB. Each zone gets its share by size. Since 5.14 the lists of pages follow: high is the low watermark divided by the CPUs.",
        "Above 5 % of the memory: that much is never used. Below the kernel's own value: atomic requests fail.",
        "Double it for failed atomic requests. `pageset explain /proc/zoneinfo` says which value gives the present marks."),
    word("sysctl", &["watermark_scale_factor", "vm.watermark_scale_factor"],
        "The distance from min to low and from low to high, in ten-thousandths of the zone; 10 by default, 1000 at most. A quarter of min is the least. Since 4.6.",
        "If requests wait for direct reclaim or atomic ones fail while memory comes in bursts.",
        "100 is a usual first step: kswapd starts when a hundredth of the zone above min is left."),
    word("sysctl", &["percpu_pagelist_high_fraction", "vm.percpu_pagelist_high_fraction"],
        "Fixes high of all lists: a zone divided by this number and by the CPUs; 8 at least, 0 for the kernel's rule. Since 5.14. From 6.7 on any value but 0 switches auto-tuning off.",
        "Not 0 on 6.7 and later, unless you know why.", "sudo sysctl vm.percpu_pagelist_high_fraction=0"),
    word("sysctl", &["percpu_pagelist_fraction", "vm.percpu_pagelist_fraction"],
        "Up to 5.13: high of each list is the zone divided by this number, and batch is a quarter of high, at most 96. Its successor is percpu_pagelist_high_fraction, which leaves batch alone.",
        "", "From 5.14 on use vm.percpu_pagelist_high_fraction."),
    word("sysctl", &["compact_memory", "vm.compact_memory", "compaction_proactiveness"],
        "Compaction moves used pages together, so that free ones make large blocks. Writing 1 to compact_memory does it once for all zones; compaction_proactiveness (5.9 and later) does it in the background.",
        "", "echo 1 | sudo tee /proc/sys/vm/compact_memory"),
    word("sysctl", &["zone_reclaim_mode", "vm.zone_reclaim_mode", "numactl"],
        "Whether a request reclaims on its own node before it goes to another node.", "Not 0, if a node reclaims while others have memory.", "sudo sysctl vm.zone_reclaim_mode=0"),
    word("sysctl", &["high_order_alloc_disable", "net.core.high_order_alloc_disable"],
        "1 makes sockets ask for single pages instead of blocks of order 3. Since 5.14 order 3 is on the per-CPU lists, so it costs less than before. \
         A replay cannot tell what 1 gains: a socket then takes each page when it fills it, and a recording does not show when.",
        "If `pageset advise` says that many allocated pages are such blocks, and blocks of orders 1 to 3 are drained often.",
        "Record the load under each value, and compare: \
         `sudo sysctl net.core.high_order_alloc_disable=0; sudo pageset record --duration 10s -o 0.pstrace`, \
         then the same with =1 and `-o 1.pstrace`, then `pageset diff 0.pstrace 1.pstrace`. \
         Keep 1 if zone locks per 1000 allocations and frees fall and the load is not slower; else set 0."),
    word("build option", &["PCP_BATCH_SCALE_MAX", "CONFIG_PCP_BATCH_SCALE_MAX"],
        "The largest exponent of a refill or a drain: at most batch x 2^N pages at once; 5 by default (2,016 pages with batch 63), 0 to 6. Since 6.7, and in 6.1.104.",
        "If single waits for the zone lock are too long.", "A kernel with a smaller value; `pageset replay FILE --set batch_scale_max=N` tries it."),
    word("function", &["rmqueue_bulk", "__rmqueue_pcplist", "rmqueue_pcplist", "nr_pcp_alloc"],
        "A refill: a CPU's list is empty, and the CPU takes a batch of pages from the zone under the zone lock.",
        "If native_queued_spin_lock_slowpath is called from it: the CPU waits for the zone lock.",
        "sudo pageset top; then record the load and ask `pageset advise`."),
    word("function", &["free_pcppages_bulk", "free_unref_page_commit", "free_frozen_page_commit", "nr_pcp_free", "free_unref_page", "free_unref_page_list", "free_unref_folios"],
        "A drain: a CPU's list holds high pages or more, and the CPU returns a batch to the zone under the zone lock.",
        "As rmqueue_bulk.", "sudo pageset top; then record the load and ask `pageset advise`."),
    word("function", &["drain_pages_zone", "drain_all_pages", "drain_zone_pages", "decay_pcp_high", "drain_local_pages"],
        "Lists that are emptied from outside: before a failed request gives up, each second, or when a CPU goes off-line.",
        "drain_all_pages often: requests fail again and again.", "Free memory."),
    word("function", &["get_page_from_freelist", "__alloc_pages", "__alloc_pages_nodemask", "__alloc_pages_slowpath", "__alloc_frozen_pages_noprof", "__alloc_pages_noprof", "rmqueue", "rmqueue_buddy", "buffered_rmqueue"],
        "The allocation of a block: the zones in order, each against its watermark; orders 0 to 3 and huge pages from per-CPU lists, others under the zone lock.",
        "__alloc_pages_slowpath with much time: no zone is above low.", "sudo pageset top"),
    word("function", &["native_queued_spin_lock_slowpath", "queued_spin_lock_slowpath", "__pv_queued_spin_lock_slowpath", "_raw_spin_lock", "_raw_spin_lock_irqsave", "_raw_spin_lock_irq"],
        "A CPU waits for a spin lock. Which lock, only the callers show: rmqueue_bulk and free_pcppages_bulk are the zone lock, folio_lruvec_lock is the LRU lock.",
        "Above a few per cent of the time.",
        "perf report --no-children -S native_queued_spin_lock_slowpath -g caller; `pageset explain FILE` reads its output."),
    word("function", &["folio_lruvec_lock_irqsave", "folio_lruvec_lock", "lru_lock", "pagevec_lru_move_fn", "folio_batch_move_lru", "shrink_inactive_list", "lruvec->lru_lock"],
        "The LRU lock of a node and cgroup: pages that join or leave the lists of reclaim. It is not the zone lock.",
        "If CPUs wait for it, no setting of the per-CPU lists of pages helps.", "Fewer page-cache or anonymous pages per second; larger folios."),
    word("function", &["zone lock", "zone->lock", "free_one_page", "__free_pages_ok"],
        "The lock of a zone's free lists. Refills, drains, and blocks of order 4 to 8 and 10 take it.", "If CPUs wait for it more than 5 % of their time.", "sudo pageset top"),
    word("field", &["pageset", "pagesets", "per-cpu", "per_cpu_pageset", "per_cpu_pages", "hi", "btch", "usd"],
        "The list of free pages of one CPU for one zone. In logs up to 4.1: hi is high, btch is batch, usd is the number of pages in it.", "", "`pageset explain /proc/zoneinfo`"),
    word("file", &["zoneinfo", "/proc/zoneinfo"],
        "Zones with their watermarks, lowmem_reserve (`protection`) and the lists of each CPU. Unit: pages.", "", "pageset explain /proc/zoneinfo"),
    word("file", &["buddyinfo", "/proc/buddyinfo"],
        "The number of free blocks of order 0, 1, … of each zone.", "If the columns that you need are 0 although small ones are large.", "pageset explain /proc/buddyinfo"),
    word("file", &["pagetypeinfo", "/proc/pagetypeinfo"],
        "Free blocks by type and order, and pageblocks by type. Only root reads it on new kernels.", "", "sudo cat /proc/pagetypeinfo | pageset explain -"),
    word("counter", &["allocstall", "allocstall_normal", "allocstall_movable", "allocstall_dma32"],
        "Requests that reclaimed memory themselves because no zone was above min.", "If it rises while the load runs.", "vm.watermark_scale_factor makes kswapd start earlier."),
    word("counter", &["compact_stall", "compact_fail", "compact_success"],
        "Requests that compacted memory themselves for a large block, and how it ended.", "compact_fail near compact_stall.", "`pageset explain /proc/buddyinfo` says whether the order or the memory is missing."),
    word("word", &["kswapd"],
        "The kernel's thread that reclaims memory: it starts when a zone falls below low and stops at high.", "At 100 % of a CPU.", "`pageset explain /proc/zoneinfo`: a boost, or a zone with nothing to reclaim, keeps it running."),
];

/// A name without what texts put around it.
fn bare(name: &str) -> String {
    let name = ["[k] ", "[.] "].iter().fold(name, |name, mark| name.split_once(mark).map_or(name, |(_, rest)| rest));
    let name = name.trim().trim_matches(['[', ']', '`', '"', '\'']);
    let ends = ["+0x", ".isra", ".constprop", ".part", ".cold", "=", "()"];
    let end = ends.iter().filter_map(|end| name.find(end)).min().unwrap_or(name.len());
    let name = name[..end].trim().trim_end_matches(':').to_lowercase();
    let prefixes = ["/proc/sys/vm/", "/sys/kernel/debug/extfrag/", "vm.", "config_"];
    let name = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(&name);
    name.trim_start_matches('_').replace([' ', '-'], "_")
}

/// The entries of a name as text; empty if there is none. The name may be a part of a message, and may have a prefix or not.
#[must_use]
pub fn explained(name: &str) -> String {
    let wanted = bare(name);
    let is_named =
        |word: &&Word| word.names.iter().any(|known| bare(known) == wanted || bare(known) == format!("gfp_{wanted}"));
    let mut found: Vec<&Word> = WORDS.iter().filter(is_named).collect();
    // A whole line of a log.
    if found.is_empty() {
        let lower = name.to_lowercase();
        let is_in = |word: &&Word| {
            word.kind == "message" && word.names.iter().any(|known| lower.contains(&known.to_lowercase()))
        };
        found = WORDS.iter().filter(is_in).take(1).collect();
    }
    let mut texts: Vec<String> = found.into_iter().map(text).collect();
    texts.extend(preset(name.trim()));
    texts.join("\n")
}

/// The entry of a preset of rules.
fn preset(name: &str) -> Option<String> {
    let preset = Preset::find(name)?;
    let (shown, same) = match preset.name == name {
        true => (name, String::new()),
        false => (name, format!(" The rules are those of {}.", preset.name)),
    };
    let body = format!("Rules of {}.{same}", preset.about);
    let todo = format!("to do: `pageset replay FILE --rules {name}` replays a recording under them.");
    Some(format!("{shown} (preset)\n{}{}", wrapped(&body), wrapped(&todo)))
}

fn text(word: &Word) -> String {
    let mut text = format!("{} ({})\n{}", word.names[0], word.kind, wrapped(word.what));
    if word.names.len() > 1 {
        text += &wrapped(&format!("also: {}", word.names[1..].join(", ")));
    }
    for (head, body) in [("bad: ", word.bad), ("to do: ", word.todo)] {
        if !body.is_empty() {
            text += &wrapped(&format!("{head}{body}"));
        }
    }
    text
}

/// A paragraph in lines that begin with two spaces.
fn wrapped(paragraph: &str) -> String {
    crate::text::wrapped(paragraph, "  ", "  ")
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    let words = WORDS.iter().flat_map(|word| word.names.iter().copied());
    words.chain(PRESETS.iter().map(|preset| preset.name))
}

/// A list of all names.
#[must_use]
pub fn listed() -> String {
    let words: Vec<&str> = WORDS.iter().map(|word| word.names[0]).collect();
    let presets: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    format!("names of the kernel\n{}presets\n{}", wrapped(&words.join(", ")), wrapped(&presets.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_and_without_prefixes() {
        for (name, entry) in [
            ("free_pcp", "free_pcp (field)"),
            ("GFP_ATOMIC", "GFP_ATOMIC (flag)"),
            ("atomic", "GFP_ATOMIC (flag)"),
            ("__GFP_HIGH", "GFP_ATOMIC (flag)"),
            ("cma", "CMA (field)"),
            ("boost", "boost (field)"),
            ("lowmem_reserve", "lowmem_reserve (field)"),
            ("vm.min_free_kbytes", "min_free_kbytes (sysctl)"),
            ("/proc/sys/vm/min_free_kbytes", "min_free_kbytes (sysctl)"),
            ("vm.min_free_kbytes=67584", "min_free_kbytes (sysctl)"),
            ("CONFIG_PCP_BATCH_SCALE_MAX", "PCP_BATCH_SCALE_MAX (build option)"),
            ("pcp_batch_scale_max", "PCP_BATCH_SCALE_MAX (build option)"),
            ("percpu_pagelist_fraction", "percpu_pagelist_fraction (sysctl)"),
            ("[k] rmqueue_bulk", "rmqueue_bulk (function)"),
            ("rmqueue_bulk.isra.0+0x3a", "rmqueue_bulk (function)"),
            ("free_pcppages_bulk()", "free_pcppages_bulk"),
            ("native_queued_spin_lock_slowpath", "native_queued_spin_lock_slowpath (function)"),
            ("extfrag_index", "fragmentation index (field)"),
            ("page allocation failure", "page allocation failure (message)"),
            ("swapper/0: page allocation failure: order:0, mode:0x20", "page allocation failure (message)"),
            ("linux-6.18", "linux-6.18 (preset)"),
            ("linux-7.3", "linux-7.3 (preset)"),
            ("pageset-lists", "pageset-lists (preset)"),
        ] {
            assert!(explained(name).starts_with(entry), "{name}: {}", explained(name));
        }
        let sockets = explained("net.core.high_order_alloc_disable");
        for part in
            ["A replay cannot tell what 1 gains", "record --duration 10s", "pageset diff 0.pstrace", "else set 0"]
        {
            let words: Vec<&str> = sockets.split_whitespace().collect();
            assert!(words.join(" ").contains(part), "{part}: {sockets}");
        }
        assert_eq!(explained("nothing like it"), "");
        assert!(explained("linux-7.3").contains("linux-6.19"));
    }

    #[test]
    fn entries_are_unique_and_fit() {
        for word in WORDS {
            for name in word.names {
                let owners = WORDS.iter().filter(|other| other.names.iter().any(|other| bare(other) == bare(name)));
                assert_eq!(owners.count(), 1, "{name} has two entries");
                assert!(explained(name).starts_with(word.names[0]), "{name}");
                assert!(explained(name).lines().all(|line| line.chars().count() <= 120), "{name}");
            }
        }
    }
}
