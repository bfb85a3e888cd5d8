//! One look: the kernel's texts of this machine or of a saved file, parsed but not interpreted.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pageset_record::live::{
    Counters, Detail, Processes, Sites, Traffic, WaitTimes, batch_scale_max, caches, cpu_nodes, online_cpus,
};
use pageset_trace::CpuCache;
use pageset_trace::procfs::{BuddyInfo, ZoneSection, Zoneinfo};

use pageset_report::error::{Exit, Failure};

use crate::largest::extra_pages;

/// The values at one moment.
pub struct Look {
    /// `live`, or the file's name.
    pub source: String,
    /// The time of the look, if known.
    pub when: Option<When>,
    /// `/proc/zoneinfo`.
    pub zoneinfo: Zoneinfo,
    /// Free blocks by order, if they are known.
    pub buddyinfo: Option<BuddyInfo>,
    /// The counters of `/proc/vmstat` by name; empty if it is not readable.
    pub vmstat: BTreeMap<String, u64>,
    /// `uname -r`.
    pub release: Option<String>,
    /// `uname -v`.
    pub version: Option<String>,
    /// `vm.percpu_pagelist_high_fraction`.
    pub high_fraction: Option<u32>,
    /// Whether refills and drains are counted.
    pub counted: bool,
    /// Whether holds of zone locks are counted with the traffic.
    pub counts_holds: bool,
    /// What each CPU has moved since counting began, if it is counted.
    pub traffic: Option<Vec<Traffic>>,
    /// The durations of waits for zone locks, if they are measured.
    pub wait_times: Option<WaitTimes>,
    /// What processes moved since the previous look, if it is counted.
    pub processes: Option<Processes>,
    /// What call sites moved since the previous look, if it is counted.
    pub sites: Option<Sites>,
    /// The memory node of each CPU, by CPU number; empty if unknown.
    pub cpu_nodes: Vec<u32>,
    /// The last-level cache of each CPU that has one.
    pub caches: Vec<CpuCache>,
    /// The kernel's `CONFIG_PCP_BATCH_SCALE_MAX`, if it is known.
    pub batch_scale_max: Option<u8>,
    /// The unavailable values, each with the reason.
    pub missing: Vec<String>,
}

impl Look {
    /// The free blocks of a zone by order, if they are known.
    pub fn free_blocks(&self, of: &ZoneSection) -> Option<Vec<u64>> {
        let zones = &self.buddyinfo.as_ref()?.zones;
        let zone = zones.iter().find(|zone| (zone.node, &zone.zone) == (of.node, &of.name))?;
        Some(zone.free_blocks.clone())
    }
}

/// A moment by both clocks: the wall clock for output, the monotonic clock for rates.
#[derive(Clone, Copy)]
pub struct When {
    /// Since 1970, if known.
    pub unix_ns: Option<u64>,
    /// Since any fixed moment.
    pub since: Duration,
}

/// Paths of the kernel's texts.
const ZONEINFO: &str = "/proc/zoneinfo";
const BUDDYINFO: &str = "/proc/buddyinfo";
const VMSTAT: &str = "/proc/vmstat";
const RELEASE: &str = "/proc/sys/kernel/osrelease";
const VERSION: &str = "/proc/sys/kernel/version";
const HIGH_FRACTION: &str = "/proc/sys/vm/percpu_pagelist_high_fraction";

/// Why waits of 0 are not a measurement.
const NO_WAIT_SEEN: &str = "waits for zone locks are not measured so far: this kernel has shown no wait for any spin lock; on 2 CPUs it may never show one";

/// Whether refills and drains are counted.
#[derive(Clone, Copy)]
pub enum Counting {
    /// They are not.
    Off,
    /// They are, of each CPU, process and call site, if the kernel allows it.
    All,
    /// They are, of each CPU only, if the kernel allows it.
    OnlyCpus,
}

/// Looks at this machine repeatedly.
pub struct Machine {
    counters: Option<Counters>,
    /// Why refills and drains are not counted.
    not_counted: Option<String>,
    begin: Instant,
    looks: u64,
    /// The CPUs that are on-line, their nodes and caches: read again when a CPU comes or goes.
    cpus: Vec<u32>,
    cpu_nodes: Vec<u32>,
    caches: Vec<CpuCache>,
    batch_scale_max: Option<u8>,
}

impl Machine {
    /// Starts counting if `counting` requests it and the kernel allows it.
    pub fn new(counting: Counting) -> Self {
        let machine = |counters, not_counted| Machine {
            counters,
            not_counted,
            begin: Instant::now(),
            looks: 0,
            cpus: Vec::new(),
            cpu_nodes: Vec::new(),
            caches: Vec::new(),
            batch_scale_max: batch_scale_max(),
        };
        let detail = match counting {
            Counting::Off => return machine(None, None),
            Counting::All => Detail::Movers,
            Counting::OnlyCpus => Detail::Cpus,
        };
        // Without zoneinfo, no list is larger.
        let text = fs::read_to_string(ZONEINFO).unwrap_or_default();
        let extra = Zoneinfo::parse(&text).map_or(0, |zoneinfo| extra_pages(&zoneinfo.zones, &cpu_nodes()));
        match Counters::start(detail, extra) {
            Ok(counters) => machine(Some(counters), None),
            Err(error) => {
                let help = error.help().map(|help| format!("; {help}")).unwrap_or_default();
                machine(None, Some(format!("refills and drains are not counted: {error}{help}")))
            }
        }
    }

    /// Takes a look.
    ///
    /// # Errors
    /// `/proc/zoneinfo` is not readable or not parsable.
    pub fn look(&mut self) -> Result<Look, Failure> {
        let text = fs::read_to_string(ZONEINFO).map_err(|error| {
            Failure::new(Exit::Missing, format!("cannot read {ZONEINFO}: {error}"))
                .help("mount /proc; in a container, use a /proc that shows zoneinfo")
        })?;
        let zoneinfo = Zoneinfo::parse(&text)
            .map_err(|error| Failure::new(Exit::Missing, format!("cannot parse {ZONEINFO} of this kernel: {error}")))?;
        // The time belongs to the counters of zoneinfo, which are read first.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let when = When { unix_ns: u64::try_from(since.as_nanos()).ok(), since: self.begin.elapsed() };
        let mut missing: Vec<String> = self.not_counted.iter().cloned().collect();
        let cpus = online_cpus();
        if cpus != self.cpus {
            (self.cpu_nodes, self.caches, self.cpus) = (cpu_nodes(), caches(&cpus), cpus);
        }
        let is_first = self.looks == 0;
        self.looks += 1;
        let mut traffic = match self.counters.as_mut().map(Counters::read) {
            Some(Ok(traffic)) => Some(traffic),
            Some(Err(error)) => {
                missing.push(format!("refills and drains are not counted: {error}"));
                None
            }
            None => None,
        };
        missing.extend(self.counters.iter().flat_map(Counters::missing).cloned());
        let hides = self.counters.as_ref().is_some_and(Counters::may_hide_waits);
        if hides {
            traffic.iter_mut().flatten().for_each(|cpu| cpu.waits = None);
            // Nothing is known at the first look.
            missing.extend((!is_first).then(|| NO_WAIT_SEEN.to_owned()));
        }
        let vmstat = match fs::read_to_string(VMSTAT) {
            Ok(text) => numbers(&text),
            Err(error) => {
                missing.push(format!("cannot read {VMSTAT}: {error}"));
                BTreeMap::new()
            }
        };
        let high_fraction = fs::read_to_string(HIGH_FRACTION).ok().and_then(|text| text.trim().parse().ok());
        if high_fraction.is_none() {
            missing.push("cannot read vm.percpu_pagelist_high_fraction (kernels from 5.14 on have it)".to_owned());
        }
        Ok(Look {
            source: "live".to_owned(),
            when: Some(when),
            zoneinfo,
            buddyinfo: fs::read_to_string(BUDDYINFO).ok().and_then(|text| BuddyInfo::parse(&text).ok()),
            vmstat,
            release: fs::read_to_string(RELEASE).ok().map(|text| text.trim().to_owned()),
            version: fs::read_to_string(VERSION).ok().map(|text| text.trim().to_owned()),
            high_fraction,
            wait_times: self
                .counters
                .as_ref()
                .filter(|_| traffic.is_some() && !hides)
                .and_then(Counters::wait_times)
                .cloned(),
            processes: self.counters.as_ref().filter(|_| traffic.is_some()).and_then(Counters::processes).cloned(),
            sites: self.counters.as_ref().filter(|_| traffic.is_some()).and_then(Counters::sites).cloned(),
            cpu_nodes: self.cpu_nodes.clone(),
            caches: self.caches.clone(),
            batch_scale_max: self.batch_scale_max,
            counted: traffic.is_some(),
            counts_holds: true,
            traffic,
            missing,
        })
    }
}

/// The look of a saved `/proc/zoneinfo`.
///
/// # Errors
/// The file is not readable, or is not a copy of `/proc/zoneinfo`.
pub fn saved(path: &Path) -> Result<Look, Failure> {
    let name = path.display();
    let bytes =
        fs::read(path).map_err(|error| Failure::new(Exit::Unreadable, format!("cannot read {name}: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|_| {
        Failure::new(Exit::Damaged, format!("{name}: this is no text")).help("use copies of /proc/zoneinfo")
    })?;
    let zoneinfo = Zoneinfo::parse(&text).map_err(|error| {
        Failure::new(Exit::Damaged, format!("{name}: {error}")).help("use copies of /proc/zoneinfo")
    })?;
    Ok(Look {
        source: name.to_string(),
        when: None,
        zoneinfo,
        buddyinfo: None,
        vmstat: BTreeMap::new(),
        release: None,
        version: None,
        high_fraction: None,
        counted: false,
        counts_holds: false,
        traffic: None,
        wait_times: None,
        processes: None,
        sites: None,
        cpu_nodes: Vec::new(),
        caches: Vec::new(),
        batch_scale_max: None,
        missing: Vec::new(),
    })
}

/// Parses lines of the form `name value`.
fn numbers(text: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}
