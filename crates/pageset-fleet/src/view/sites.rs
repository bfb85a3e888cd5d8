//! Which parts of the kernel move pages, and how long they wait for zone locks.

use pageset_record::live::Sites;
use pageset_record::live::sites::SITES_MAX;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::movers::{Lost, Mover, sorted, sum};
use pageset_trace::number::grouped;

/// What a call site moved since the previous look. Pages are estimated from samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SiteTraffic {
    /// The first function in the kernel's call chain outside the page allocator, slabs and references to pages: what
    /// wants or returns the pages. Programs in the kernel read the call chain of a sample (as root).
    #[schemars(extend("heading" = "call site", "tables" = "movers"))]
    pub function: String,
    /// The function that called the call site.
    #[schemars(extend("heading" = "called by", "tables" = "movers"))]
    pub caller: String,
    /// Pages that refills took from the zones at the call site since the previous look, estimated from samples.
    #[schemars(extend("heading" = "pages in/s", "tables" = "movers", "as" = "pages in/s"))]
    pub pages_in: u64,
    /// Pages that drains returned to the zones at the call site since the previous look, estimated from samples.
    #[schemars(extend("heading" = "pages out/s", "tables" = "movers", "as" = "pages out/s"))]
    pub pages_out: u64,
    /// The number of call chains from which a call site's pages are estimated: about one in 4,096 pages of a CPU. With
    /// a hundred samples, a share is uncertain by a tenth of itself, with few by half of itself or more.
    #[schemars(extend("tables" = "movers", "bad" = "Few: the estimate is rough.", "todo" = "Look less often (--interval)."))]
    pub page_samples: u64,
    /// The time for which all CPUs waited for zone locks at the call site since the previous look; null if waits are
    /// not measured. Unit: nanoseconds.
    #[schemars(extend("heading" = "zone-lock wait ms/s", "tables" = "movers", "as" = "zone-lock wait ms/s"))]
    pub zone_lock_wait_ns: Option<u64>,
    /// The number of waits for zone locks of a call site since the previous look. Each wait is a sample; null if waits
    /// are not measured.
    pub zone_lock_wait_samples: Option<u64>,
}

impl Mover for SiteTraffic {
    fn pages_in(&self) -> u64 {
        self.pages_in
    }

    fn pages_out(&self) -> u64 {
        self.pages_out
    }

    fn wait_ns(&self) -> Option<u64> {
        self.zone_lock_wait_ns
    }

    fn name(&self) -> (u32, &str, &str) {
        (0, &self.function, &self.caller)
    }

    fn add(&mut self, other: &Self) {
        self.pages_in = self.pages_in.saturating_add(other.pages_in);
        self.pages_out = self.pages_out.saturating_add(other.pages_out);
        self.page_samples = self.page_samples.saturating_add(other.page_samples);
        self.zone_lock_wait_ns = sum(self.zone_lock_wait_ns, other.zone_lock_wait_ns);
        self.zone_lock_wait_samples = sum(self.zone_lock_wait_samples, other.zone_lock_wait_samples);
    }
}

/// The call sites, the most pages first. Adds to `missing` what belongs to none of them.
pub(crate) fn sites(now: &Sites, missing: &mut Vec<String>) -> Vec<SiteTraffic> {
    let most = format!("{} call chains", grouped(SITES_MAX.into()));
    Lost::note(now.lost_pages, now.lost_wait_ns, "call site", &most, missing);
    let site = |site: &pageset_record::live::Site| SiteTraffic {
        function: site.function.clone(),
        caller: site.caller.clone(),
        pages_in: site.refill_pages,
        pages_out: site.drain_pages,
        page_samples: site.samples,
        zone_lock_wait_ns: site.wait.map(|wait| wait.ns),
        zone_lock_wait_samples: site.wait.map(|wait| wait.times),
    };
    sorted(&now.all.iter().map(site).collect::<Vec<_>>())
}
