//! Texts of one row for each zone or name: buddyinfo, pagetypeinfo, extfrag_index, unusable_index, vmstat, sysctls.

use std::collections::BTreeMap;

use pageset_trace::procfs::{BuddyInfo, pagetypeinfo};

use super::prefix::digits;
use super::request::ZONES;

/// What the rows have. Zones are `(node, name)`.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Free blocks by order.
    pub(crate) buddyinfo: Vec<((u32, String), Vec<u64>)>,
    /// Free blocks by type and order.
    pub(crate) types: Vec<((u32, String), String, Vec<u64>)>,
    /// The fragmentation index by order; -1 where an allocation succeeds.
    pub(crate) extfrag: Vec<((u32, String), Vec<f64>)>,
    /// The unusable index by order: the part of the free memory that is in smaller blocks.
    pub(crate) unusable: Vec<((u32, String), Vec<f64>)>,
    pub(crate) vmstat: BTreeMap<String, u64>,
    /// Sysctls without `vm.`.
    pub(crate) settings: BTreeMap<String, u64>,
    /// From pagetypeinfo.
    pub(crate) pageblock_order: Option<u8>,
    /// Rows of the table of pageblocks follow.
    in_pageblocks: bool,
}

/// Rows of more zones than a machine has are of no use.
const MAX_ROWS: usize = 100_000;

impl Rows {
    /// Takes a line, and returns whether it is a row.
    pub(crate) fn line(&mut self, text: &str) -> bool {
        let text = text.trim();
        if text.starts_with("Node") && text.contains("zone") {
            return self.zone_row(text);
        }
        // `Node 0   DMA32   6  5  7 …` of drgn and of crash.
        if let Some((node, rest)) = text.strip_prefix("Node ").and_then(|rest| rest.trim_start().split_once(' '))
            && let Some((name, numbers)) = rest.trim_start().split_once(' ')
            && ZONES.contains(&name)
            && numbers.split_ascii_whitespace().count() >= 8
            && numbers.split_ascii_whitespace().all(|number| digits(number).is_some())
        {
            return self.zone_row(&format!("Node {}, zone {name} {numbers}", node.trim_end_matches(',')));
        }
        if text.starts_with("Node ID") && text.contains("Order 0") {
            return true;
        }
        if let Some(order) = text.strip_prefix("Page block order:") {
            self.pageblock_order = digits(order.trim()).and_then(|order| u8::try_from(order).ok());
            return true;
        }
        if text.starts_with("Pages per block:") {
            return true;
        }
        if text.starts_with("Free pages count per migrate type") {
            self.in_pageblocks = false;
            return true;
        }
        if text.starts_with("Number of blocks type") || text.starts_with("Number of mixed blocks") {
            self.in_pageblocks = true;
            return true;
        }
        self.setting(text)
    }

    fn zone_row(&mut self, text: &str) -> bool {
        if self.buddyinfo.len() + self.types.len() + self.extfrag.len() + self.unusable.len() > MAX_ROWS {
            return false;
        }
        if text.contains(", type") {
            // `Node 0, zone DMA, type Movable 1 2 …`.
            let Some((node, zone, of, counts)) = pagetypeinfo::row(text) else { return false };
            let counts = counts.iter().map(|blocks| blocks.count).collect();
            self.types.push(((node, zone.to_owned()), of.to_owned(), counts));
            return true;
        }
        let numbers = text.split_ascii_whitespace().skip_while(|word| *word != "zone").skip(2);
        let numbers: Vec<&str> = numbers.take(64).collect();
        if numbers.is_empty() {
            return false;
        }
        let name = text.split_ascii_whitespace().skip_while(|word| *word != "zone").nth(1).unwrap_or("");
        let node = text.split_ascii_whitespace().nth(1).and_then(|node| digits(node.trim_end_matches(',')));
        let Some(node) = node.and_then(|node| u32::try_from(node).ok()) else { return false };
        if numbers.iter().all(|number| digits(number).is_some()) {
            if self.in_pageblocks {
                return true;
            }
            let Ok(mut info) = BuddyInfo::parse(&format!("{text}\n")) else { return false };
            let zone = info.zones.remove(0);
            self.buddyinfo.push(((zone.node, zone.zone), zone.free_blocks));
            return true;
        }
        let index: Option<Vec<f64>> = numbers.iter().map(|number| fixed(number)).collect();
        match index {
            // Only the fragmentation index has numbers below 0; the other file is the unusable index.
            Some(index)
                if index.iter().any(|value| *value < 0.0) || index.first().is_some_and(|first| *first > 0.0) =>
            {
                self.extfrag.push(((node, name.to_owned()), index));
                true
            }
            Some(index) => {
                self.unusable.push(((node, name.to_owned()), index));
                true
            }
            None => false,
        }
    }

    /// `vm.min_free_kbytes = 67584`, `min_free_kbytes: 67584`, `/proc/sys/vm/min_free_kbytes:67584`.
    fn setting(&mut self, text: &str) -> bool {
        const NAMES: &str = "min_free_kbytes watermark_scale_factor watermark_boost_factor percpu_pagelist_high_fraction \
             percpu_pagelist_fraction extfrag_threshold compaction_proactiveness zone_reclaim_mode \
             extra_free_kbytes";
        let Some((name, value)) = text.split_once(['=', ':', ' ']) else { return false };
        let name = name.trim().rsplit(['.', '/']).next().unwrap_or("");
        let value = value.trim().trim_start_matches(['=', ':']).trim();
        match (NAMES.split(' ').any(|known| known == name), digits(value)) {
            (true, Some(value)) => self.settings.insert(name.to_owned(), value),
            _ => return false,
        };
        true
    }

    /// Takes a line of vmstat such as `nr_free_pages 497162`. Zoneinfo has such lines too, so it comes first.
    pub(crate) fn counter(&mut self, text: &str) -> bool {
        const BEGINS: &str = "allocstall compact_ pg kswapd_ thp_ oom_kill nr_ numa_ workingset_ zone_reclaim drop_ unevictable_ \
             htlb_ swap_ slabs_ balloon_ pageoutrun kcompact swpin swpout";
        let mut words = text.split_ascii_whitespace();
        let (Some(name), Some(value), None) = (words.next(), words.next(), words.next()) else { return false };
        let is_counter = BEGINS.split(' ').any(|begin| name.starts_with(begin))
            && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit());
        let Some(value) = digits(value).filter(|_| is_counter && self.vmstat.len() < 10_000) else { return false };
        self.vmstat.insert(name.to_owned(), value);
        true
    }
}

/// A number with three decimals. Kernels before 4.17 print numbers below 0 as `0.-500`.
fn fixed(text: &str) -> Option<f64> {
    match text.split_once(".-") {
        Some((_, thousandths)) => Some(-(digits(thousandths)? as f64) / 1000.0),
        None => text.parse::<f64>().ok().filter(|value| value.is_finite()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_told_apart() {
        let mut rows = Rows::default();
        for line in [
            "Node 1, zone   Normal 426212 143208  42644",
            "Page block order: 9",
            "Free pages count per migrate type at order       0      1",
            "Node    0, zone      DMA, type    Unmovable      1      0",
            "Node    0, zone      DMA, type      Movable      >100000      3",
            "Number of blocks type     Unmovable      Movable",
            "Node 0, zone      DMA            1            7",
            "Node 0, zone   Normal -1.000 0.-500 0.937",
            "Node 0, zone   Normal 0.000 0.120 0.937",
            "vm.min_free_kbytes = 67584",
            "/proc/sys/vm/watermark_scale_factor:10",
            "allocstall_normal 12",
        ] {
            assert!(rows.line(line) || rows.counter(line), "{line}");
        }
        let mut drgn = Rows::default();
        assert!(drgn.line("Node 0   DMA32  6  5  7  4  6  6  6  4  8  5  275"));
        assert_eq!((&drgn.buddyinfo[0].0, drgn.buddyinfo[0].1[10]), (&(0, "DMA32".to_owned()), 275));
        assert_eq!(rows.buddyinfo, [((1, "Normal".to_owned()), vec![426_212, 143_208, 42_644])]);
        assert_eq!(rows.types.len(), 2);
        assert_eq!(rows.types[1].2, [100_000, 3]);
        assert_eq!(rows.unusable, [((0, "Normal".to_owned()), vec![0.0, 0.12, 0.937])]);
        assert_eq!(rows.extfrag, [((0, "Normal".to_owned()), vec![-1.0, -0.5, 0.937])]);
        assert_eq!((rows.settings["min_free_kbytes"], rows.settings["watermark_scale_factor"]), (67_584, 10));
        assert_eq!(rows.vmstat["allocstall_normal"], 12);
        for line in ["Node 0, zone   Normal", "$ cat /proc/buddyinfo", "nr_free_pages 7", "Node x, zone DMA 1"] {
            assert!(!rows.line(line), "{line}");
        }
    }
}
