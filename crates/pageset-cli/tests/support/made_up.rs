//! A made-up machine of any size, for tests and pictures of the screen. The same look has the same numbers in every run.

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::fmt::Write as _;
use std::time::Duration;

use pageset_fleet::look::{Look, When};
use pageset_fleet::view::View;
use pageset_record::live::sites::PAGES_APART;
use pageset_record::live::times::bucket;
use pageset_record::live::{Process, Processes, Site, Sites, Traffic, Wait, WaitTimes, Waits};
use pageset_report::error::{Exit, Failure};
use pageset_trace::procfs::{BuddyInfo, Zoneinfo};

/// The time of the first look: 2026-11-24 20:00:00 UTC. Unit: seconds since 1970.
const BEGIN_S: u64 = 1_795_550_400;
/// Pages of a node: 64 GiB.
const NODE_PAGES: u64 = 16 << 20;

/// CPUs and nodes: `192x2`, or `2` for one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    cpus: u32,
    nodes: u32,
}

impl Size {
    pub(crate) fn of(text: &str) -> Size {
        let (cpus, nodes) = text.split_once('x').unwrap_or((text, "1"));
        Size { cpus: cpus.parse().unwrap(), nodes: nodes.parse().unwrap() }
    }
}

/// Some looks at a machine, one a second, as `top --json` writes them.
#[allow(dead_code, reason = "tests of the screen take looks one by one")]
pub(crate) fn json(size: &str, looks: usize) -> String {
    let mut machine = MadeUp::new(Size::of(size), Duration::from_secs(1));
    let mut before = None;
    let mut text = String::new();
    for _ in 0..looks {
        let look = machine.look().unwrap_or_else(|_| panic!("no look at {size}"));
        text += &serde_json::to_string(&View::new(&look, before.as_ref())).unwrap();
        text.push('\n');
        before = Some(look);
    }
    text
}

/// The machine.
pub(crate) struct MadeUp {
    size: Size,
    look: u64,
    interval: Duration,
    totals: Vec<Traffic>,
    times: WaitTimes,
}

impl MadeUp {
    pub(crate) fn new(size: Size, interval: Duration) -> MadeUp {
        let totals = (0..size.cpus).map(|cpu| Traffic { cpu, waits: Some(Waits::default()), ..Traffic::default() });
        MadeUp { size, look: 0, interval, totals: totals.collect(), times: WaitTimes::default() }
    }

    /// The next look.
    pub(crate) fn look(&mut self) -> Result<Look, Failure> {
        let seconds = self.interval.as_secs_f64();
        for cpu in 0..self.size.cpus {
            let (refills, drains) = (self.refills(cpu), self.drains(cpu));
            let waits = refills.max(drains) / 63.0 * if self.is_stream(cpu) { 0.9 } else { 0.02 };
            let longer = if self.is_stream(cpu) { 7 } else { 1 };
            let total = &mut self.totals[cpu as usize];
            total.refill_pages += (refills * seconds) as u64;
            total.drain_pages += (drains * seconds) as u64;
            total.fallbacks += (refills / 50_000.0 * seconds) as u64;
            let Some(paths) = &mut total.waits else { continue };
            let paths = [&mut paths.refill, &mut paths.drain, &mut paths.direct_alloc, &mut paths.direct_free];
            for (place, path) in paths.into_iter().enumerate() {
                let share = [refills, drains, refills / 40.0, drains / 60.0][place] / (refills + drains).max(1.0);
                let count = (waits * share * seconds) as u64;
                let ns = [5200, 9400, 2100, 1700][place] * longer + 400 * u64::from(cpu % 7);
                *path = Wait { times: path.times + count, ns: path.ns + count * ns };
                for (part, times) in [(1, 6), (3, 3), (9, 1)] {
                    self.times.0[place][bucket(ns * part / 2)] += count * times / 10;
                }
            }
        }
        let zoneinfo = Zoneinfo::parse(&self.zoneinfo())
            .map_err(|error| Failure::new(Exit::Failed, format!("the made-up machine is wrong: {error}")))?;
        let sum = |of: fn(&Traffic) -> u64| self.totals.iter().map(of).sum::<u64>();
        let (refilled, drained) = (sum(|t| t.refill_pages), sum(|t| t.drain_pages));
        let vmstat = [("pgalloc_normal", refilled * 3), ("pgfree", drained * 3), ("pgfault", refilled * 2)];
        let since = self.interval * u32::try_from(self.look).unwrap_or(u32::MAX);
        let look = Look {
            source: format!("made up, {} CPUs", self.size.cpus),
            when: Some(When { unix_ns: u64::try_from((Duration::from_secs(BEGIN_S) + since).as_nanos()).ok(), since }),
            buddyinfo: BuddyInfo::parse(&free_blocks(&zoneinfo)).ok(),
            zoneinfo,
            vmstat: vmstat.map(|(name, value)| (name.to_owned(), value)).into_iter().collect::<BTreeMap<_, _>>(),
            release: Some("6.18.0".to_owned()),
            version: None,
            high_fraction: Some(0),
            counted: true,
            counts_holds: false,
            traffic: Some(self.totals.clone()),
            wait_times: Some(self.times.clone()),
            processes: Some(self.processes(seconds)),
            sites: Some(self.sites(seconds)),
            cpu_nodes: (0..self.size.cpus).map(|cpu| self.node(cpu)).collect(),
            caches: Vec::new(),
            batch_scale_max: None,
            missing: Vec::new(),
        };
        self.look += 1;
        Ok(look)
    }

    /// A process on each busy CPU; the ends of a stream between CPUs have names of their own.
    fn processes(&self, seconds: f64) -> Processes {
        let busy = (0..self.size.cpus).filter(|cpu| !self.is_idle(*cpu));
        let process = |cpu: u32| {
            let name = match (self.is_stream(cpu), cpu % 2) {
                (true, 0) => "sender",
                (true, _) => "receiver",
                (false, _) => ["cc1plus", "postgres", "nginx", "java", "rustc"][cpu as usize % 5],
            };
            let (refill_pages, drain_pages) =
                ((self.refills(cpu) * seconds) as u64, (self.drains(cpu) * seconds) as u64);
            let wait_ns = refill_pages.max(drain_pages) / 63 * if self.is_stream(cpu) { 40_000 } else { 130 };
            Process { pid: 2000 + 37 * cpu, name: name.to_owned(), refill_pages, drain_pages, wait_ns: Some(wait_ns) }
        };
        Processes { all: busy.map(process).collect(), lost_pages: 0, lost_wait_ns: 0 }
    }

    /// Page faults and messages, with as many pages as the CPUs move.
    fn sites(&self, seconds: f64) -> Sites {
        let sum = |stream: bool, of: fn(&MadeUp, u32) -> f64| {
            let cpus = (0..self.size.cpus).filter(|cpu| self.is_stream(*cpu) == stream);
            (cpus.map(|cpu| of(self, cpu)).sum::<f64>() * seconds) as u64
        };
        let site = |(function, caller, stream, refill_pc, drain_pc): (&str, &str, bool, u64, u64)| {
            let refill_pages = sum(stream, MadeUp::refills) * refill_pc / 100;
            let drain_pages = sum(stream, MadeUp::drains) * drain_pc / 100;
            let (pages, apart) = (refill_pages + drain_pages, u64::from(PAGES_APART));
            let times = pages / 63;
            let wait = Wait { times, ns: times * if stream { 40_000 } else { 130 } };
            Site {
                function: function.to_owned(),
                caller: caller.to_owned(),
                refill_pages,
                drain_pages,
                samples: pages.div_ceil(apart),
                wait: Some(wait),
            }
        };
        let all = [
            ("do_anonymous_page", "__handle_mm_fault", false, 71, 0),
            ("__filemap_get_folio", "ext4_da_write_begin", false, 20, 0),
            ("pte_alloc_one", "do_fault", false, 9, 0),
            ("unmap_page_range", "unmap_vmas", false, 0, 83),
            ("exit_mmap", "__mmput", false, 0, 17),
            ("alloc_skb_with_frags", "sock_alloc_send_pskb", true, 100, 0),
            ("skb_release_data", "consume_skb", true, 0, 100),
        ];
        let all = all.map(site).into_iter().filter(|site| site.samples > 0).collect();
        Sites { all, lost_pages: 0, lost_wait_ns: 0 }
    }

    fn node(&self, cpu: u32) -> u32 {
        // As many CPUs on each node as possible, in order.
        (u64::from(cpu) * u64::from(self.size.nodes) / u64::from(self.size.cpus)) as u32
    }

    /// A wave between 0 and 1 that differs between CPUs.
    fn wave(&self, cpu: u32, looks: f64) -> f64 {
        let phase = f64::from(cpu.wrapping_mul(2_654_435_761) >> 16) / 65_536.0;
        let slow = (TAU * (self.look as f64 / looks + phase)).sin() * 0.5 + 0.5;
        let fast = (TAU * (self.look as f64 / (looks / 7.3) + phase * 5.0)).sin() * 0.5 + 0.5;
        (0.8 * slow + 0.2 * fast).clamp(0.0, 1.0)
    }

    /// Whether the CPU is one end of a stream between CPUs.
    fn is_stream(&self, cpu: u32) -> bool {
        self.size.cpus > 8 && cpu % 96 / 2 == 9
    }

    /// Every 90 looks, one CPU refills far more than usual.
    fn burst(&self, cpu: u32) -> f64 {
        let in_burst = cpu == self.size.cpus * 2 / 3 && (60..75).contains(&(self.look % 90));
        if in_burst { 90_000.0 } else { 0.0 }
    }

    fn refills(&self, cpu: u32) -> f64 {
        match cpu {
            _ if self.is_stream(cpu) => {
                if cpu.is_multiple_of(2) {
                    70_000.0 * (0.6 + 0.4 * self.wave(cpu, 40.0))
                } else {
                    40.0
                }
            }
            _ if self.is_idle(cpu) => 0.0,
            _ => 6000.0 * self.wave(cpu, 50.0) + self.burst(cpu),
        }
    }

    fn drains(&self, cpu: u32) -> f64 {
        match cpu {
            _ if self.is_stream(cpu) => {
                if cpu.is_multiple_of(2) {
                    30.0
                } else {
                    70_000.0 * (0.6 + 0.4 * self.wave(cpu - 1, 40.0))
                }
            }
            _ if self.is_idle(cpu) => 0.0,
            _ => 5500.0 * self.wave(cpu.wrapping_add(3), 60.0),
        }
    }

    fn is_idle(&self, cpu: u32) -> bool {
        cpu % 16 > 11
    }

    /// As the kernel prints it.
    fn zoneinfo(&self) -> String {
        let mut text = String::new();
        for node in 0..self.size.nodes {
            let zones = [("DMA", 3840), ("DMA32", 442_000), ("Normal", NODE_PAGES - 445_840)];
            let zones = if node == 0 { &zones[..] } else { &[("Normal", NODE_PAGES)] };
            for &(zone, managed) in zones {
                self.zone(&mut text, node, zone, managed);
            }
        }
        text
    }

    fn zone(&self, text: &mut String, node: u32, zone: &str, managed: u64) {
        let min = managed / 800 + 2;
        let (low, high) = (min * 5 / 4, min * 3 / 2);
        // The last node's memory becomes short now and then.
        let share = if zone == "Normal" && node + 1 == self.size.nodes {
            0.0014 + 0.0025 * (TAU * self.look as f64 / 130.0).cos().mul_add(0.5, 0.5)
        } else {
            0.18 + 0.3 * self.wave(node + 77, 300.0)
        };
        let free = if managed < 10_000 { managed * 9 / 10 } else { (managed as f64 * share) as u64 };
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "Node {node}, zone {zone:>8}\n  pages free     {free}\n        boost    0\n        min      {min}\n        \
             low      {low}\n        high     {high}\n        spanned  {managed}\n        present  {managed}\n        \
             managed  {managed}\n        cma      0\n        protection: (0, 0, 0)\n  pagesets\n"
        );
        let share = self.size.cpus.div_ceil(self.size.nodes).max(1);
        let most = managed / 8 / u64::from(share);
        for cpu in 0..self.size.cpus {
            let (high_min, high_max) = ((most / 200).max(252), most.max(252));
            let near = self.node(cpu) == node && zone == "Normal";
            let wave = if self.is_idle(cpu) { 0.0 } else { self.wave(cpu, 80.0) };
            let high = if near { high_min + (wave * 9000.0) as u64 } else { high_min };
            let fill = if self.is_stream(cpu) { 1.0 } else { 0.35 + 0.6 * self.wave(cpu + 1, 30.0) };
            let count = match (near, self.is_idle(cpu), zone) {
                (true, false, _) => (high as f64 * fill) as u64,
                (true, true, _) => u64::from(cpu % 5) * 7,
                (false, false, "DMA32") => u64::from(cpu % 63),
                _ => 0,
            };
            let (count, high) = if managed < 10_000 { (0, 0) } else { (count, high.min(high_max)) };
            let _ = write!(
                text,
                "    cpu: {cpu}\n              count:    {count}\n              high:     {high}\n              \
                 batch:    63\n              high_min: {high_min}\n              high_max: {high_max}\n"
            );
        }
        let start = if zone == "DMA" { 1 } else { u64::from(node) * NODE_PAGES + managed };
        let _ = write!(text, "  node_unreclaimable:  0\n  start_pfn:           {start}\n");
    }
}

/// Free blocks that add up to each zone's free pages, most of them in the largest, as the kernel prints them.
fn free_blocks(zoneinfo: &Zoneinfo) -> String {
    let mut text = String::new();
    for zone in &zoneinfo.zones {
        let mut left = zone.free;
        let mut blocks: Vec<String> = Vec::new();
        for order in (0..=10_u32).rev() {
            let share =
                [left, left * 4 / 5, left / 3][if order == 0 { 0 } else { 1 + usize::from(order < 10) }] >> order;
            left -= share << order;
            blocks.push(share.to_string());
        }
        blocks.reverse();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "Node {}, zone {} {}", zone.node, zone.name, blocks.join(" "));
    }
    text
}
