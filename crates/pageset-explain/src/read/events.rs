//! Events of the kernel's tracer as text: `trace_pipe`, `trace`, `trace-cmd report`, `perf script`.

use std::collections::{BTreeMap, HashMap};

use super::prefix::digits;

/// What the events of a text say.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// How often each event is there.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// Allocations by order.
    pub(crate) orders: BTreeMap<u64, u64>,
    /// Allocations that failed, by order.
    pub(crate) failed: BTreeMap<u64, u64>,
    /// The waits that have a begin and an end.
    pub(crate) waits: Vec<Wait>,
    /// The wait of each task that has begun: the kind, the time in s and the order.
    begun: HashMap<String, (&'static str, f64, Option<u64>)>,
}

/// A direct reclaim or a compaction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wait {
    /// The name of the event that ends it.
    pub(crate) kind: &'static str,
    pub(crate) task: String,
    pub(crate) seconds: f64,
    pub(crate) order: Option<u64>,
}

/// The events about the page allocator. No name is the beginning of another one and a colon.
const NAMES: [&str; 14] = [
    "mm_page_alloc",
    "mm_page_alloc_zone_locked",
    "mm_page_alloc_extfrag",
    "mm_page_pcpu_drain",
    "mm_page_free",
    "mm_page_free_batched",
    "mm_vmscan_direct_reclaim_begin",
    "mm_vmscan_direct_reclaim_end",
    "mm_vmscan_kswapd_wake",
    "mm_vmscan_wakeup_kswapd",
    "mm_compaction_begin",
    "mm_compaction_end",
    "mm_compaction_try_to_compact_pages",
    "mm_compaction_kcompactd_wake",
];

/// More than any machine has at once.
const MAX_TASKS: usize = 100_000;
const MAX_WAITS: usize = 1_000_000;

impl Events {
    /// Takes a line, and returns whether it is an event.
    pub(crate) fn line(&mut self, text: &str) -> bool {
        let Some(at) = text.find(": mm_").map(|at| at + 2).or_else(|| text.find(":mm_").map(|at| at + 1)) else {
            return false;
        };
        let Some((name, arguments)) = text[at..].split_once(':') else { return false };
        let Some(name) = NAMES.into_iter().find(|known| *known == name) else { return false };
        // `task-12  [001] .N..  566.165520: name:`, `task 12 [001] 566.165520: vmscan:name:`.
        let head = text[..at].trim_end_matches(|c: char| c.is_ascii_lowercase() || matches!(c, ':' | ' '));
        let task: String = head.split(" [").next().unwrap_or("").trim().chars().take(64).collect();
        if head.contains(" [") && !is_task(&task) {
            return false;
        }
        *self.counts.entry(name).or_default() += 1;
        let argument = |name: &str| {
            let words = arguments.split_ascii_whitespace();
            words.filter_map(|word| word.split_once('=')).find(|(known, _)| *known == name).map(|(_, value)| value)
        };
        let order = argument("order").and_then(digits).filter(|order| *order < 32);
        if let (Some(order), "mm_page_alloc") = (order, name) {
            *self.orders.entry(order).or_default() += 1;
            // A failed allocation has no page.
            let page = argument("page").unwrap_or("");
            let is_zero = |number: &str| number.trim_start_matches("0x").bytes().all(|b| b == b'0');
            if matches!(page, "(nil)" | "(null)")
                || !page.is_empty() && is_zero(page) && argument("pfn").is_some_and(is_zero)
            {
                *self.failed.entry(order).or_default() += 1;
            }
        }
        let time = head.rsplit(' ').next().and_then(|time| time.parse::<f64>().ok()).filter(|time| time.is_finite());
        let Some(time) = time.filter(|_| !task.is_empty()) else { return true };
        if name.ends_with("_begin") && self.begun.len() < MAX_TASKS {
            self.begun.insert(task, (name, time, order));
        } else if let Some(begin) = name.strip_suffix("_end")
            && let Some((kind, since, order)) = self.begun.remove(&task)
            && kind.strip_suffix("_begin") == Some(begin)
            && time >= since
            && self.waits.len() < MAX_WAITS
        {
            self.waits.push(Wait { kind: name, task, seconds: time - since, order });
        }
        true
    }
}

/// Whether a text can be the name and the number of a task: the kernel's names have at most 15 bytes, and none is the number of a line.
fn is_task(text: &str) -> bool {
    let text = text.rsplit_once(" (").map_or(text, |(task, _group)| task).trim_end();
    let name = text.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(['-', ' ', '/']);
    let after = name.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_begin = |c: char| c.is_ascii_alphanumeric() || matches!(c, '<' | '(');
    name.len() <= 15
        && (name.is_empty() || name.starts_with(is_begin))
        && (after.len() == name.len() || !after.starts_with([':', '.', '\t', ' ']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_each_form() {
        let mut events = Events::default();
        for line in [
            "  <...>-22275 [006] ....   889.213383: mm_page_alloc: page=00000000d2be5665 pfn=970744 order=0 migratetype=0",
            "cc1 12 [001]  889.213384: kmem:mm_page_alloc: page=(nil) pfn=0 order=3 migratetype=1 gfp_flags=GFP_ATOMIC",
            "  24)  |  /* x: mm_page_alloc: page=0000000000000000 pfn=0 order=9 migratetype=1 */",
            "khugepaged-22  [000] ....  566.123: mm_vmscan_direct_reclaim_begin: order=9 may_writepage=1",
            "khugepaged-22  [001] .N..  566.165: mm_vmscan_direct_reclaim_end: nr_reclaimed=1100",
            "a-1  [001] .N..  567: mm_compaction_end: zone_start=0x1 status=complete",
        ] {
            assert!(events.line(line), "{line}");
        }
        assert_eq!(events.orders, BTreeMap::from([(0, 1), (3, 1), (9, 1)]));
        assert_eq!(events.failed, BTreeMap::from([(3, 1), (9, 1)]));
        let [wait] = &events.waits[..] else { panic!("{:?}", events.waits) };
        assert_eq!((wait.task.as_str(), wait.order, (wait.seconds * 1000.0).round()), ("khugepaged-22", Some(9), 42.0));
        for line in ["mm_page_alloc", "x: mm_page_alloc_more: order=1", ": mm_", "a: mm_page_alloc"] {
            assert!(!Events::default().line(line), "{line}");
        }
    }
}
