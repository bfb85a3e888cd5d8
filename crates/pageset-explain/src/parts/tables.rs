//! What tables of the whole machine say about memory.

use pageset_trace::number::grouped;

use crate::read::tables::{HISTOGRAM_NAME as HISTOGRAM, PRESSURE, Tables};

/// A whole number for a sentence.
fn whole(value: f64) -> String {
    grouped(value.max(0.0) as u64)
}

/// The largest number of a column.
fn largest(column: &[f64]) -> f64 {
    column.iter().copied().fold(0.0, f64::max)
}

/// What the first table says about memory: a sentence without its full stop. `None` if its numbers say nothing.
pub(super) fn state(tables: &Tables) -> Option<String> {
    match tables.first?.name {
        "/proc/meminfo" => meminfo(tables).or_else(|| huge_pages(tables)).or_else(|| {
            let slab = tables.last("SUnreclaim")?;
            Some(format!(
                "slab caches that cannot be freed hold {} kB (SUnreclaim); the text has no total",
                whole(slab)
            ))
        }),
        "free" => free(tables),
        "vmstat" => vmstat(tables),
        "vmstat -s" => {
            let out = tables.one("swapped out").filter(|pages| *pages > 0.0);
            let out =
                out.map_or(String::new(), |pages| format!(", and {} pages were swapped out since boot", whole(pages)));
            total(tables.one("free memory"), tables.one("total memory"), "free").map(|free| free + &out)
        }
        "sar -B" => sar(tables),
        "sar -r" => {
            let [free] = tables.columns(["kbmemfree"])?;
            let least = free.iter().copied().reduce(f64::min)?;
            Some(format!("{} kB are free at least, and {} kB at most", whole(least), whole(largest(&free))))
        }
        PRESSURE => pressure(tables),
        "numastat" => numastat(tables),
        "numastat -m" => {
            let (free, all) = (tables.by_node("MemFree"), tables.by_node("MemTotal"));
            // Without a heading the last column is the sum.
            let count = match free.iter().all(|(node, _)| node.is_some()) {
                true => free.len(),
                false => free.len().saturating_sub(1).max(1),
            };
            fullest(free.into_iter().zip(all).take(count).map(|((node, free), (_, all))| (node, free, all)))
        }
        "numactl --hardware" => {
            let nodes = tables.nodes.iter().enumerate();
            fullest(nodes.map(|(node, [free, all])| (Some(node as u64), *free, *all)))
        }
        "slabtop" | "/proc/slabinfo" | "kmem -s of crash" => caches(tables),
        "memory.events" => events(tables),
        "memory.stat" => stat(tables),
        "a memory cgroup's files" => group(tables),
        "/sys/kernel/mm/hugepages" => huge_pages(tables),
        "sar -H" => {
            let [free, used] = tables.columns(["kbhugfree", "kbhugused"])?;
            let (free, used) = (*free.last()?, *used.last()?);
            Some(match free + used > 0.0 {
                true => format!("{} kB of {} kB of huge pages are free", whole(free), whole(free + used)),
                false => "no huge pages are reserved".to_owned(),
            })
        }
        "compactsnoop" => latency(tables, "compactions", "compaction"),
        "drsnoop" => latency(tables, "direct reclaims", "direct reclaim"),
        "top" => threads(tables),
        HISTOGRAM => histogram(tables),
        _ => None,
    }
}

/// How many huge pages are free.
pub(super) fn huge_pages(tables: &Tables) -> Option<String> {
    let (total, free) = (tables.only("HugePages_Total")?, tables.only("HugePages_Free")?);
    let size = tables.one("Hugepagesize").map_or(String::new(), |kib| format!(" of {} kB", whole(kib)));
    let promised = tables.one("HugePages_Rsvd").filter(|pages| *pages > 0.0);
    let promised =
        promised.map_or(String::new(), |pages| format!(", {} of them promised (HugePages_Rsvd)", whole(pages)));
    Some(match (total > 0.0, free > 0.0) {
        (false, _) => format!("no huge pages{size} are reserved"),
        (true, false) => format!("all {} huge pages{size} are in use", whole(total)),
        (true, true) => format!("{} of {} huge pages{size} are free{promised}", whole(free), whole(total)),
    })
}

/// How much of its limit a memory cgroup uses.
fn group(tables: &Tables) -> Option<String> {
    let (used, limit) = (tables.only("group_used"), tables.only("group_limit"));
    // 2^63 rounded to pages is no limit, and so is `max`.
    if limit.is_some_and(|limit| limit > 9e18) {
        let used = used.map_or(String::new(), |used| format!(" and uses {} bytes", whole(used)));
        return Some(format!("the memory cgroup has no limit{used}"));
    }
    let (used, limit) = used.zip(limit).filter(|(_, limit)| *limit > 0.0)?;
    let (most, times) = (tables.only("group_most"), tables.only("group_reached"));
    let reached = match (times, most) {
        (Some(times), _) if times > 0.0 => format!(", which it reached {} times", whole(times)),
        (_, Some(most)) if most >= limit => ", which it has reached".to_owned(),
        (Some(_), _) | (_, Some(_)) => ", which it never reached".to_owned(),
        _ => String::new(),
    };
    let (share, used, limit) = (100.0 * used / limit, whole(used), whole(limit));
    Some(format!("the memory cgroup uses {used} bytes ({share:.1} %) of its limit of {limit}{reached}"))
}

/// What holds most of a memory cgroup's memory.
fn stat(tables: &Tables) -> Option<String> {
    const KINDS: [(&str, &str); 9] = [
        ("anon", "memory of processes (anon)"),
        ("rss", "memory of processes (rss)"),
        ("file", "pages of files (file)"),
        ("cache", "pages of files (cache)"),
        ("slab_reclaimable", "slab caches that can be freed (slab_reclaimable)"),
        ("slab_unreclaimable", "slab caches that cannot be freed (slab_unreclaimable)"),
        ("kernel_stack", "kernel stacks"),
        ("pagetables", "page tables"),
        ("sock", "buffers of sockets (sock)"),
    ];
    let known = KINDS.iter().filter_map(|(name, what)| Some((*what, tables.one(name)?)));
    let known: Vec<(&str, f64)> = known.collect();
    let all: f64 = known.iter().map(|(_, bytes)| bytes).sum();
    let (what, most) = known.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| all > 0.0)?;
    let share = 100.0 * most / all;
    let has = |names: [&str; 2]| names.iter().any(|name| tables.one(name).is_some());
    let limits = ["hierarchical_memory_limit", "group_limit"];
    let limit = match limits.iter().find_map(|name| tables.only(name)) {
        // 2^63 rounded to pages is no limit, and so is `max`.
        Some(limit) if limit > 9e18 => ", and it has no limit".to_owned(),
        Some(limit) => format!(", and its limit is {} bytes", whole(limit)),
        // The text has those of several cgroups.
        None if has(limits) => String::new(),
        None => ", and its limit is not in the text".to_owned(),
    };
    Some(match has(["anon", "rss"]) && has(["file", "cache"]) {
        true => format!(
            "the largest part of the memory cgroup's memory is {what}: {} bytes ({share:.0} % of what the text counts){limit}",
            whole(most)
        ),
        false => format!(
            "of the kinds of memory in the text, the largest part of the memory cgroup's memory is {what}: {} bytes",
            whole(most)
        ),
    })
}

/// The longest wait.
fn latency(tables: &Tables, many: &str, one: &str) -> Option<String> {
    let (process, longest) = tables.latencies.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let count = tables.latencies.len();
    let count = if count == 1 { format!("1 {one}") } else { format!("{} {many}", grouped(count as u64)) };
    Some(format!("the text has {count}, and the longest took {longest} ms (process {process})"))
}

/// The histogram with the largest value.
fn histogram(tables: &Tables) -> Option<String> {
    let all = tables.histograms.all.iter().filter(|histogram| histogram.count > 0);
    let shown = all.max_by_key(|histogram| histogram.below.unwrap_or(i64::MAX))?;
    let (unit, (most, low, high)) = (shown.unit(), shown.most);
    let name = if shown.name.is_empty() { String::new() } else { format!(" of {}", shown.name) };
    let number = |value: i64| match u64::try_from(value) {
        Ok(value) => grouped(value),
        Err(_) => format!("-{}", grouped(value.unsigned_abs())),
    };
    let range = match (low, high) {
        (i64::MIN, Some(high)) => format!("below {}", number(high)),
        (low, Some(high)) => format!("from {} to {}", number(low), number(high - 1)),
        (low, None) => format!("from {} on", number(low)),
    };
    let below = shown.below.map_or(String::new(), |below| format!(", and all are below {}{unit}", number(below)));
    Some(format!("{} of {} values{name} are {range}{unit}{below}", grouped(most), grouped(shown.count)))
}

fn events(tables: &Tables) -> Option<String> {
    let (reached, killed) = (tables.one("max").unwrap_or(0.0), tables.one("oom_kill")?);
    let above = tables.one("high").unwrap_or(0.0);
    let above = match above > 0.0 {
        true => format!("the kernel slowed it down {} times because it was above memory.high", whole(above)),
        false => String::new(),
    };
    Some(match (reached + killed > 0.0, above.is_empty()) {
        (false, true) => "the memory cgroup was not short: it never reached its limit (memory.max)".to_owned(),
        (false, false) => format!("a memory cgroup was short: {above}; it never reached its limit (memory.max)"),
        (true, is_alone) => format!(
            "a memory cgroup was short: it reached its limit (memory.max) {} times, and the kernel killed {} of its processes{}{above}",
            whole(reached),
            whole(killed),
            if is_alone { "" } else { "; " }
        ),
    })
}

/// A twentieth is where a machine begins to reclaim all the time. A guess.
fn is_short(available: f64, all: f64) -> bool {
    available < all / 20.0
}

fn verdict(available: f64, all: f64) -> &'static str {
    if is_short(available, all) { "memory is short" } else { "memory is not short" }
}

fn total(free: Option<f64>, all: Option<f64>, what: &str) -> Option<String> {
    let (free, all) = free.zip(all).filter(|(_, all)| *all > 0.0)?;
    Some(format!("{} kB of {} kB are {what}", whole(free), whole(all)))
}

fn meminfo(tables: &Tables) -> Option<String> {
    let all = tables.one("MemTotal").filter(|all| *all > 0.0)?;
    let mut text = match tables.one("MemAvailable") {
        Some(available) => format!("{}: {}", verdict(available, all), total(Some(available), Some(all), "available")?),
        // Up to 3.13.
        None => total(tables.one("MemFree"), Some(all), "free")?,
    };
    let kib = |name| tables.one(name).unwrap_or(0.0);
    let mut holders = [
        (kib("AnonPages"), "processes (AnonPages)", true),
        (kib("Shmem"), "shared memory and tmpfs (Shmem)", true),
        (kib("HugePages_Total") * kib("Hugepagesize"), "reserved huge pages", false),
        (kib("SUnreclaim"), "slab caches (SUnreclaim)", false),
        (kib("PageTables"), "page tables (PageTables)", false),
    ];
    holders.sort_by(|a, b| b.0.total_cmp(&a.0));
    let is_short = tables.one("MemAvailable").is_some_and(|available| is_short(available, all));
    for (held, by, is_usual) in holders {
        // A machine without a leak has a tenth in the kernel at most. A guess.
        if held >= all / 5.0 && (is_short || !is_usual) {
            text += &format!(", and {by} hold {} kB ({:.0} %)", whole(held), 100.0 * held / all);
        }
    }
    Some(text)
}

fn free(tables: &Tables) -> Option<String> {
    let all = tables.cell("Mem", "total").filter(|all| *all > 0.0)?;
    let cell = |column| tables.cell("Mem", column);
    let (available, what) = match cell("available") {
        Some(available) => (available, "available"),
        None => {
            let caches = ["buffers", "cached", "buff/cache"].into_iter().filter_map(cell).sum::<f64>();
            (cell("free")? + caches, "free or in caches")
        }
    };
    let swap = tables.of("Swap").filter(|swap| swap.len() >= 2 && swap[0] > 0.0 && swap[1] >= swap[0] * 0.95);
    let swap = if swap.is_some() { ", and swap is full" } else { "" };
    Some(format!("{}: {:.1} % of it is {what}{swap}", verdict(available, all), 100.0 * available / all))
}

fn vmstat(tables: &Tables) -> Option<String> {
    let [into, out, free] = tables.columns(["si", "so", "free"])?;
    let rows = free.len();
    // The first row is the average since boot.
    let skip = usize::from(rows > 1);
    let most = |column: &[f64]| column.get(skip..).map_or(0.0, largest);
    let (into, out) = (most(&into), most(&out));
    let least = free.into_iter().skip(skip).reduce(f64::min)?;
    let when = if rows > 1 { "" } else { " on average since boot" };
    Some(match into + out > 0.0 {
        true => format!(
            "the machine swaps{when}: up to {} kB/s in (si) and {} kB/s out (so), with {} kB free at least",
            whole(into),
            whole(out),
            whole(least)
        ),
        false => {
            format!("the machine does not swap{when} (si and so are 0), and {} kB are free at least", whole(least))
        }
    })
}

fn sar(tables: &Tables) -> Option<String> {
    let [kswapd, direct] = tables.columns(["pgscank/s", "pgscand/s"])?;
    let (kswapd, direct) = (largest(&kswapd), largest(&direct));
    Some(match (kswapd > 0.0, direct > 0.0) {
        (_, true) => format!(
            "requests reclaim memory themselves: they scan up to {} pages/s (pgscand/s), and kswapd up to {} (pgscank/s)",
            whole(direct),
            whole(kswapd)
        ),
        (true, false) => format!("only kswapd reclaims memory: it scans up to {} pages/s (pgscank/s)", whole(kswapd)),
        (false, false) => "nothing reclaims memory: no pages are scanned".to_owned(),
    })
}

fn pressure(tables: &Tables) -> Option<String> {
    let pressure = tables.pressure()?;
    let (first, full) = (*pressure.some.first()?, pressure.full.first().copied().unwrap_or(0.0));
    let is_memory = pressure.resource() == Some("memory");
    let is_group = pressure.file().ends_with(".pressure");
    let task = if is_group { "task of the cgroup" } else { "task" };
    let (waited, doubt) = match pressure.resource() {
        Some(resource) => (format!("waited for {resource}"), ""),
        None => ("waited".to_owned(), " (for memory, if this is pressure/memory)"),
    };
    if pressure.some.iter().all(|value| *value <= 0.0) {
        let not_short = match (is_memory, is_group) {
            (true, false) => "memory is not short: ",
            (true, true) => "the memory cgroup is not short: ",
            (false, _) => "",
        };
        // A cgroup is younger than the machine, and an unknown file may be a cgroup's.
        let since = if pressure.resource().is_some() && !is_group { " since boot" } else { "" };
        return Some(format!("{not_short}no {task} has {waited}{since}{doubt}"));
    }
    // All tasks waiting for a tenth of the time is what programs that kill by this file take for a shortage. A guess.
    let state = match (is_memory && full >= 10.0, is_group) {
        (true, false) => "memory is short: ",
        (true, true) => "the memory cgroup is short: ",
        (false, _) => "",
    };
    Some(format!(
        "{state}in the last 10 s some {task} {waited} {first:.1} % of the time, and all tasks at once {full:.1} %{doubt}"
    ))
}

fn numastat(tables: &Tables) -> Option<String> {
    let sum = |name| tables.by_node(name).iter().map(|(_, number)| number).sum::<f64>();
    let (hits, foreign) = (tables.by_node("numa_hit"), tables.by_node("numa_foreign"));
    let hit = sum("numa_hit");
    if let [(node, _)] = hits[..] {
        // One node's numa_miss is the shortage of others; numa_foreign is its own.
        let [(_, foreign)] = foreign[..] else { return None };
        let on = node.map_or("this node".to_owned(), |node| format!("node {node}"));
        return Some(match foreign > 0.0 {
            true => format!(
                "{:.1} % of the pages for which {on} was preferred came from another node (numa_foreign)",
                100.0 * foreign / (hit + foreign)
            ),
            false => format!(
                "all pages for which {on} was preferred came from it (numa_foreign is 0); other nodes are not in the text"
            ),
        });
    }
    if hits.is_empty() || tables.by_node("numa_miss").len() != hits.len() {
        return None;
    }
    let missed = sum("numa_miss");
    if missed <= 0.0 {
        return Some("no node was short: all pages came from the node that was preferred (numa_miss is 0)".to_owned());
    }
    let most = foreign.iter().max_by(|a, b| a.1.total_cmp(&b.1)).and_then(|(node, _)| *node);
    let short = most.map_or(String::new(), |node| format!(", most often because node {node} was short (numa_foreign)"));
    Some(format!(
        "{:.1} % of the pages came from another node than preferred (numa_miss){short}",
        100.0 * missed / (hit + missed).max(1.0)
    ))
}

/// The node with the least free memory, in MiB.
fn fullest(nodes: impl Iterator<Item = (Option<u64>, f64, f64)>) -> Option<String> {
    let nodes = nodes.filter(|(_, _, all)| *all > 0.0);
    let (node, free, all) = nodes.min_by(|a, b| (a.1 / a.2).total_cmp(&(b.1 / b.2)))?;
    let node = node.map_or("one node".to_owned(), |node| format!("node {node}"));
    Some(format!(
        "{node} has the least free memory: {} MB of {} MB ({:.1} %)",
        whole(free),
        whole(all),
        100.0 * free / all
    ))
}

fn caches(tables: &Tables) -> Option<String> {
    let (name, kib) = tables.caches.iter().max_by_key(|(_, kib)| *kib)?;
    let all = tables.all_caches.map_or(String::new(), |all| format!(" of {} kB in all", grouped(all)));
    // slabtop prints bytes, slabinfo pages.
    let pages = if tables.first?.name == "/proc/slabinfo" { " with pages of 4 KiB" } else { "" };
    Some(format!("the largest slab cache of the text is {name}: {} kB{all}{pages}", grouped(*kib)))
}

fn threads(tables: &Tables) -> Option<String> {
    // Less than a fifth of a CPU is no load. A guess.
    let busy: Vec<String> = tables
        .threads
        .iter()
        .filter(|(_, share)| *share >= 20.0)
        .map(|(name, share)| {
            let does = match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
                "kswapd" => "reclaims",
                "ksmd" => "merges equal pages",
                "khugepaged" => "makes huge pages",
                _ => "compacts",
            };
            format!("{name} {does} with {share:.0} % of a CPU")
        })
        .collect();
    (!busy.is_empty()).then(|| format!("the kernel works for memory: {}", busy.join(", ")))
}
