//! Tables of the whole machine: `/proc/meminfo`, free, vmstat, sar, numastat, slabtop, top and others. Their numbers, as far as the
//! answer needs them.

use super::histogram::Histograms;
use super::prefix::digits;

/// A kind of table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Table {
    /// `/proc/meminfo`.
    pub(crate) name: &'static str,
    /// What it shows instead of zones.
    pub(crate) shows: &'static str,
}

/// The tables by words that a line of each has.
pub(super) const TABLES: [(&[&str], Table); 23] = [
    (&["Active / Total Objects"], Table { name: "slabtop", shows: "slab caches" }),
    (&["slabinfo - version"], Table { name: "/proc/slabinfo", shows: "slab caches" }),
    (&[" : slabdata "], Table { name: "/proc/slabinfo", shows: "slab caches" }),
    (&["total", "used", "free", "shared"], Table { name: "free", shows: "memory of the whole machine" }),
    (&["procs", "memory", "swap", "cpu"], Table { name: "vmstat", shows: "rates of the whole machine" }),
    (&["swpd", "free", "si", "so"], Table { name: "vmstat", shows: "rates of the whole machine" }),
    (&["K total memory"], Table { name: "vmstat -s", shows: "memory of the whole machine" }),
    (&["top - ", "load average"], Table { name: "top", shows: "processes" }),
    (&["avg10=", "avg60=", "total="], Table { name: PRESSURE, shows: "how long tasks waited" }),
    (&["available:", "nodes ("], Table { name: "numactl --hardware", shows: "memory of each node" }),
    (&["Per-node", "memory"], Table { name: "numastat -m", shows: "memory of each node" }),
    (&["local_node "], NUMASTAT),
    (&["kbmemfree", "kbmemused"], Table { name: "sar -r", shows: "memory of the whole machine" }),
    (&["pgpgin/s", "pgpgout/s"], Table { name: "sar -B", shows: "rates of the whole machine" }),
    (&["OBJSIZE", "ALLOCATED", "SSIZE"], CRASH),
    (&["kbhugfree", "kbhugused"], Table { name: "sar -H", shows: "huge pages of the whole machine" }),
    (&["oom_group_kill "], EVENTS),
    (&["NODE", "ZONE", "ORDER", "STATUS"], Table { name: "compactsnoop", shows: "how long each compaction took" }),
    (&["COMM", "LAT(ms)", "PAGES"], Table { name: "drsnoop", shows: "how long each direct reclaim took" }),
    (&["CACHE", "ALLOCS", "BYTES"], Table { name: "slabratetop", shows: "how fast slab caches are allocated" }),
    (&["Caller", "Avg", "Spin"], Table { name: "klockstat", shows: "waits for mutexes, which the zone lock is not" }),
    (&["Caller", "Avg", "Wait"], Table { name: "klockstat", shows: "waits for mutexes, which the zone lock is not" }),
    (&["outstanding allocations"], Table { name: "memleak", shows: "what is allocated and not freed" }),
];

/// Pressure stall information; the file is in `Pressure`.
pub(crate) const PRESSURE: &str = "a file of pressure (PSI)";
const MEMINFO: Table = Table { name: "/proc/meminfo", shows: "memory of the whole machine" };
const HUGE_PAGES: Table = Table { name: "/sys/kernel/mm/hugepages", shows: "how many huge pages there are" };
const CRASH: Table = Table { name: "kmem -s of crash", shows: "slab caches" };
const GROUP: Table = Table { name: "a memory cgroup's files", shows: "a memory cgroup's limit" };
const NUMASTAT: Table = Table { name: "numastat", shows: "on which node allocations ended" };
const EVENTS: Table = Table { name: "memory.events", shows: "how often a memory cgroup reached its limits" };
const STAT: Table = Table { name: "memory.stat", shows: "what a memory cgroup's memory is" };
pub(crate) const HISTOGRAM_NAME: &str = "a tracing tool (a histogram)";
const HISTOGRAM: Table = Table { name: HISTOGRAM_NAME, shows: "how often each value occurred" };

/// The files of pressure: the end of the path, the file, and what tasks wait for. The names of files come with and without a folder.
const PRESSURES: [(&str, &str, &str); 7] = [
    ("pressure/memory", "/proc/pressure/memory", "memory"),
    ("memory.pressure", "memory.pressure", "memory"),
    ("pressure/io", "/proc/pressure/io", "I/O"),
    ("io.pressure", "io.pressure", "I/O"),
    ("pressure/cpu", "/proc/pressure/cpu", "a CPU"),
    ("cpu.pressure", "cpu.pressure", "a CPU"),
    ("pressure/irq", "/proc/pressure/irq", "interrupts"),
];

/// The first words of the lines whose numbers are kept.
const NAMES: &str = "MemTotal MemFree HugePages_Total HugePages_Free HugePages_Rsvd HugePages_Surp AnonPages Shmem PageTables Mem Swap numa_hit numa_miss numa_foreign local_node other_node \
     max oom oom_kill oom_group_kill anon file kernel_stack pagetables sock shmem slab_reclaimable slab_unreclaimable unevictable cache \
     rss mapped_file hierarchical_memory_limit";

/// A machine has fewer.
const MAX_ROWS: usize = 10_000;

/// A file of pressure: shares of time in per cent (`avg10`, `avg60`, `avg300`), and the time since boot or since the cgroup began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pressure {
    /// Of `PRESSURES`, if the text or its name shows it.
    source: Option<usize>,
    pub(crate) some: Vec<f64>,
    pub(crate) full: Vec<f64>,
}

impl Pressure {
    /// The file, if it is known.
    pub(crate) fn file(&self) -> &'static str {
        self.source.map_or(PRESSURE, |source| PRESSURES[source].1)
    }

    /// What the tasks waited for.
    pub(crate) fn resource(&self) -> Option<&'static str> {
        self.source.map(|source| PRESSURES[source].2)
    }
}

/// The numbers of one row by node: its name, and the node of each number if the text shows it.
#[derive(Debug)]
struct NodeRow {
    name: String,
    numbers: Vec<(Option<u64>, f64)>,
}

#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) first: Option<Table>,
    /// Lines that begin with a name: the name and its numbers.
    named: Vec<(String, Vec<f64>)>,
    /// The columns of each heading, and the rows below it.
    grids: Vec<(Vec<String>, Vec<Vec<f64>>)>,
    /// Slab caches. Unit: KiB.
    pub(crate) caches: Vec<(String, u64)>,
    /// All slab caches. Unit: KiB.
    pub(crate) all_caches: Option<u64>,
    /// Free and total memory of each node.
    pub(crate) nodes: Vec<[f64; 2]>,
    /// Threads of the kernel that free memory or make it contiguous, and the share of a CPU that each uses, in per cent.
    pub(crate) threads: Vec<(String, f64)>,
    pressures: Vec<Pressure>,
    /// The file of the lines of pressure that follow.
    pressure_file: Option<usize>,
    /// The nodes of the columns that follow; `None` is a sum.
    heading: Vec<Option<u64>>,
    node_rows: Vec<NodeRow>,
    /// The file of a memory cgroup whose number is on the next line.
    group_file: Option<&'static str>,
    /// How long each compaction or direct reclaim took, in ms: the process and the time.
    pub(crate) latencies: Vec<(String, f64)>,
    /// The place of the times in the rows below a heading, counted from the right.
    latency_column: Option<usize>,
    pub(crate) histograms: Histograms,
    /// The last `high`, which memory.events has before `max`.
    high: Option<f64>,
}

impl Tables {
    /// Begins a text with this name.
    pub(super) fn input(&mut self, name: &str) {
        self.pressure_file = pressure_file(name);
        self.heading.clear();
        self.latency_column = None;
    }

    /// Takes a line, and returns whether it is of a table.
    pub(super) fn line(&mut self, text: &str) -> bool {
        let mut taken = false;
        if let Some((_, table)) = TABLES.iter().find(|(words, _)| words.iter().all(|word| text.contains(word))) {
            self.first.get_or_insert(*table);
            taken = true;
        }
        let is_heading = ["swpd", "pgpgin/s", "kbmemfree", "kbhugfree"].iter().any(|name| text.contains(name))
            || taken && text.starts_with("total");
        let nodes = node_heading(text);
        if taken || is_heading || nodes.is_some() {
            self.latency_column = None;
        }
        if Histograms::may_take(text) && self.histograms.line(text) {
            self.first.get_or_insert(HISTOGRAM);
            return true;
        }
        if let Some(file) = pressure_file(text) {
            self.pressure_file = Some(file);
        }
        if text.contains("/numastat") {
            let node = text.split_once("node/node").and_then(|(_, rest)| digits(rest.split('/').next()?));
            self.heading = node.map(Some).into_iter().collect();
        }
        if let Some(nodes) = nodes {
            self.heading = nodes;
            return true;
        }
        if text.contains("LAT(ms)") {
            self.latency_column = text.split_ascii_whitespace().rev().position(|word| word == "LAT(ms)");
            return true;
        }
        if let Some(high) = text.strip_prefix("high ") {
            self.high = digits(high.trim()).map(|high| high as f64);
        }
        if is_heading {
            let words =
                text.split_ascii_whitespace().skip_while(|word| word.contains(':') || matches!(*word, "AM" | "PM"));
            let columns: Vec<String> = words.map(str::to_owned).collect();
            // Headings are repeated once a screen.
            if !columns.is_empty()
                && self.grids.last().is_none_or(|(last, _)| *last != columns)
                && self.grids.len() < 64
            {
                self.grids.push((columns, Vec::new()));
            }
            return true;
        }
        taken
            | self.pressure_line(text)
            | self.named_line(text)
            | self.setting_line(text)
            | self.group_line(text)
            | self.latency(text)
            | self.row(text)
            | self.cache(text)
            | self.node(text)
            | self.thread(text)
    }

    /// Whether a line with nothing that tables are known by may be a row of one.
    pub(super) fn may_take(&self, text: &str) -> bool {
        let begins = |name| text.starts_with(name);
        self.first.is_some()
            || text.ends_with("kB")
            || begins("node")
            || begins("high ")
            || text.contains("_hugepages")
            || text.contains("memory.")
            || self.group_file.is_some()
            || Histograms::may_take(text)
            || NAMES.split(' ').any(begins)
    }

    /// `MemTotal:  263588420 kB`, `some avg10=70.24 avg60=68.52 …`, `numa_hit 31409426 7`, `2448760 K free memory`.
    fn named_line(&mut self, text: &str) -> bool {
        if self.named.len() >= MAX_ROWS {
            return false;
        }
        if let Some((number, name)) = text.split_once(" K ").or_else(|| text.split_once(" pages swapped "))
            && let (Some(number), true) = (digits(number), self.first.is_some())
        {
            let name = if text.contains("pages swapped") { format!("swapped {name}") } else { name.to_owned() };
            self.named.push((name, vec![number as f64]));
            return true;
        }
        if let Some((name, rest)) = text.split_once(':')
            && rest.strip_suffix("kB").is_some_and(|rest| rest.starts_with(' ') && digits(rest.trim()).is_some())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_()".contains(&b))
        {
            self.first.get_or_insert(MEMINFO);
            self.named.push((name.to_owned(), rest.split_ascii_whitespace().take(1).filter_map(number).collect()));
            return true;
        }
        // top: `KiB Mem : 32627784 total, 198048 free, …`.
        let text = ["KiB ", "MiB ", "GiB "].iter().find_map(|unit| text.strip_prefix(unit)).unwrap_or(text);
        let mut words = text.split_ascii_whitespace();
        let name = words.next().map_or("", |name| name.trim_end_matches(':'));
        if !NAMES.split(' ').any(|known| known == name) {
            return false;
        }
        let numbers: Vec<f64> = words.take(64).filter_map(number).collect();
        let is_row = !numbers.is_empty();
        if is_row && (name.starts_with("numa_") || name.starts_with("Mem")) {
            let nodes = Some(&self.heading).filter(|heading| heading.len() == numbers.len());
            let node = |at: usize| nodes.and_then(|nodes| nodes.get(at).copied().flatten());
            let numbers = numbers.iter().enumerate().map(|(at, number)| (node(at), *number));
            // The last column of numastat -m is the sum.
            let numbers = numbers.filter(|(node, _)| nodes.is_none() || node.is_some()).collect();
            self.node_rows.push(NodeRow { name: name.to_owned(), numbers });
        }
        if is_row && name == "max" {
            self.named.extend(self.high.take().map(|high| ("high".to_owned(), vec![high])));
        }
        if is_row {
            self.named.push((name.to_owned(), numbers));
        }
        if is_row && matches!(name, "slab_reclaimable" | "slab_unreclaimable" | "mapped_file") {
            self.first.get_or_insert(STAT);
        }
        // Kernels before 5.17 print no `oom_group_kill`.
        if is_row && name == "oom" {
            self.first.get_or_insert(EVENTS);
        }
        is_row
    }

    /// `nr_hugepages=9000`, `/sys/…/hugepages-2048kB/free_hugepages:512`: a file of huge pages.
    fn setting_line(&mut self, text: &str) -> bool {
        let Some((path, value)) = text.rsplit_once(['=', ':']) else { return false };
        let name = match path.rsplit('/').next() {
            Some("nr_hugepages") => "HugePages_Total",
            Some("free_hugepages") => "HugePages_Free",
            Some("resv_hugepages") => "HugePages_Rsvd",
            _ => return false,
        };
        let Some(value) = digits(value.trim()).filter(|_| self.named.len() < MAX_ROWS) else { return false };
        self.first.get_or_insert(HUGE_PAGES);
        self.named.push((name.to_owned(), vec![value as f64]));
        true
    }

    /// `$ cat memory.limit_in_bytes` and the number below it, or `memory.max:524288000`.
    fn group_line(&mut self, text: &str) -> bool {
        /// The files of both versions of cgroups, and the name of the number.
        const FILES: [(&str, &str); 9] = [
            ("memory.usage_in_bytes", "group_used"),
            ("memory.current", "group_used"),
            ("memory.limit_in_bytes", "group_limit"),
            ("memory.max", "group_limit"),
            ("memory.max_usage_in_bytes", "group_most"),
            ("memory.peak", "group_most"),
            ("memory.failcnt", "group_reached"),
            ("memory.kmem.limit_in_bytes", "group_kernel_limit"),
            ("memory.memsw.limit_in_bytes", "group_swap_limit"),
        ];
        let (path, value) = text.rsplit_once([':', '=']).unwrap_or((text, ""));
        let word = path.trim().rsplit(['/', ' ']).next().unwrap_or("");
        if let Some((_, name)) = FILES.iter().find(|(file, _)| *file == word) {
            self.group_file = Some(name);
            return value.is_empty() || self.group_number(value);
        }
        self.group_file.is_some() && self.group_number(text)
    }

    fn group_number(&mut self, text: &str) -> bool {
        let Some(name) = self.group_file.take().filter(|_| self.named.len() < MAX_ROWS) else { return false };
        let number = if text.trim() == "max" { Some(u64::MAX) } else { digits(text.trim()) };
        let Some(number) = number else { return false };
        self.first.get_or_insert(GROUP);
        self.named.push((name.to_owned(), vec![number as f64]));
        true
    }

    /// A row with a time. The first row without one ends the table; a line of less than four words, such as a function, is no row.
    fn latency(&mut self, text: &str) -> bool {
        let Some(column) = self.latency_column.filter(|_| self.latencies.len() < MAX_ROWS) else { return false };
        let words: Vec<&str> = text.split_ascii_whitespace().take(32).collect();
        if words.len() < 4 {
            return false;
        }
        let time = words.len().checked_sub(column + 1).and_then(|at| words[at].parse::<f64>().ok());
        let Some(time) = time.filter(|time| time.is_finite() && *time >= 0.0) else {
            self.latency_column = None;
            return false;
        };
        // A time stamp may stand before the process.
        let process = words.iter().find(|word| !word.starts_with(|c: char| c.is_ascii_digit())).unwrap_or(&words[0]);
        self.latencies.push(((*process).chars().take(64).collect(), time));
        true
    }

    /// `some avg10=70.24 avg60=68.52 avg300=69.91 total=3559632828`.
    fn pressure_line(&mut self, text: &str) -> bool {
        let Some((before, numbers)) = text.split_once(" avg10=") else { return false };
        let word = before.rsplit([':', ' ']).next().unwrap_or("");
        // The first number has lost its name here.
        let numbers: Vec<f64> = numbers.split_ascii_whitespace().take(8).filter_map(number).collect();
        if numbers.is_empty() || !matches!(word, "some" | "full") {
            return false;
        }
        let source = self.pressure_file;
        let at = match self.pressures.iter().position(|pressure| pressure.source == source) {
            Some(at) => at,
            None => {
                self.pressures.push(Pressure { source, ..Pressure::default() });
                self.pressures.len() - 1
            }
        };
        if let Some(pressure) = self.pressures.get_mut(at) {
            let place = if word == "some" { &mut pressure.some } else { &mut pressure.full };
            if place.is_empty() {
                *place = numbers;
            }
        }
        true
    }

    /// The file of pressure that the answer is about: that of memory, or one that may be of memory, or the first.
    pub(crate) fn pressure(&self) -> Option<&Pressure> {
        if self.first?.name != PRESSURE {
            return None;
        }
        let of = |resource| self.pressures.iter().find(|pressure| pressure.resource() == resource);
        of(Some("memory")).or(of(None)).or(self.pressures.first())
    }

    /// The numbers of the rows with this name, by node: numastat folds rows that are wider than the terminal.
    pub(crate) fn by_node(&self, name: &str) -> Vec<(Option<u64>, f64)> {
        let mut found: Vec<(Option<u64>, f64)> = Vec::new();
        for row in self.node_rows.iter().filter(|row| row.name == name) {
            let is_first = found.is_empty();
            for (node, number) in &row.numbers {
                let is_new = node.is_some() && found.iter().all(|(known, _)| known != node);
                // A text with more is no machine's.
                if (is_first || is_new) && found.len() < 1024 {
                    found.push((*node, *number));
                }
            }
        }
        found
    }

    /// A row below a heading: its last words are numbers, as many as there are columns.
    fn row(&mut self, text: &str) -> bool {
        let Some((columns, rows)) = self.grids.last_mut().filter(|(_, rows)| rows.len() < MAX_ROWS) else {
            return false;
        };
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let Some(first) = words.len().checked_sub(columns.len()) else { return false };
        let numbers: Option<Vec<f64>> = words[first..].iter().map(|word| number(word)).collect();
        numbers.map(|numbers| rows.push(numbers)).is_some()
    }

    /// A row of slabtop or of `/proc/slabinfo`.
    fn cache(&mut self, text: &str) -> bool {
        if let Some((_, sizes)) = text.split_once("Total Size (% used)") {
            let total = sizes.split_once('/').and_then(|(_, total)| number(total.split_ascii_whitespace().next()?));
            self.all_caches = total.map(|kib| kib as u64);
            return true;
        }
        let words: Vec<&str> = text.split_ascii_whitespace().take(24).collect();
        let found = match (words.as_slice(), text.split_once(" : slabdata ")) {
            // The slabs, and the pages of each.
            ([name, _, _, _, _, pages, ..], Some((_, slabs))) => {
                let slabs = slabs.split_ascii_whitespace().nth(1).and_then(digits);
                slabs.zip(digits(pages)).map(|(slabs, pages)| (*name, slabs.saturating_mul(pages).saturating_mul(4)))
            }
            ([_, _, share, _, _, _, size, name], None) if share.ends_with('%') => {
                size.strip_suffix('K').and_then(digits).map(|kib| (*name, kib))
            }
            // crash: the address, sizes, `32k` for a slab, and the name.
            ([address, _, _, _, slabs, size, name], None) if address.len() >= 8 && size.ends_with('k') => {
                let size = size.strip_suffix('k').and_then(digits);
                digits(slabs).zip(size).map(|(slabs, size)| (*name, slabs.saturating_mul(size)))
            }
            _ => None,
        };
        let Some((name, kib)) = found.filter(|_| self.caches.len() < MAX_ROWS) else { return false };
        self.caches.push((name.to_owned(), kib));
        true
    }

    /// `node 1 free: 3666 MB`.
    fn node(&mut self, text: &str) -> bool {
        let Some((node, rest)) = text.strip_prefix("node ").and_then(|rest| rest.split_once(' ')) else { return false };
        let Some(node) = digits(node).filter(|node| *node < 1024) else { return false };
        let mut words = rest.split_ascii_whitespace();
        let (what, Some(value)) = (words.next().unwrap_or(""), words.next().and_then(number)) else { return false };
        let node = node as usize;
        if self.nodes.len() <= node {
            self.nodes.resize(node + 1, [0.0; 2]);
        }
        match what {
            "free:" => self.nodes[node][0] = value,
            "size:" => self.nodes[node][1] = value,
            _ => {}
        }
        true
    }

    /// A row of top with a thread of the kernel that works for memory.
    fn thread(&mut self, text: &str) -> bool {
        let Some((rest, name)) = text.trim_end().rsplit_once(' ') else { return false };
        let is_thread = ["kswapd", "kcompactd", "khugepaged", "ksmd"].iter().any(|thread| name.starts_with(thread));
        let mut words = rest.split_ascii_whitespace().rev();
        // `S  %CPU %MEM     TIME+ COMMAND`.
        let share = words.nth(2).and_then(number).filter(|_| is_thread && self.threads.len() < 64);
        share.map(|share| self.threads.push((name.to_owned(), share))).is_some()
    }

    /// The numbers of the first line with this name.
    pub(crate) fn of(&self, name: &str) -> Option<&[f64]> {
        self.named.iter().find(|(known, _)| known == name).map(|(_, numbers)| numbers.as_slice())
    }

    /// The first number of the first line with this name.
    pub(crate) fn one(&self, name: &str) -> Option<f64> {
        self.of(name)?.first().copied()
    }

    /// The number of the only line with this name.
    pub(crate) fn only(&self, name: &str) -> Option<f64> {
        let mut lines = self.named.iter().filter(|(known, _)| known == name);
        lines.next().filter(|_| lines.next().is_none())?.1.first().copied()
    }

    /// The first number of the last line with this name.
    pub(crate) fn last(&self, name: &str) -> Option<f64> {
        self.named.iter().rfind(|(known, _)| known == name)?.1.first().copied()
    }

    /// The numbers of these columns of one table, from the first row on. Each has one number or more.
    pub(crate) fn columns<const N: usize>(&self, names: [&str; N]) -> Option<[Vec<f64>; N]> {
        let found = |(columns, rows): &(Vec<String>, Vec<Vec<f64>>)| {
            let places = names.map(|name| columns.iter().position(|column| column == name));
            let has_all = !rows.is_empty() && places.iter().all(Option::is_some);
            let column = |place: Option<usize>| rows.iter().filter_map(|row| row.get(place?).copied()).collect();
            has_all.then(|| places.map(column))
        };
        self.grids.iter().find_map(found)
    }

    /// The number in a column of free, whose rows begin with a name.
    pub(crate) fn cell(&self, row: &str, column: &str) -> Option<f64> {
        let (columns, _) =
            self.grids.iter().find(|(columns, _)| columns.first().is_some_and(|name| name == "total"))?;
        self.of(row)?.get(columns.iter().position(|name| name == column)?).copied()
    }
}

/// The file of pressure that a text names.
fn pressure_file(text: &str) -> Option<usize> {
    PRESSURES.iter().position(|(end, _, _)| text.contains(end))
}

/// `node0 node1`, `Node 0 Node 1 Total`.
fn node_heading(text: &str) -> Option<Vec<Option<u64>>> {
    if !text.starts_with("node") && !text.starts_with("Node") {
        return None;
    }
    let mut nodes = Vec::new();
    let mut words = text.split_ascii_whitespace();
    while let Some(word) = words.next() {
        nodes.push(match word {
            "Node" => Some(digits(words.next()?)?),
            "Total" => None,
            word => Some(digits(word.strip_prefix("node")?)?),
        });
    }
    Some(nodes)
}

/// A number: `70.24`, `62Gi`, `avg10=70.24`, also with a decimal comma. With a unit in KiB.
fn number(word: &str) -> Option<f64> {
    let word = word.rsplit('=').next()?.trim_end_matches([',', '%']).replace(',', ".");
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let value: f64 = word[..end].parse().ok()?;
    let factor = match word[end..].trim_end_matches(['i', 'B', 'b']) {
        "" | "K" | "k" => 1.0,
        "M" | "m" => 1024.0,
        "G" | "g" => 1_048_576.0,
        "T" | "t" => 1_073_741_824.0,
        _ => return None,
    };
    Some(value * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> Tables {
        let mut tables = Tables::default();
        for line in lines {
            assert!(tables.may_take(line) || TABLES.iter().any(|(words, _)| line.contains(words[0])), "{line}");
            assert!(tables.line(line), "{line}");
        }
        tables
    }

    #[test]
    fn numbers_are_found_by_name() {
        let info = of(&["MemTotal:       32780412 kB", "MemAvailable:   21034988 kB", "HugePages_Total:    1280"]);
        assert_eq!((info.one("MemTotal"), info.one("HugePages_Total")), (Some(32_780_412.0), Some(1280.0)));
        assert_eq!(info.first, Some(MEMINFO));
        let free = of(&["total used free shared buff/cache available", "Mem: 62Gi 1Gi 3Gi 0 1 31Gi"]);
        assert_eq!(free.cell("Mem", "available"), Some(31.0 * 1_048_576.0));
        let vmstat = of(&["r  b   swpd   free  si   so", "2  0 152388 226112  0 7", "19:17:37 2 0 1 2 3 4"]);
        assert_eq!(vmstat.columns(["so", "free"]).unwrap(), [[7.0, 4.0], [226_112.0, 2.0]]);
        assert_eq!(of(&["r  b   swpd   free  si   so"]).columns(["so"]), None);
        let stat = of(&["numa_hit      1231232132      1032132132", "local_node 1 2"]);
        assert_eq!((stat.of("numa_hit").unwrap().len(), stat.first), (2, Some(NUMASTAT)));
        let slabs = of(&["dentry 2369308 2369325 192 21 1 : tunables 0 0 0 : slabdata 112825 112825 0"]);
        assert_eq!(slabs.caches, [("dentry".to_owned(), 451_300)]);
        let heading = "COMM           PID     LAT(ms) PAGES";
        let mut waits = of(&[heading, "summond        17678      0.19   143"]);
        assert!(!waits.line("do_try_to_free_pages+0x1") && waits.line("b 2 0.50 1"));
        for end in ["usb 1-1: new high-speed device", "procs memory swap cpu", "r b swpd free si so", "node0 node1"] {
            waits.line(heading);
            waits.line(end);
            waits.line("c 3 9.00 1");
        }
        waits.line(heading);
        waits.input("b.txt");
        waits.line("d 4 9.00 1");
        assert_eq!(waits.latencies, [("summond".to_owned(), 0.19), ("b".to_owned(), 0.5)]);
        for line in ["DMA free:12kB min:1kB", "x", "Node 0 active_anon: 12kB x", "node distances:"] {
            assert!(!Tables::default().line(line), "{line}");
        }
    }
}
