//! Probes of the recorder at functions for which the kernel has no tracepoint.
//!
//! If the kernel does not allow a probe, the recording lacks its events. A replay then infers or ignores them.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::btf;
use crate::error::RecordError;
use crate::owner::Owner;
use crate::symbols::Symbols;
use crate::tracefs::Tracefs;
use pageset_trace::tracepoint::decode::{
    BULK_BEGIN, BULK_END, CPU_OFFLINE, CPU_ONLINE, PAGESETS_OFF, PAGESETS_ON, RECLAIM_ENDED, ZONE_COUNTER,
};

/// Probes that are useful only together.
#[derive(Debug)]
struct Source {
    probes: &'static [Probe],
    /// The consequence of their absence, for probes that every recording needs.
    without: Option<&'static str>,
}

impl Source {
    /// Whether the source is of counters of zones, of which only those of other nodes are recorded.
    fn is_of_counters(&self) -> bool {
        self.probes[0].event == ZONE_COUNTER[0]
    }
}

/// One probe at a function.
#[derive(Debug)]
struct Probe {
    /// `p` for the call, `r` for the return. `r512` has room for 512 simultaneous calls, each by a process that waits
    /// for memory (a guess). More calls are not recorded.
    kind: &'static str,
    event: &'static str,
    /// The names of the function in different kernels.
    functions: &'static [&'static str],
    /// The recorded values of the call.
    values: &'static str,
}

impl Probe {
    const fn new(
        kind: &'static str,
        event: &'static str,
        functions: &'static [&'static str],
        values: &'static str,
    ) -> Self {
        Probe { kind, event, functions, values }
    }
}

/// The first name is used from Linux 6.10 on; kernels before 5.13 have none. The first, second and fourth arguments are
/// the flags, the preferred node and the number of pages.
const BULK: &[&str] = &["alloc_pages_bulk_noprof", "__alloc_pages_bulk"];

/// The first page of the zone that is the first argument, at [`START_OFFSET`] in it; the counter, and its change.
const ZONE_CHANGE: &str = "start=+START_OFFSET($arg1):u64 counter=$arg2:u8 change=$arg3:s64";
/// Stands for the offset of a zone's first page in bytes, which the kernel's type information tells.
const START_OFFSET: &str = "START_OFFSET";

const SOURCES: [Source; 6] = [
    Source {
        probes: &[
            Probe::new("p", BULK_BEGIN, BULK, "gfp=$arg1:x32 node=$arg2:s32 asked=$arg4:u32"),
            Probe::new("r512", BULK_END, BULK, "got=$retval:u32"),
        ],
        without: Some("bulk allocations are not recorded, a replay infers them from later events"),
    },
    // kswapd balances a node in rounds; reclaim is active until the function returns.
    Source { probes: &[Probe::new("r", RECLAIM_ENDED, &["balance_pgdat"], "")], without: None },
    Source { probes: &[Probe::new("p", CPU_OFFLINE, &["page_alloc_cpu_dead"], "cpu=$arg1:u32")], without: None },
    // Exists from Linux 5.14 on.
    Source { probes: &[Probe::new("p", CPU_ONLINE, &["page_alloc_cpu_online"], "cpu=$arg1:u32")], without: None },
    // Memory hot-plug. The event names the zone by its first page, which needs the kernel's type information (BTF, from
    // 6.7 on).
    Source {
        probes: &[
            Probe::new("p", PAGESETS_OFF, &["zone_pcp_disable"], "start=zone->zone_start_pfn:u64"),
            Probe::new("p", PAGESETS_ON, &["zone_pcp_enable"], "start=zone->zone_start_pfn:u64"),
        ],
        without: None,
    },
    // The counters of zones, whose changes delay the drains of other nodes' idle pages. The filter keeps only those of other nodes.
    Source {
        probes: &[
            Probe::new("p", ZONE_COUNTER[0], &["__mod_zone_page_state"], ZONE_CHANGE),
            Probe::new("p", ZONE_COUNTER[1], &["mod_zone_page_state"], ZONE_CHANGE),
        ],
        without: None,
    },
];

/// The prefix of the groups of these probes; the owner follows.
const PREFIX: &str = "pageset_";

/// The probes that are set. Dropping them removes them; the instances that enable them must be gone by then.
#[derive(Debug)]
pub(super) struct Probes {
    file: PathBuf,
    group: String,
    /// Each set source and the function of its first probe.
    set: Vec<(&'static Source, &'static str)>,
    /// The filter that keeps only the counters of other nodes' zones; `None` on a machine with one node.
    remote: Option<String>,
    /// Whether another process removes them.
    handed_over: bool,
}

impl Probes {
    /// Sets the probes that the kernel allows. `remote` is the filter of [`crate::remote`]. `warn` receives the consequence of each missing probe that every
    /// recording needs.
    ///
    /// # Errors
    /// The error of `check`, which is called between the steps.
    pub(super) fn create(
        tracefs: &Tracefs,
        known: &Symbols,
        remote: Option<String>,
        warn: &mut dyn FnMut(&str),
        check: &mut dyn FnMut() -> Result<(), RecordError>,
    ) -> Result<Probes, RecordError> {
        let file = kprobe_events(tracefs);
        let group = format!("{PREFIX}{}", Owner::this().name('_'));
        let mut probes = Probes { file, group, set: Vec::new(), remote, handed_over: false };
        let has_probes = probes.file.exists();
        let start = probes.remote.is_some().then(start_offset).flatten();
        for source in &SOURCES {
            check()?;
            let has = |probe: &Probe| probe.functions.iter().any(|function| known.has(function));
            let why = if !has_probes {
                "the kernel has no probes (CONFIG_KPROBE_EVENTS)".to_owned()
            } else if known.is_empty() {
                "the kernel does not tell the names of its functions (CONFIG_KALLSYMS)".to_owned()
            } else if !source.probes.iter().all(has) {
                // This release lacks the function or does it differently.
                continue;
            } else if source.is_of_counters() && probes.remote.is_none() {
                continue;
            } else {
                match probes.add(source, known, start) {
                    Ok(()) => continue,
                    Err(error) => format!("{} cannot be probed ({error})", source.probes[0].functions.join(" or ")),
                }
            };
            if let Some(without) = source.without {
                warn(&format!("{why}: {without}"));
            }
        }
        Ok(probes)
    }

    /// The functions that probes need.
    pub(super) fn functions() -> impl Iterator<Item = &'static str> {
        SOURCES.iter().flat_map(|source| source.probes).flat_map(|probe| probe.functions).copied()
    }

    /// Leaves the removal to another process.
    pub(super) fn hand_over(&mut self) {
        self.handed_over = true;
    }

    /// The other process failed: the probes are removed when this is dropped.
    pub(super) fn take_back(&mut self) {
        self.handed_over = false;
    }

    /// `kprobe_events`.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Sets all probes of a source, or none. `start` is the offset of a zone's first page in the zone, if the kernel tells it.
    fn add(&mut self, source: &'static Source, known: &Symbols, start: Option<u32>) -> io::Result<()> {
        let of_zones = source.probes.iter().any(|probe| probe.values.contains(START_OFFSET));
        if of_zones && start.is_none() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let offset = start.unwrap_or_default().to_string();
        let function =
            |probe: &Probe| probe.functions.iter().copied().find(|function| known.has(function)).unwrap_or_default();
        let define = |probe: &Probe| {
            let Probe { kind, event, values, .. } = probe;
            let values = values.replace(START_OFFSET, &offset);
            append(&self.file, &format!("{kind}:{}/{event} {} {values}", self.group, function(probe)))
        };
        let set = source.probes.iter().try_for_each(define);
        match set {
            Ok(()) => self.set.push((source, function(&source.probes[0]))),
            // Some probes of the source may have been set.
            Err(_) => source.probes.iter().for_each(|probe| {
                let _ = append(&self.file, &format!("-:{}/{}", self.group, probe.event));
            }),
        }
        set
    }

    /// The set sources: the name in [`Facts::sources`](pageset_trace::Facts::sources), the events, the filter of the events, and the
    /// consequence of their absence.
    pub(super) fn sources(
        &self,
    ) -> impl Iterator<Item = (String, impl Iterator<Item = &'static str>, Option<&str>, Option<&'static str>)> {
        self.set.iter().map(|(source, function)| {
            let filter = self.remote.as_deref().filter(|_| source.is_of_counters());
            (format!("kprobe:{function}"), source.probes.iter().map(|probe| probe.event), filter, source.without)
        })
    }

    /// The folder of the probes' events below `events`.
    pub(super) fn group(&self) -> &str {
        &self.group
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        if !self.set.is_empty() && !self.handed_over {
            // A drop cannot report an error. The next command removes the remaining probes.
            let _ = remove(&self.file, &self.group);
        }
    }
}

/// Groups of probes whose owner has ended.
pub(super) fn stale(tracefs: &Tracefs) -> Vec<String> {
    let listed = fs::read_to_string(kprobe_events(tracefs)).unwrap_or_default();
    let mut groups: Vec<String> = groups(&listed).map(str::to_owned).collect();
    groups.dedup();
    groups.retain(|group| {
        let owner = group.strip_prefix(PREFIX).and_then(|name| Owner::parse(name, '_'));
        owner.is_some_and(|(owner, _)| !owner.is_alive())
    });
    groups
}

/// Removes the probes of a group that [`stale`] found.
pub(super) fn remove_stale(tracefs: &Tracefs, group: &str) -> io::Result<()> {
    remove(&kprobe_events(tracefs), group)
}

fn start_offset() -> Option<u32> {
    btf::offset_of(&fs::read(btf::KERNEL).ok()?, "zone", "zone_start_pfn")
}

fn kprobe_events(tracefs: &Tracefs) -> PathBuf {
    tracefs.path("kprobe_events")
}

pub(super) fn remove(file: &Path, group: &str) -> io::Result<()> {
    // Try all probes, because some may never have been set.
    let probes = SOURCES.iter().flat_map(|source| source.probes);
    let results = probes.map(|probe| append(file, &format!("-:{group}/{}", probe.event))).collect::<Vec<_>>();
    let listed = fs::read_to_string(file).unwrap_or_default();
    if groups(&listed).any(|left| left == group) { results.into_iter().collect() } else { Ok(()) }
}

/// Appends a line to `kprobe_events`. Opening the file without append removes the probes of all users.
fn append(file: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new().append(true).open(file)?.write_all(format!("{line}\n").as_bytes())
}

/// This program's groups in the text of `kprobe_events`: `p:GROUP/EVENT FUNCTION ARGS`, `r512:GROUP/EVENT …`.
fn groups(listed: &str) -> impl Iterator<Item = &str> {
    listed.lines().filter_map(|line| {
        let (_, name) = line.split_once(':')?;
        let (group, _) = name.split_once('/')?;
        group.starts_with(PREFIX).then_some(group)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_other_programs_are_ignored() {
        let listed = "p:kprobes/p_do_sys_open_0 do_sys_open\np:pageset_7_99/bulk_begin __alloc_pages_bulk gfp=$arg1:x32\n\
                      r512:pageset_7_99/bulk_end __alloc_pages_bulk got=$retval:u32\nr:pagesets/x y\nnonsense\n";
        assert_eq!(groups(listed).collect::<Vec<_>>(), ["pageset_7_99"; 2]);
        let group = format!("{PREFIX}{}", Owner::this().name('_'));
        // The kernel allows letters, digits and underscores, and 64 bytes.
        assert!(group.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && group.len() < 64);
    }

    #[test]
    fn all_probes_of_a_source_are_set_or_none() {
        let file = std::env::temp_dir().join(format!("pageset-sources-{}", std::process::id()));
        fs::write(&file, "").unwrap();
        let mut probes = Probes {
            file: file.clone(),
            group: "pageset_1_2".into(),
            set: Vec::new(),
            remote: None,
            handed_over: false,
        };
        let known = Symbols::of(&["__alloc_pages_bulk", "balance_pgdat"]);
        probes.add(&SOURCES[0], &known, None).unwrap();
        let set = "p:pageset_1_2/bulk_begin __alloc_pages_bulk gfp=$arg1:x32 node=$arg2:s32 asked=$arg4:u32\n\
                   r512:pageset_1_2/bulk_end __alloc_pages_bulk got=$retval:u32\n";
        assert_eq!(fs::read_to_string(&file).unwrap(), set);
        fs::remove_file(&file).unwrap();
        // Without the file no probe can be set.
        assert!(probes.add(&SOURCES[1], &known, None).is_err());
        let names: Vec<String> = probes.sources().map(|(name, ..)| name).collect();
        assert_eq!(names, ["kprobe:__alloc_pages_bulk"]);
    }

    #[test]
    fn probes_of_counters_take_the_place_of_a_zones_first_page() {
        let file = std::env::temp_dir().join(format!("pageset-counters-{}", std::process::id()));
        fs::write(&file, "").unwrap();
        let (group, remote) = ("pageset_1_2".into(), Some("counter!=0".into()));
        let mut probes = Probes { file: file.clone(), group, set: Vec::new(), remote, handed_over: false };
        let known = Symbols::of(&["__mod_zone_page_state", "mod_zone_page_state"]);
        let counters = SOURCES.iter().find(|source| source.is_of_counters()).unwrap();
        assert!(probes.add(counters, &known, None).is_err(), "without type information");
        assert_eq!(fs::read_to_string(&file).unwrap(), "");
        probes.add(counters, &known, Some(144)).unwrap();
        let set = "p:pageset_1_2/zone_counter __mod_zone_page_state start=+144($arg1):u64 counter=$arg2:u8 change=$arg3:s64\n\
                   p:pageset_1_2/zone_counter_irq_safe mod_zone_page_state start=+144($arg1):u64 counter=$arg2:u8 change=$arg3:s64\n";
        assert_eq!(fs::read_to_string(&file).unwrap(), set);
        let filters: Vec<_> = probes.sources().map(|(name, _, filter, _)| (name, filter.map(str::to_owned))).collect();
        assert_eq!(filters, [("kprobe:__mod_zone_page_state".to_owned(), Some("counter!=0".to_owned()))]);
        fs::remove_file(&file).unwrap();
    }

    #[test]
    fn remove_appends_to_the_file() {
        let file = std::env::temp_dir().join(format!("pageset-probes-{}", std::process::id()));
        fs::write(&file, "p:other/x y\n").unwrap();
        remove(&file, "pageset_1_2").unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("p:other/x y\n-:pageset_1_2/bulk_begin\n-:pageset_1_2/bulk_end\n-:"), "{text}");
        assert_eq!(text.lines().count(), 1 + SOURCES.iter().map(|source| source.probes.len()).sum::<usize>());
        fs::remove_file(&file).unwrap();
    }
}
