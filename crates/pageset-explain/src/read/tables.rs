//! Tables of the whole machine: `/proc/meminfo`, free, vmstat, sar, numastat, slabtop, top and others. Their numbers, as far as the
//! answer needs them.

use super::line::digits;

/// A kind of table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Table {
    /// `/proc/meminfo`.
    pub(crate) name: &'static str,
    /// What it shows instead of zones.
    pub(crate) shows: &'static str,
}

/// The tables by words that a line of each has.
pub(super) const TABLES: [(&[&str], Table); 19] = [
    (&["Active / Total Objects"], Table { name: "slabtop", shows: "slab caches" }),
    (&["slabinfo - version"], Table { name: "/proc/slabinfo", shows: "slab caches" }),
    (&[" : slabdata "], Table { name: "/proc/slabinfo", shows: "slab caches" }),
    (&["total", "used", "free", "shared"], Table { name: "free", shows: "memory of the whole machine" }),
    (&["procs", "memory", "swap", "cpu"], Table { name: "vmstat", shows: "rates of the whole machine" }),
    (&["swpd", "free", "si", "so"], Table { name: "vmstat", shows: "rates of the whole machine" }),
    (&["K total memory"], Table { name: "vmstat -s", shows: "memory of the whole machine" }),
    (&["top - ", "load average"], Table { name: "top", shows: "processes" }),
    (&["avg10=", "avg60=", "total="], Table { name: "/proc/pressure/memory", shows: "how long tasks waited" }),
    (&["available:", "nodes ("], Table { name: "numactl --hardware", shows: "memory of each node" }),
    (&["Per-node", "memory"], Table { name: "numastat -m", shows: "memory of each node" }),
    (&["local_node "], NUMASTAT),
    (&["kbmemfree", "kbmemused"], Table { name: "sar -r", shows: "memory of the whole machine" }),
    (&["pgpgin/s", "pgpgout/s"], Table { name: "sar -B", shows: "rates of the whole machine" }),
    (&["oom_group_kill "], EVENTS),
    (&["NODE", "ZONE", "ORDER", "STATUS"], Table { name: "compactsnoop", shows: "how long each compaction took" }),
    (&["outstanding allocations"], Table { name: "memleak", shows: "what is allocated and not freed" }),
    (&[" |@@", "[", ")"], HISTOGRAM),
    (&[" |**", "->"], HISTOGRAM),
];

const MEMINFO: Table = Table { name: "/proc/meminfo", shows: "memory of the whole machine" };
const NUMASTAT: Table = Table { name: "numastat", shows: "on which node allocations ended" };
const EVENTS: Table = Table { name: "memory.events", shows: "how often a memory cgroup reached its limits" };
const HISTOGRAM: Table = Table { name: "a tracing tool (a histogram)", shows: "how often each value occurred" };

/// The first words of the lines whose numbers are kept.
const NAMES: &str = "MemTotal MemFree HugePages_Total Mem Swap some full numa_hit numa_miss numa_foreign local_node other_node max oom oom_kill oom_group_kill";

/// A machine has fewer.
const MAX_ROWS: usize = 10_000;

/// What the texts have of these.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// The first one.
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
}

impl Tables {
    /// Takes a line, and returns whether it is of a table.
    pub(super) fn line(&mut self, text: &str) -> bool {
        let mut taken = false;
        if let Some((_, table)) = TABLES.iter().find(|(words, _)| words.iter().all(|word| text.contains(word))) {
            self.first.get_or_insert(*table);
            taken = true;
        }
        let is_heading = ["swpd", "pgpgin/s", "kbmemfree"].iter().any(|name| text.contains(name))
            || taken && text.starts_with("total");
        if is_heading {
            let words =
                text.split_ascii_whitespace().skip_while(|word| word.contains(':') || matches!(*word, "AM" | "PM"));
            let columns: Vec<String> = words.map(str::to_owned).collect();
            // Headings are repeated once a screen.
            if self.grids.last().is_none_or(|(last, _)| *last != columns) && self.grids.len() < 64 {
                self.grids.push((columns, Vec::new()));
            }
            return true;
        }
        taken | self.named_line(text) | self.row(text) | self.cache(text) | self.node(text) | self.thread(text)
    }

    /// Whether a line with nothing that tables are known by may be a row of one.
    pub(super) fn may_take(&self, text: &str) -> bool {
        let begins = |name| text.starts_with(name);
        self.first.is_some() || text.ends_with("kB") || begins("node ") || NAMES.split(' ').any(begins)
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
        let text = text.split_once("pressure/memory:").map_or(text, |(_, text)| text);
        // top: `KiB Mem : 32627784 total, 198048 free, …`.
        let text = ["KiB ", "MiB ", "GiB "].iter().find_map(|unit| text.strip_prefix(unit)).unwrap_or(text);
        let mut words = text.split_ascii_whitespace();
        let name = words.next().map_or("", |name| name.trim_end_matches(':'));
        if !NAMES.split(' ').any(|known| known == name) {
            return false;
        }
        let numbers: Vec<f64> = words.take(64).filter_map(number).collect();
        let is_row = !numbers.is_empty();
        if is_row {
            self.named.push((name.to_owned(), numbers));
        }
        // Kernels before 5.17 print no `oom_group_kill`.
        if is_row && name == "oom" {
            self.first.get_or_insert(EVENTS);
        }
        is_row
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

    /// The numbers of a column, from the first row on.
    pub(crate) fn column(&self, name: &str) -> Option<Vec<f64>> {
        let found = |(columns, rows): &(Vec<String>, Vec<Vec<f64>>)| {
            let place = columns.iter().position(|column| column == name)?;
            Some(rows.iter().filter_map(|row| row.get(place).copied()).collect())
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

/// A number: `70.24`, `62Gi`, `avg10=70.24`. With a unit in KiB.
fn number(word: &str) -> Option<f64> {
    let word = word.rsplit('=').next()?.trim_end_matches([',', '%']);
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
        assert_eq!(vmstat.column("so").unwrap(), [7.0, 4.0]);
        let stat = of(&["numa_hit      1231232132      1032132132", "local_node 1 2"]);
        assert_eq!((stat.of("numa_hit").unwrap().len(), stat.first), (2, Some(NUMASTAT)));
        let slabs = of(&["dentry 2369308 2369325 192 21 1 : tunables 0 0 0 : slabdata 112825 112825 0"]);
        assert_eq!(slabs.caches, [("dentry".to_owned(), 451_300)]);
        for line in ["DMA free:12kB min:1kB", "x", "Node 0 active_anon: 12kB x", "node distances:"] {
            assert!(!Tables::default().line(line), "{line}");
        }
    }
}
