//! Patterns of page traffic that explain why pagesets serve a load well or badly, from one pass over a recording.

use std::collections::HashMap;

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::TraceError;
use crate::event::{Context, Event, Kind};
use crate::replay::Recorded;
use crate::replay::blocks::PageMap;
use crate::replay::gfp::is_for_socket;
use crate::trace::Trace;

/// The smallest number of consecutive freed pages that are a burst: more than the largest single drain, 63 << 5. Unit:
/// pages.
/// Specification: `linux-page-allocator.md` 9.
const BURST_PAGES: u64 = 2016;
/// The smallest share of the traffic for which a pattern is named, in percent. A guess: a smaller share does not
/// dominate a load.
pub(super) const NAMED_FROM_PCT: f64 = 20.0;
/// The smallest share of all cached pages that a hoarding CPU holds, in percent. Its share of the traffic must be less
/// than half of that. A guess.
const HOARD_PCT: f64 = 60.0;

/// The measured patterns. Units: pages, and shares in percent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Patterns {
    /// Freed pages whose allocation is also in the recording.
    #[schemars(extend("bad" = "Few: the patterns describe a small part of the traffic.",
        "todo" = "Record for longer."))]
    pub followed_pages: u64,
    /// The share of the followed pages that were freed on another CPU than they were allocated on. Unit: percent.
    #[schemars(extend("as" = "the pattern travelling-pages"))]
    pub travelling_pct: f64,
    /// Frees of 2016 pages or more in a row on one CPU by one process, without an allocation in between.
    #[schemars(extend("as" = "the pattern exit-bursts"))]
    pub bursts: u64,
    /// The share of all freed pages that bursts freed. Unit: percent.
    #[schemars(extend("as" = "the pattern exit-bursts"))]
    pub burst_pct: f64,
    /// The longest burst. Unit: pages.
    #[schemars(extend("as" = "the pattern exit-bursts"))]
    pub burst_pages_max: u64,
    /// The share of all allocated and freed pages that are in blocks of orders 1 to 3. Unit: percent.
    #[schemars(extend("as" = "the pattern high-order-churn"))]
    pub high_order_pct: f64,
    /// Blocks of orders 1 to 3 that the kernel drained.
    #[schemars(extend("as" = "high-order drains/s"))]
    pub high_order_drains: u64,
    /// Allocated blocks that are as large as a huge page, or larger.
    #[serde(default)]
    pub huge_page_allocs: u64,
    /// The share of all allocated pages that are in blocks of order 3 with the flags of sockets' buffers: those that
    /// `net.core.high_order_alloc_disable` replaces by single pages. Unit: percent.
    #[serde(default)]
    pub socket_blocks_pct: f64,
    /// A CPU that holds most of the pages in pagesets and makes little of the traffic; null if there is none.
    #[schemars(extend("as" = "the pattern hoarding-cpu"))]
    pub hoarder: Option<Hoarder>,
}

/// A hoarding CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hoarder {
    /// The CPU.
    pub cpu: u32,
    /// The CPU's average share of all cached pages, over the snapshots.
    pub held_pct: f64,
    /// A hoarding CPU's share of all allocated and freed pages. Unit: percent.
    pub traffic_pct: f64,
}

/// A pattern that dominates the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Named {
    /// The name for `pageset explain`.
    pub name: String,
    /// The measurement, in a sentence.
    pub seen: String,
}

/// Consecutive frees on one CPU of pages that were allocated before the first free. A stream that frees pages as they
/// arrive is no burst.
#[derive(Clone, Copy)]
struct Row {
    pid: u32,
    pages: u64,
    /// The event of the first free.
    begin: u64,
}

#[derive(Default)]
struct Pass {
    events: u64,
    /// The CPU and the event of each page's allocation.
    allocated: PageMap<Option<(u32, u64)>>,
    rows: FxHashMap<u32, Row>,
    /// Pages allocated and freed, by CPU.
    traffic: FxHashMap<u32, u64>,
    freed: u64,
    travelled: u64,
    in_bursts: u64,
    high_order: u64,
    allocated_pages: u64,
    /// Pages in blocks of order 3 with the flags of sockets' buffers.
    socket_pages: u64,
    huge_order: u8,
    found: Patterns,
}

impl Pass {
    fn event(&mut self, event: &Event) {
        let cpu = event.cpu.0;
        self.events += 1;
        match event.kind {
            Kind::Alloc { pfn: Some(pfn), order, gfp, .. } => {
                self.moved(cpu, order.pages(), order.get());
                self.allocated_pages += order.pages();
                self.socket_pages += if order.get() == 3 && is_for_socket(gfp) { 8 } else { 0 };
                self.allocated.set(pfn, Some((cpu, self.events)));
                self.found.huge_page_allocs += u64::from(order.get() >= self.huge_order);
                self.end_row(cpu);
            }
            Kind::Free { pfn, order } => {
                let pages = order.pages();
                self.moved(cpu, pages, order.get());
                self.freed += pages;
                let allocated = self.allocated.take(pfn);
                if let Some((from, _)) = allocated {
                    self.found.followed_pages += pages;
                    self.travelled += if from == cpu { 0 } else { pages };
                }
                // Frees of interrupts belong to no process.
                if event.context == Context::Process {
                    let of_row = |row: &Row| row.pid == event.pid && allocated.is_none_or(|(_, at)| at < row.begin);
                    if self.rows.get(&cpu).is_some_and(|row| !of_row(row)) {
                        self.end_row(cpu);
                    }
                    let begin = self.events;
                    let row = self.rows.entry(cpu).or_insert(Row { pid: event.pid, pages: 0, begin });
                    row.pages += pages;
                }
            }
            Kind::Drain { order, .. } if (1..=3).contains(&order.get()) => self.found.high_order_drains += 1,
            _ => {}
        }
    }

    fn moved(&mut self, cpu: u32, pages: u64, order: u8) {
        *self.traffic.entry(cpu).or_default() += pages;
        self.high_order += if (1..=3).contains(&order) { pages } else { 0 };
    }

    fn end_row(&mut self, cpu: u32) {
        let Some(row) = self.rows.remove(&cpu) else { return };
        if row.pages >= BURST_PAGES {
            self.found.bursts += 1;
            self.in_bursts += row.pages;
            self.found.burst_pages_max = self.found.burst_pages_max.max(row.pages);
        }
    }

    fn finish(mut self, held: &HashMap<u32, u64>) -> Patterns {
        for cpu in self.rows.keys().copied().collect::<Vec<_>>() {
            self.end_row(cpu);
        }
        let all: u64 = self.traffic.values().sum();
        let mut found = self.found;
        found.travelling_pct = pct(self.travelled, found.followed_pages);
        found.burst_pct = pct(self.in_bursts, self.freed);
        found.high_order_pct = pct(self.high_order, all);
        found.socket_blocks_pct = pct(self.socket_pages, self.allocated_pages);
        let of_all = |cpu: &u32| self.traffic.get(cpu).copied().unwrap_or(0);
        let sum: u64 = held.values().sum();
        found.hoarder = held.iter().max_by_key(|(cpu, pages)| (**pages, **cpu)).and_then(|(cpu, pages)| {
            let (held_pct, traffic_pct) = (pct(*pages, sum), pct(of_all(cpu), all));
            let hoards = held.len() > 1 && held_pct >= HOARD_PCT && 2.0 * traffic_pct < held_pct;
            hoards.then_some(Hoarder { cpu: *cpu, held_pct, traffic_pct })
        });
        found
    }
}

fn pct(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { 100.0 * part as f64 / of as f64 }
}

impl Patterns {
    /// Reads a recording and measures its patterns.
    pub(super) fn find(trace: &Trace, recorded: Recorded<'_>) -> Result<Patterns, TraceError> {
        let mut pass = Pass { huge_order: trace.facts().pageblock_order, ..Pass::default() };
        for event in recorded.events()? {
            pass.event(&event?);
        }
        let mut held = HashMap::<u32, u64>::new();
        for (_, info) in &trace.snapshots().zoneinfo {
            for set in info.zones.iter().flat_map(|zone| &zone.pagesets) {
                *held.entry(set.cpu).or_default() += set.count;
            }
        }
        Ok(pass.finish(&held))
    }

    /// The patterns that dominate the load.
    pub(super) fn named(&self) -> Vec<Named> {
        let mut named = Vec::new();
        let mut name = |name: &str, seen| named.push(Named { name: name.to_owned(), seen });
        if self.travelling_pct >= NAMED_FROM_PCT {
            let seen = format!(
                "{:.0} % of the pages are freed on another CPU than they were allocated on",
                self.travelling_pct
            );
            name(TRAVELLING, seen);
        }
        if self.burst_pct >= NAMED_FROM_PCT {
            let seen = format!(
                "{:.0} % of the pages are freed in bursts: {} of them, the longest of {} pages",
                self.burst_pct, self.bursts, self.burst_pages_max
            );
            name(BURSTS, seen);
        }
        if self.high_order_pct >= NAMED_FROM_PCT {
            let seen = format!(
                "{:.0} % of the pages are in blocks of orders 1 to 3, and {} such blocks were drained",
                self.high_order_pct, self.high_order_drains
            );
            name(CHURN, seen);
        }
        if let Some(hoarder) = &self.hoarder {
            let seen = format!(
                "CPU {} holds {:.0} % of all cached pages and does {:.0} % of the traffic",
                hoarder.cpu, hoarder.held_pct, hoarder.traffic_pct
            );
            name(HOARDER, seen);
        }
        named
    }
}

const TRAVELLING: &str = "travelling-pages";
const BURSTS: &str = "exit-bursts";
const CHURN: &str = "high-order-churn";
const HOARDER: &str = "hoarding-cpu";

/// The names of all patterns.
pub const NAMES: [&str; 4] = [TRAVELLING, BURSTS, CHURN, HOARDER];

#[cfg(test)]
mod tests {
    use pageset::{CpuId, Order, Pfn};

    use super::*;

    fn feed(pass: &mut Pass, cpu: u32, pid: u32, kind: Kind) {
        pass.event(&Event { time_ns: 0, cpu: CpuId(cpu), pid, context: Context::Process, kind });
    }

    fn alloc(pass: &mut Pass, cpu: u32, pid: u32, pfn: u64, order: Order) {
        feed(pass, cpu, pid, Kind::Alloc { pfn: Some(Pfn(pfn)), order, migratetype: 1, gfp: 0 });
    }

    fn free(pass: &mut Pass, cpu: u32, pid: u32, pfn: u64, order: Order) {
        feed(pass, cpu, pid, Kind::Free { pfn: Pfn(pfn), order });
    }

    #[test]
    fn pages_freed_on_another_cpu_travel() {
        let mut pass = Pass::default();
        for pfn in 0..10 {
            alloc(&mut pass, 0, 1, pfn, Order::ZERO);
        }
        for pfn in 0..10 {
            free(&mut pass, u32::from(pfn < 7), 1, pfn, Order::ZERO);
        }
        // A page without a recorded allocation does not count.
        free(&mut pass, 1, 1, 99, Order::ZERO);
        let found = pass.finish(&HashMap::new());
        assert_eq!((found.followed_pages, found.travelling_pct, found.bursts), (10, 70.0, 0));
        assert_eq!(found.named().len(), 1);
    }

    #[test]
    fn bursts_end_at_an_allocation_and_at_another_process() {
        for (breaks, bursts) in [(0, 1), (1, 0), (2, 0)] {
            let mut pass = Pass::default();
            for pfn in 0..BURST_PAGES {
                if pfn == 1000 && breaks == 1 {
                    alloc(&mut pass, 0, 1, 1 << 20, Order::ZERO);
                }
                // Frees on another CPU do not matter.
                free(&mut pass, 1, 3, 1 << 21, Order::ZERO);
                free(&mut pass, 0, if breaks == 2 && pfn > 1000 { 2 } else { 1 }, pfn, Order::ZERO);
            }
            alloc(&mut pass, 1, 3, 1 << 22, Order::ZERO);
            let found = pass.finish(&HashMap::new());
            // CPU 1 has a row of the same length.
            assert_eq!(found.bursts, bursts + 1, "{breaks}");
            assert_eq!(found.burst_pages_max, BURST_PAGES);
        }
    }

    #[test]
    fn a_stream_is_no_burst() {
        let mut pass = Pass::default();
        for pfn in 0..2 * BURST_PAGES {
            alloc(&mut pass, 0, 1, pfn, Order::ZERO);
            free(&mut pass, 1, 2, pfn, Order::ZERO);
        }
        let found = pass.finish(&HashMap::new());
        assert_eq!((found.bursts, found.travelling_pct), (0, 100.0));
    }

    #[test]
    fn blocks_of_high_orders() {
        let mut pass = Pass { huge_order: 9, ..Pass::default() };
        let order = |order: u8| Order::all().nth(order.into()).unwrap();
        alloc(&mut pass, 0, 1, 0, order(3));
        alloc(&mut pass, 0, 1, 8, order(0));
        alloc(&mut pass, 0, 1, 512, order(9));
        feed(&mut pass, 0, 1, Kind::Drain { pfn: Pfn(0), order: order(3), migratetype: 1 });
        feed(&mut pass, 0, 1, Kind::Drain { pfn: Pfn(8), order: order(0), migratetype: 1 });
        let found = pass.finish(&HashMap::new());
        assert_eq!((found.high_order_pct, found.high_order_drains, found.huge_page_allocs), (pct(8, 521), 1, 1));
    }

    #[test]
    fn blocks_of_sockets() {
        let mut pass = Pass::default();
        let order = |order: u8| Order::all().nth(order.into()).unwrap();
        for (order, gfp) in [(order(3), 0x5_28c0), (order(3), 0x5_2cc0), (order(2), 0x5_28c0), (order(0), 0xcc0)] {
            feed(&mut pass, 0, 1, Kind::Alloc { pfn: Some(Pfn(64)), order, migratetype: 0, gfp });
        }
        assert_eq!(pass.finish(&HashMap::new()).socket_blocks_pct, pct(8, 21));
    }

    #[test]
    fn a_hoarding_cpu_holds_pages_without_traffic() {
        let found = |held: [u64; 2], traffic: [u64; 2]| {
            let pass = Pass { traffic: (0..).zip(traffic).collect(), ..Pass::default() };
            pass.finish(&(0..).zip(held).collect()).hoarder.map(|hoarder| hoarder.cpu)
        };
        assert_eq!(found([900, 100], [10, 90]), Some(0));
        assert_eq!(found([100, 900], [90, 10]), Some(1));
        assert_eq!(found([900, 100], [90, 10]), None, "it uses what it holds");
        assert_eq!(found([500, 500], [10, 90]), None, "it holds no more than the other");
        assert_eq!(found([0, 0], [0, 0]), None);
    }
}
