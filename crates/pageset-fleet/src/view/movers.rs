//! What processes and call sites have in common: pages, and waits for zone locks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pageset_trace::number::grouped;

/// Moves pages and waits for zone locks.
pub trait Mover {
    /// Pages that came from zones.
    fn pages_in(&self) -> u64;
    /// Pages that went back to zones.
    fn pages_out(&self) -> u64;
    /// `None` if waits are not measured.
    fn wait_ns(&self) -> Option<u64>;
    /// Orders movers with equal pages and waits.
    fn name(&self) -> (u32, &str, &str);
    /// Adds what the same mover moved at another time.
    fn add(&mut self, other: &Self);
}

/// The sum of two numbers, if both are measured.
pub(crate) fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    Some(a?.saturating_add(b?))
}

/// What belongs to no listed process, or to no listed call site: the kernel keeps a limited number of them between two
/// looks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lost {
    /// Of `processes_lost` and `call_sites_lost`: the pages that refills and drains moved.
    #[schemars(extend("bad" = "0.", "todo" = "As processes_lost."))]
    pub pages: u64,
    /// The time of the waits that belong to none. Unit: nanoseconds; null if waits are not measured.
    #[schemars(extend("as" = "wait %"))]
    pub zone_lock_wait_ns: Option<u64>,
}

impl Lost {
    /// Says in `missing` what is lost, if anything is.
    pub(crate) fn note(pages: u64, wait_ns: u64, kind: &str, most: &str, missing: &mut Vec<String>) {
        if pages > 0 || wait_ns > 0 {
            missing.push(format!(
                "{} pages and {:.3} ms of waits since the previous look belong to no shown {kind}: more than {most} moved \
                 pages; look more often",
                grouped(pages),
                wait_ns as f64 / 1e6,
            ));
        }
    }

    pub(crate) fn new(pages: u64, wait_ns: u64, waits_measured: bool) -> Self {
        Lost { pages, zone_lock_wait_ns: waits_measured.then_some(wait_ns) }
    }
}

/// The sort key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// Pages in and out.
    Pages,
    /// Time of waits.
    Waits,
}

/// Sorts by a key, the largest first; movers with equal keys by the other key, then by name.
pub fn sort<T: Mover>(all: &mut [&T], by: By) {
    all.sort_by(|a, b| {
        let key = |of: &T| {
            let (pages, waits) = (of.pages_in().saturating_add(of.pages_out()), of.wait_ns().unwrap_or(0));
            if by == By::Pages { (pages, waits) } else { (waits, pages) }
        };
        key(b).cmp(&key(a)).then_with(|| a.name().cmp(&b.name()))
    });
}

/// The movers, the most pages first.
pub(crate) fn sorted<T: Mover + Clone>(all: &[T]) -> Vec<T> {
    let mut order: Vec<&T> = all.iter().collect();
    sort(&mut order, By::Pages);
    order.into_iter().cloned().collect()
}
