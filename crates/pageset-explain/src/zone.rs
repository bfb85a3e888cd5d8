//! Zones as the diagnosis needs them: all amounts in pages, whatever the text prints.

use pageset_trace::number::grouped;
use pageset_trace::procfs::{PartialPageset, PartialZone};

use crate::read::mem_info::{LogZone, Report};
use crate::read::request::ZONES;

/// How a text prints amounts; sentences print them in the same way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    /// Pages: zoneinfo, buddyinfo.
    Pages,
    /// KiB: logs. The number is the KiB in a page.
    Kib(u64),
}

impl Unit {
    /// `1,655 pages`, `13,312 kB`.
    pub(crate) fn text(self, pages: u64) -> String {
        match self {
            Unit::Pages if pages == 1 => "1 page".to_owned(),
            Unit::Pages => format!("{} pages", grouped(pages)),
            Unit::Kib(kib) => format!("{} kB", grouped(pages.saturating_mul(kib))),
        }
    }
}

/// Free blocks of one order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Blocks {
    pub(crate) count: u64,
    /// The letters of the types that have blocks: U, M, E, C, H, I; empty if the text has none.
    pub(crate) types: String,
}

/// A zone. Unit of all amounts: pages.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Zone {
    pub(crate) node: Option<u32>,
    /// Empty if the text is cut before it.
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) free: Option<u64>,
    pub(crate) boost: Option<u64>,
    pub(crate) min: Option<u64>,
    pub(crate) low: Option<u64>,
    pub(crate) high: Option<u64>,
    pub(crate) present: Option<u64>,
    pub(crate) managed: Option<u64>,
    /// By the highest zone of a request.
    pub(crate) reserve: Vec<u64>,
    pub(crate) free_cma: u64,
    pub(crate) high_atomic: u64,
    /// In the lists of all CPUs.
    pub(crate) held: Option<u64>,
    /// In the lists of the CPU that printed the text.
    pub(crate) held_here: Option<u64>,
    pub(crate) pagesets: Vec<PartialPageset>,
    /// By order.
    pub(crate) blocks: Vec<Blocks>,
    pub(crate) all_unreclaimable: bool,
}

impl Zone {
    /// A zone of which nothing is known yet.
    pub(crate) fn new(node: Option<u32>, name: &str, unit: Unit) -> Zone {
        Zone {
            node,
            name: name.to_owned(),
            unit,
            free: None,
            boost: None,
            min: None,
            low: None,
            high: None,
            present: None,
            managed: None,
            reserve: Vec::new(),
            free_cma: 0,
            high_atomic: 0,
            held: None,
            held_here: None,
            pagesets: Vec::new(),
            blocks: Vec::new(),
            all_unreclaimable: false,
        }
    }

    /// A zone of a log. Amounts there are in KiB, but the reserve and the old lists of CPUs are in pages.
    pub(crate) fn of_log(zone: &LogZone, page_kib: u64) -> Zone {
        let pages = |name: &str| zone.kib(name).map(|kib| kib / page_kib);
        let sets = zone.pagesets.iter().map(|set| PartialPageset {
            cpu: set.cpu,
            count: Some(set.count),
            high: Some(set.high),
            batch: Some(set.batch),
            ..PartialPageset::default()
        });
        let pagesets: Vec<PartialPageset> = sets.collect();
        let listed = pagesets.iter().filter_map(|set| set.count).reduce(u64::saturating_add);
        let high_atomic = match pages("free_highatomic") {
            // 6.14 on prints what is free of the reserve.
            Some(free) => free,
            None => pages("reserved_highatomic").unwrap_or(0),
        };
        let blocks = zone.blocks.iter().map(|blocks| Blocks { count: blocks.count, types: blocks.types.clone() });
        Zone {
            free: pages("free"),
            boost: pages("boost"),
            min: pages("min"),
            low: pages("low"),
            high: pages("high"),
            present: pages("present"),
            managed: pages("managed"),
            reserve: zone.reserve.clone(),
            free_cma: pages("free_cma").unwrap_or(0),
            high_atomic,
            held: pages("free_pcp").or(listed),
            held_here: pages("local_pcp"),
            pagesets,
            blocks: blocks.collect(),
            all_unreclaimable: zone.all_unreclaimable,
            ..Zone::new(zone.node, &zone.name, Unit::Kib(page_kib))
        }
    }

    pub(crate) fn of_zoneinfo(zone: &PartialZone) -> Zone {
        let (node, name) = zone.name.clone().map_or((None, String::new()), |(node, name)| (Some(node), name));
        let counter = |name: &str| zone.counters.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
        Zone {
            free: zone.free.or(counter("nr_free_pages")),
            boost: zone.boost,
            min: zone.min,
            low: zone.low,
            high: zone.high,
            present: zone.present,
            managed: zone.managed,
            reserve: zone.protection.clone(),
            free_cma: counter("nr_free_cma").unwrap_or(0),
            held: zone.pagesets.iter().filter_map(|set| set.count).reduce(u64::saturating_add),
            pagesets: zone.pagesets.clone(),
            all_unreclaimable: counter("all_unreclaimable") == Some(1),
            ..Zone::new(node, &name, Unit::Pages)
        }
    }

    /// The zones of a report, and the KiB of a page with whether the log shows it.
    pub(crate) fn all_of(report: &Report) -> (Vec<Zone>, u64, bool) {
        let shown = report.page_kib();
        let page_kib = shown.unwrap_or(4);
        let zones = report.zones.iter().filter(|zone| zone.kib("free").is_some() || !zone.blocks.is_empty());
        let mut zones: Vec<Zone> = zones.map(|zone| Zone::of_log(zone, page_kib)).collect();
        // Its pages decide which columns lowmem_reserve has.
        if report.has_high_mem && !zones.iter().any(|zone| zone.name == "HighMem" || zone.name == "Movable") {
            zones.push(Zone::new(zones.last().and_then(|zone| zone.node), "HighMem", Unit::Kib(page_kib)));
        }
        (zones, page_kib, shown.is_some())
    }

    /// `node 0 Normal`.
    pub(crate) fn title(&self) -> String {
        match (self.node, self.name.as_str()) {
            (Some(node), "") => format!("a zone of node {node}"),
            (None, "") => "a zone whose name the text lacks".to_owned(),
            (Some(node), name) => format!("node {node} {name}"),
            (None, name) => format!("zone {name}"),
        }
    }

    /// `1,655 pages`, `13,312 kB`.
    pub(crate) fn amount(&self, pages: u64) -> String {
        self.unit.text(pages)
    }

    /// The place among the kinds of zones, from the lowest.
    pub(crate) fn place(&self) -> Option<usize> {
        ZONES.iter().position(|name| *name == self.name)
    }

    /// Pages of the zone, as exactly as the text has them.
    pub(crate) fn size(&self) -> u64 {
        self.managed.or(self.present).unwrap_or(0)
    }

    /// Whether the zone has pages. Zoneinfo prints also those without.
    pub(crate) fn has_pages(&self) -> bool {
        self.managed.or(self.present) != Some(0) || self.free.unwrap_or(0) > 0
    }

    /// Free pages by order, for the index of fragmentation.
    pub(crate) fn counts(&self) -> Vec<u64> {
        self.blocks.iter().map(|blocks| blocks.count).collect()
    }

    /// The pages in its free blocks.
    pub(crate) fn in_blocks(&self) -> u64 {
        let pages = |(order, blocks): (usize, &Blocks)| blocks.count.saturating_mul(1 << order.min(40));
        self.blocks.iter().enumerate().map(pages).fold(0, u64::saturating_add)
    }

    /// The highest order that has a free block.
    pub(crate) fn largest(&self) -> Option<usize> {
        self.blocks.iter().rposition(|blocks| blocks.count > 0)
    }
}
