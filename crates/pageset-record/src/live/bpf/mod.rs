//! Counts by BPF programs that the kernel runs at its tracepoints. Each program adds to the words of its CPU.
//!
//! | module | contents |
//! | --- | --- |
//! | `sys` | the system call |
//! | `code` | instructions, and an assembler of programs |
//! | `table` | the part of the programs that adds words to a table |
//! | `by_hold` | the part of the programs that tells holds of zone locks apart |
//! | `by_site` | the part of the programs that samples call chains |
//! | `by_process` | the part of the programs that adds to the current process |
//! | `programs` | the program of each tracepoint |
//!
//! The kernel keeps programs and counters only while this process has them open.

mod by_hold;
mod by_process;
mod by_site;
mod code;
mod programs;
#[allow(unsafe_code, reason = "the lowest module, with numbered reasons at each block")]
mod sys;
mod table;

use std::fs;
use std::io;

use self::by_process::{LOST, OF_PROCESS, PROCESS_KEY};
use self::by_site::{CHAIN_ENTRIES, OF_SITE};
use self::programs::{DRAINS, FALLBACKS, Maps, Path, REFILLS};
use self::sys::{Attached, Map, Table, attach};
use self::table::Of;
use super::holds::Sums;
use super::kallsyms::Symbols;
use super::processes::{PROCESSES_MAX, Process, Processes};
use super::sites::{SITES_MAX, Sites, sites};
use super::{Detail, ORDERS, Traffic, WaitTimes, Waits};
use crate::error::RecordError;
use crate::machine::{cpu_list, online_cpus};

/// The number of CPUs if the kernel does not report its possible CPUs: the limit on x86-64.
const CPUS_MAX: u32 = 8192;

/// The kernel's counters of every CPU, and the programs that add to them. Dropping it ends the counting.
pub struct Counters {
    map: Map,
    waits: bool,
    /// Whether the kernel may wait for spin locks without events, because none has been seen so far.
    may_hide_waits: bool,
    /// Of the last read.
    times: Box<WaitTimes>,
    holds: Sums,
    table: Option<Table<PROCESS_KEY, OF_PROCESS>>,
    /// Between the last two reads; `None` if processes are not counted.
    processes: Option<Processes>,
    /// The words from [`LOST`] on of all CPUs, at the last read.
    lost: [u64; OF_PROCESS],
    /// `None` if call sites are not counted.
    symbols: Option<Symbols>,
    sites: Option<SitesTable>,
    _programs: Vec<Attached>,
    missing: Vec<String>,
}

impl std::fmt::Debug for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counters").field("missing", &self.missing).finish_non_exhaustive()
    }
}

/// The table of call sites, and what was read from it.
struct SitesTable {
    table: Table<CHAIN_ENTRIES, OF_SITE>,
    /// Between the last two reads.
    sites: Sites,
    /// What belongs to no call site on all CPUs, at the last read.
    lost: [u64; 3],
}

fn possible_cpus() -> u32 {
    let list = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    cpu_list(&list).into_iter().max().map_or(CPUS_MAX, |last| last.saturating_add(1)).min(CPUS_MAX)
}

fn refused(what: &str) -> impl Fn(io::Error) -> RecordError {
    move |error| match error.kind() {
        io::ErrorKind::PermissionDenied => RecordError::Missing {
            what: "no permission for programs in the kernel (bpf)".to_owned(),
            help: "run as root, or with CAP_BPF and CAP_PERFMON; before Linux 5.11 also after `ulimit -l unlimited`"
                .to_owned(),
        },
        _ => RecordError::Missing {
            what: format!("the kernel refuses {what} (bpf): {error}"),
            help: "a kernel built with CONFIG_BPF_SYSCALL=y and CONFIG_BPF_EVENTS=y takes it".to_owned(),
        },
    }
}

impl Counters {
    /// Begins to count on all CPUs. `extra` is the number of pages by which the largest lists hold more than the present ones.
    ///
    /// # Errors
    /// If the kernel refuses the programs or has no page events.
    pub fn start(detail: Detail, extra: u64) -> Result<Counters, RecordError> {
        let map = Map::new(possible_cpus()).map_err(refused("counters"))?;
        let may_hide_waits = online_cpus().len() > 1;
        let mut missing = Vec::new();
        let of_movers = detail == Detail::Movers;
        let table = match of_movers.then(|| new_table(PROCESSES_MAX)).transpose() {
            Ok(table) => table,
            Err(error) => {
                missing.push(format!("processes are not counted: {}", refused("a table of processes")(error)));
                None
            }
        };
        let symbols = Symbols::read();
        let sites = match (&symbols, of_movers.then(|| new_table(SITES_MAX)).transpose()) {
            (_, Ok(None)) => None,
            (Ok(_), Ok(Some(table))) => Some(SitesTable { table, sites: Sites::default(), lost: [0; 3] }),
            (Err(error), _) => {
                missing.push(format!("call sites are not counted: {error}"));
                None
            }
            (_, Err(error)) => {
                missing.push(format!("call sites are not counted: {}", refused("a table of call sites")(error)));
                None
            }
        };
        let fd = map.fd();
        let maps = Maps {
            cpus: fd,
            processes: table.as_ref().map(Table::fd),
            sites: sites.as_ref().map(|sites| sites.table.fd()),
            extra: i32::try_from(extra).unwrap_or(i32::MAX),
        };
        let mut programs = Vec::new();
        programs.push(
            attach(c"mm_page_alloc_zone_locked", &programs::by_order(maps, REFILLS, Of::RefillPages))
                .map_err(refused("to count refills"))?,
        );
        programs.push(
            attach(c"mm_page_pcpu_drain", &programs::by_order(maps, DRAINS, Of::DrainPages))
                .map_err(refused("to count drains"))?,
        );
        programs.push(
            attach(c"mm_page_alloc_extfrag", &programs::all(fd, FALLBACKS)).map_err(refused("to count fallbacks"))?,
        );
        let waits = match symbols
            .as_ref()
            .map_err(ToString::to_string)
            .and_then(|symbols| time_waits(maps, symbols).map_err(|error| error.to_string()))
        {
            Ok((timing, inlined)) => {
                programs.extend(timing);
                missing.extend(inlined);
                true
            }
            Err(error) => {
                missing.push(format!("waits for zone locks are not measured: {error}"));
                false
            }
        };
        let processes = table.as_ref().map(|_| Processes::default());
        let (times, lost) = (Box::default(), [0; OF_PROCESS]);
        let symbols = symbols.ok().filter(|_| sites.is_some());
        Ok(Counters {
            map,
            waits,
            may_hide_waits,
            times,
            holds: Sums::default(),
            table,
            processes,
            lost,
            symbols,
            sites,
            _programs: programs,
            missing,
        })
    }

    /// The counts that are missing, with their reasons.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// The traffic of each on-line CPU since counting began, sorted by CPU number.
    ///
    /// # Errors
    /// If the kernel's counters cannot be read.
    pub fn read(&mut self) -> Result<Vec<Traffic>, RecordError> {
        let mut times: Box<WaitTimes> = Box::default();
        let (mut lost, mut lost_of_sites) = ([0; OF_PROCESS], [0; 3]);
        let mut may_hide_waits = self.may_hide_waits;
        let mut gaps = Vec::new();
        let of_cpu = |cpu: u32| {
            let words = self.map.get(cpu).map_err(|source| RecordError::Io {
                what: format!("read what CPU {cpu} counted"),
                source,
                help: None,
            })?;
            may_hide_waits &= !programs::has_waited(&words);
            gaps.push((cpu, by_hold::gaps(&words)));
            let mut traffic = Traffic {
                cpu,
                fallbacks: words[FALLBACKS],
                passed_largest: by_hold::passed(&words),
                ..Traffic::default()
            };
            for order in ORDERS {
                traffic.refilled(order, words[REFILLS + order as usize]);
                traffic.drained(order, words[DRAINS + order as usize]);
            }
            traffic.waits = self.waits.then(|| Waits {
                refill: Path::Refill.wait(&words),
                drain: Path::Drain.wait(&words),
                direct_alloc: Path::DirectAlloc.wait(&words),
                direct_free: Path::DirectFree.wait(&words),
            });
            for (sum, path) in times.0.iter_mut().zip(Path::ALL) {
                sum.iter_mut().zip(path.times(&words)).for_each(|(sum, waits)| *sum += waits);
            }
            lost.iter_mut().zip(&words[LOST..]).for_each(|(sum, of_cpu)| *sum += of_cpu);
            lost_of_sites.iter_mut().zip(by_site::lost(&words)).for_each(|(sum, of_cpu)| *sum += of_cpu);
            Ok(traffic)
        };
        let mut traffic: Result<Vec<Traffic>, RecordError> = online_cpus().into_iter().map(of_cpu).collect();
        if let Ok(traffic) = &mut traffic {
            traffic.iter_mut().zip(self.holds.add(&gaps)).for_each(|(traffic, holds)| traffic.holds = holds);
        }
        (self.times, self.may_hide_waits) = (times, may_hide_waits);
        self.take_processes(lost)?;
        self.take_sites(lost_of_sites)?;
        traffic
    }

    /// Takes what the processes moved since the last call. `lost` is what belongs to none of them, since counting began.
    fn take_processes(&mut self, lost: [u64; OF_PROCESS]) -> Result<(), RecordError> {
        let Some(table) = &mut self.table else { return Ok(()) };
        let taken = table.take().map_err(|source| RecordError::Io {
            what: "read what processes moved".to_owned(),
            source,
            help: None,
        })?;
        // The words of a CPU that went off-line are not read.
        let since = |of: Of| lost[of as usize].saturating_sub(self.lost[of as usize]);
        self.processes = Some(Processes {
            all: taken.map(|(key, words)| process(key, words, self.waits)).collect(),
            lost_pages: since(Of::RefillPages) + since(Of::DrainPages),
            lost_wait_ns: since(Of::WaitNs),
        });
        self.lost = lost;
        Ok(())
    }

    /// Takes what the call sites moved since the last call. `lost` is what belongs to none of them, since counting began.
    fn take_sites(&mut self, lost: [u64; 3]) -> Result<(), RecordError> {
        let (Some(of_sites), Some(symbols)) = (&mut self.sites, &self.symbols) else { return Ok(()) };
        let taken = of_sites.table.take().map_err(|source| RecordError::Io {
            what: "read what call sites moved".to_owned(),
            source,
            help: None,
        })?;
        let of_chain =
            |(chain, words): ([u64; CHAIN_ENTRIES], [u64; OF_SITE])| (chain.to_vec(), by_site::samples(words));
        let since = |of: Of| lost[of as usize].saturating_sub(of_sites.lost[of as usize]);
        of_sites.sites = Sites {
            all: sites(taken.map(of_chain), symbols, self.waits),
            lost_pages: since(Of::RefillPages) + since(Of::DrainPages),
            lost_wait_ns: since(Of::WaitNs),
        };
        of_sites.lost = lost;
        Ok(())
    }

    /// Whether waits of 0 may not be true: with several CPUs, the kernel has shown no wait for any spin lock until the last [`Self::read`].
    /// It has events only of CPUs that queue for a lock, which on two CPUs without paravirtual locks none does. Measured: none under
    /// QEMU's emulation of 2 CPUs, on Linux 6.1, next to 5,000 holds a second of each CPU.
    pub fn may_hide_waits(&self) -> bool {
        self.waits && self.may_hide_waits
    }

    /// The call sites that moved pages or waited for a zone lock between the last two calls of [`Self::read`]; before the
    /// second call, since counting began. `None` if call sites are not counted.
    pub fn sites(&self) -> Option<&Sites> {
        self.sites.as_ref().map(|sites| &sites.sites)
    }

    /// The processes that moved pages or waited for a zone lock between the last two calls of [`Self::read`]; before the
    /// second call, since counting began. `None` if processes are not counted.
    pub fn processes(&self) -> Option<&Processes> {
        self.processes.as_ref()
    }

    /// The durations of all waits for zone locks until the last [`Self::read`]; `None` if waits are not measured.
    pub fn wait_times(&self) -> Option<&WaitTimes> {
        self.waits.then_some(&*self.times)
    }
}

/// A table, if the kernel can empty one.
fn new_table<const KEY: usize, const VALUE: usize>(elements: u32) -> io::Result<Table<KEY, VALUE>> {
    let mut table = Table::new(elements)?;
    table.take().map(drop)?;
    Ok(table)
}

/// A process of the table. `waits` says whether waits are measured.
fn process(key: [u64; PROCESS_KEY], words: [u64; OF_PROCESS], waits: bool) -> Process {
    let name: Vec<u8> = key[1..].iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    Process {
        // The key's first word is the upper half of the helper's result.
        pid: key[0] as u32,
        name: String::from_utf8_lossy(&name).into_owned(),
        refill_pages: words[Of::RefillPages as usize],
        drain_pages: words[Of::DrainPages as usize],
        wait_ns: waits.then_some(words[Of::WaitNs as usize]),
    }
}

/// Begins to time waits. Also returns the purposes that cannot be distinguished.
fn time_waits(maps: Maps, symbols: &Symbols) -> Result<(Vec<Attached>, Vec<String>), RecordError> {
    let no = |what: &str| RecordError::Unknown(format!("this kernel does not show {what}"));
    let locks = symbols.locks().ok_or_else(|| no("where its locks' code lies"))?;
    let (mut ranges, mut missing) = (Vec::new(), Vec::new());
    for path in Path::ALL {
        let before = ranges.len();
        let of_path = path.functions().iter().flat_map(|name| symbols.function(name));
        ranges.extend(of_path.map(|range| (path, range)));
        if ranges.len() == before {
            let names = path.functions().join(", ");
            missing.push(format!("waits of one kind are not measured: the kernel has none of the functions {names}"));
        }
    }
    let timing = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            no("events of waits for locks (lock:contention_begin and contention_end, there from 5.19 on)")
        }
        _ => refused("to time waits")(error),
    };
    let end = attach(c"contention_end", &programs::wait_ends(maps)).map_err(timing)?;
    let begin = attach(c"contention_begin", &programs::wait_begins(maps.cpus, &locks, &ranges)).map_err(timing)?;
    Ok((vec![end, begin], missing))
}
