//! Mem-Info in a kernel's log: what `show_mem` prints after a failed request, from 2.6 on.
//!
//! The parser reads words, not lines: logs break lines anywhere, and kernels that print `pr_cont` parts from several CPUs mix them.

use std::sync::LazyLock;

use super::heads::Heads;
use super::prefix::{digits, words};
use super::request::{Message, Request, ZONES, release};

/// One report: the requests before a Mem-Info, and the Mem-Info.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) requests: Vec<Request>,
    pub(crate) release: Option<String>,
    pub(crate) zones: Vec<LogZone>,
    /// Pages, of all zones.
    pub(crate) free: Option<u64>,
    /// Pages in the per-CPU lists of all CPUs; printed from 4.2 on.
    pub(crate) free_pcp: Option<u64>,
    /// Free pages of CMA.
    pub(crate) free_cma: Option<u64>,
    /// The report has `Mem-Info:`.
    pub(crate) has_mem_info: bool,
    /// Other totals of Mem-Info by name, such as `slab_unreclaimable`. Unit: pages.
    pub(crate) totals: Vec<(String, u64)>,
    /// All pages of the machine.
    pub(crate) ram: Option<u64>,
    /// The machine has HighMem, though the text may be cut before it.
    pub(crate) has_high_mem: bool,
    /// The size of a huge page in KiB that only one size of page has.
    page_kib: Option<u64>,
}

/// A zone as the log prints it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogZone {
    pub(crate) node: Option<u32>,
    pub(crate) name: String,
    /// Amounts by name. Unit: KiB.
    pub(crate) kib: Vec<(String, u64)>,
    /// Unit: pages.
    pub(crate) reserve: Vec<u64>,
    pub(crate) pagesets: Vec<LogPageset>,
    pub(crate) blocks: Vec<LogBlocks>,
    pub(crate) all_unreclaimable: bool,
}

/// `CPU 0: hi: 186, btch: 31 usd: 185`, up to 4.1. Unit: pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogPageset {
    pub(crate) cpu: u32,
    pub(crate) high: u64,
    pub(crate) batch: u64,
    pub(crate) count: u64,
}

/// `3*32kB (UM)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogBlocks {
    pub(crate) count: u64,
    /// The size of a block.
    pub(crate) kib: u64,
    /// The letters of the types; empty on kernels that do not print them.
    pub(crate) types: String,
}

impl LogZone {
    pub(crate) fn kib(&self, name: &str) -> Option<u64> {
        self.kib.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}

impl Report {
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.zones.is_empty() && self.free.is_none()
    }

    /// The size of a page in KiB, and whether the log shows it. The smallest block is a page; else the total in pages and the sum in
    /// KiB tell.
    pub(crate) fn page_kib(&self) -> Option<u64> {
        let smallest = self.zones.iter().filter_map(|zone| zone.blocks.first()).map(|blocks| blocks.kib).min();
        let sum = || self.sum_kib("free");
        let by_total = || {
            let free = self.free.filter(|free| *free > 1000)?;
            // Zones may be missing, so the sum must be near: within a 50th.
            let is_near = |kib: &u64| free.saturating_mul(*kib).abs_diff(sum()) <= sum() / 50;
            [4, 8, 16, 64, 256].into_iter().find(is_near)
        };
        smallest.filter(|kib| [4, 8, 16, 32, 64, 256].contains(kib)).or(self.page_kib).or_else(by_total)
    }

    /// Whether the text has all zones: their free pages make up the total, or node 0 is there from its lowest zone on and free blocks,
    /// which follow the zones, are too.
    pub(crate) fn is_whole(&self) -> bool {
        let free = self.sum_kib("free");
        match (self.free, self.page_kib()) {
            (Some(total), Some(kib)) => total.saturating_mul(kib).abs_diff(free) <= free / 50,
            _ => {
                let first = self.zones.first();
                first.is_some_and(|zone| zone.node.unwrap_or(0) == 0 && zone.name == "DMA")
                    && self.zones.iter().any(|zone| zone.name == "Normal" || zone.name == "DMA32")
                    && self.zones.iter().all(|zone| !zone.blocks.is_empty())
            }
        }
    }

    /// A total of Mem-Info. Unit: pages.
    pub(crate) fn total(&self, name: &str) -> Option<u64> {
        self.totals.iter().find(|(known, _)| known == name).map(|(_, pages)| *pages)
    }

    /// The sum of an amount of all zones. Unit: KiB.
    pub(crate) fn sum_kib(&self, name: &str) -> u64 {
        self.zones.iter().filter_map(|zone| zone.kib(name)).fold(0, u64::saturating_add)
    }

    fn zone(&mut self, node: Option<u32>, name: &str) -> usize {
        let place = self.zones.iter().position(|zone| zone.name == name && zone.node == node);
        place.unwrap_or_else(|| {
            // A report of 1024 nodes has 6144 zones at most; a longer text is not one.
            if self.zones.len() < 8192 {
                self.zones.push(LogZone { node, name: name.to_owned(), ..LogZone::default() });
            }
            self.zones.len() - 1
        })
    }
}

/// What the next words belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    None,
    /// `free:…kB min:…kB …` of a zone.
    Amounts(usize),
    /// The numbers after `lowmem_reserve[]:`.
    Reserve(usize),
    /// `CPU 0: hi: …` of a zone.
    PerCpu(usize),
    /// `1*4kB (U) …` of a zone.
    Blocks(usize),
}

#[derive(Debug, Default)]
pub(crate) struct Reader {
    done: Vec<Report>,
    report: Report,
    state: State,
    /// The zone of the last amounts, to which `lowmem_reserve` belongs.
    zone: Option<usize>,
    /// The words before this one, the last first.
    before: [String; 3],
    /// The name of the number that comes next: `hi`, `btch`, `usd`.
    wanted: Option<&'static str>,
    /// Lines since a request that may continue.
    open: u8,
    /// The lines after a request may be its call trace.
    in_trace: bool,
    /// The end of a report of the OOM killer was read: the next request begins another.
    ended: bool,
}

/// Names with these numbers are in the total, in pages.
const TOTALS: [&str; 3] = ["free", "free_pcp", "free_cma"];

impl Reader {
    /// Takes a line, and returns whether anything in it was understood.
    pub(crate) fn line(&mut self, text: &str) -> bool {
        let mut taken = false;
        if let Some(request) = Request::parse(text) {
            // SLUB prints its message after the zones.
            let is_of_these = request.message == Message::Slub && self.report.requests.is_empty();
            let is_next = !self.report.zones.is_empty() || self.report.free.is_some();
            if std::mem::take(&mut self.ended) || is_next && !is_of_these {
                self.begin();
            }
            let is_same = self.report.requests.last_mut().filter(|_| self.open > 0);
            if is_same.is_some_and(|last| last.takes(&request)) {
                return true;
            }
            // A log may repeat a message a thousand times.
            if self.report.requests.len() < 10_000 {
                self.report.requests.push(request);
            }
            (self.open, self.in_trace, taken) = (2, true, true);
        } else if self.open > 0 {
            self.open -= 1;
            let last = self.report.requests.last_mut();
            taken |= last.is_some_and(|request| {
                (request.is_open() || text.contains("cache:") || text.contains("mems_allowed=")) && request.fill(text)
            });
        }
        // The free ranges follow the message about CMA.
        taken |= self.report.requests.last_mut().is_some_and(|request| request.ranges(text));
        self.ended |= text.contains("Killed process") || text.contains("out of memory: Kill");
        // Another message has a call trace of its own.
        self.in_trace &=
            !["WARNING:", "BUG:", "INFO:", "-----", "FAULT_INJECTION", "Mem-"].iter().any(|end| text.contains(end));
        if let Some(request) = self.report.requests.last_mut().filter(|_| self.in_trace) {
            request.frame(text);
        }
        if let Some(release) = release(text) {
            self.report.release.get_or_insert_with(|| release.to_owned());
            taken = true;
        }
        for word in words(text) {
            taken |= self.word(word);
            self.before.rotate_right(1);
            word.clone_into(&mut self.before[0]);
        }
        taken || is_part_of_a_report(text)
    }

    fn begin(&mut self) {
        let release = self.report.release.clone();
        let next = Report { release, ..Report::default() };
        // As many reports as a text of a few megabytes has.
        if self.done.len() < 10_000 && !self.report.is_empty() {
            self.done.push(std::mem::replace(&mut self.report, next));
        } else {
            self.report = next;
        }
        (self.state, self.zone) = (State::None, None);
    }

    /// The reports in the order of the text.
    pub(crate) fn finish(mut self) -> Vec<Report> {
        self.begin();
        self.done
    }

    /// The zone that the words before this one name: `Node 0 DMA32`, `DMA32`.
    fn named(&self) -> Option<(Option<u32>, &'static str)> {
        let name = ZONES.into_iter().find(|zone| *zone == self.before[0])?;
        let node = digits(self.before[1].trim_end_matches(',')).filter(|_| self.before[2] == "Node");
        Some((node.and_then(|node| u32::try_from(node).ok()), name))
    }

    /// Takes a word, and returns whether it was understood.
    fn word(&mut self, word: &str) -> bool {
        if word == "Mem-Info:" || word == "Mem-info:" {
            if !self.report.zones.is_empty() || self.report.free.is_some() {
                self.begin();
            }
            self.report.has_mem_info = true;
            return true;
        }
        if let Some(size) = word.strip_prefix("hugepages_size=") {
            // 512 MiB is a huge page of 64 KiB pages only.
            if size == "524288kB" {
                self.report.page_kib = Some(64);
            }
            return true;
        }
        if word == "HighMem/MovableOnly" && self.before[0] == "pages" {
            self.report.has_high_mem |= digits(&self.before[1]).is_some_and(|pages| pages > 0);
            return true;
        }
        if word == "RAM" && self.before[0] == "pages" {
            self.report.ram = digits(&self.before[1]).or(self.report.ram);
            return true;
        }
        if word == "per-cpu:" {
            if let Some((node, name)) = self.named() {
                self.state = State::PerCpu(self.report.zone(node, name));
            }
            return true;
        }
        if word == "lowmem_reserve[]:" || word == "protections[]:" {
            self.state = self.zone.map_or(State::None, State::Reserve);
            return true;
        }
        if let State::Reserve(zone) = self.state {
            match (digits(word), self.report.zones.get_mut(zone)) {
                (Some(pages), Some(zone)) if zone.reserve.len() < ZONES.len() => {
                    zone.reserve.push(pages);
                    return true;
                }
                _ => self.state = State::None,
            }
        }
        if let State::PerCpu(zone) = self.state
            && self.per_cpu(zone, word)
        {
            return true;
        }
        if let Some(name) = word.strip_suffix(':').filter(|name| ZONES.contains(name)) {
            let node = digits(&self.before[0]).filter(|_| self.before[1] == "Node");
            let node = node.and_then(|node| u32::try_from(node).ok());
            self.state = State::Blocks(self.report.zone(node, name));
            return true;
        }
        if let State::Blocks(zone) = self.state
            && self.blocks(zone, word)
        {
            return true;
        }
        if self.before[0] == "all_unreclaimable?"
            && let Some(zone) = self.zone.and_then(|zone| self.report.zones.get_mut(zone))
        {
            zone.all_unreclaimable = word == "yes";
            return true;
        }
        self.amount(word)
    }

    /// `free:13312kB`, `free:114480`.
    fn amount(&mut self, word: &str) -> bool {
        let Some((name, value)) = word.split_once(':') else { return false };
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_()".contains(&b));
        let value = value.trim_end_matches(',');
        let in_kib = value.strip_suffix("kB").or(value.strip_suffix("KB"));
        let Some(number) = digits(in_kib.unwrap_or(value)).filter(|_| is_name) else { return false };
        if in_kib.is_none() {
            let slot = match name {
                "free" => &mut self.report.free,
                "free_pcp" => &mut self.report.free_pcp,
                "free_cma" => &mut self.report.free_cma,
                _ => {
                    let is_total = self.report.has_mem_info || name.starts_with("active_") || name.starts_with("slab_");
                    if is_total && self.report.totals.len() < 64 && self.report.total(name).is_none() {
                        self.report.totals.push((name.to_owned(), number));
                    }
                    return is_total;
                }
            };
            debug_assert!(TOTALS.contains(&name));
            slot.get_or_insert(number);
            return true;
        }
        if name == "free" {
            // A zone: `DMA free:…kB`. Without its name the report is cut before it.
            let (node, name) = self.named().unwrap_or((None, ""));
            let zone = self.report.zone(node, name);
            (self.state, self.zone) = (State::Amounts(zone), Some(zone));
            // The zone a second time: this is another report without its beginning.
            if self.report.zones.get(zone).is_some_and(|zone| zone.kib("free").is_some()) {
                self.begin();
                let zone = self.report.zone(node, name);
                (self.state, self.zone) = (State::Amounts(zone), Some(zone));
            }
        }
        match self.state {
            State::Amounts(zone) => {
                if let Some(zone) = self.report.zones.get_mut(zone).filter(|zone| zone.kib.len() < 64) {
                    zone.kib.push((name.to_owned(), number));
                }
                true
            }
            // `Node 0 active_anon:…kB`: the totals of a node.
            _ => self.report.has_mem_info || name.starts_with("active_"),
        }
    }

    /// `CPU 0: hi: 186, btch: 31 usd: 185`, and with `Hot:` and `Cold:` before 2.6.26.
    fn per_cpu(&mut self, zone: usize, word: &str) -> bool {
        if word == "CPU" || word == "Hot:" || word == "Cold:" {
            return true;
        }
        let Some(zone) = self.report.zones.get_mut(zone) else { return false };
        if self.before[0] == "CPU"
            && let Some(cpu) = word.strip_suffix(':').and_then(digits).and_then(|cpu| u32::try_from(cpu).ok())
        {
            // As many CPUs as a kernel can have.
            if zone.pagesets.len() < 8192 {
                zone.pagesets.push(LogPageset { cpu, ..LogPageset::default() });
            }
            return true;
        }
        let names = ["hi", "btch", "usd"];
        let (name, value) = match (word.split_once(':'), self.wanted.take()) {
            (Some((name, value)), _) => (names.into_iter().find(|known| *known == name), value),
            (None, wanted) => (wanted, word),
        };
        let Some(name) = name else { return false };
        let value = value.trim_end_matches(',');
        let (Some(number), Some(set)) = (digits(value), zone.pagesets.last_mut()) else {
            self.wanted = value.is_empty().then_some(name);
            return self.wanted.is_some();
        };
        match name {
            // The hot list comes first.
            "hi" if set.high == 0 => set.high = number,
            "btch" if set.batch == 0 => set.batch = number,
            "usd" => set.count = set.count.saturating_add(number),
            _ => {}
        }
        true
    }

    /// `1*4kB (U) 0*8kB = 15884kB`. Where a web page takes `*` for emphasis, `1_4kB` is left.
    fn blocks(&mut self, zone: usize, word: &str) -> bool {
        let Some(zone) = self.report.zones.get_mut(zone) else { return false };
        if word == "=" {
            return true;
        }
        if self.before[0] == "=" && word.strip_suffix("kB").and_then(digits).is_some() {
            self.state = State::None;
            return true;
        }
        if let Some(types) = word.strip_prefix('(').and_then(|word| word.strip_suffix(')'))
            && types.bytes().all(|b| b.is_ascii_uppercase())
            && let Some(last) = zone.blocks.last_mut()
        {
            types.clone_into(&mut last.types);
            return true;
        }
        let parts = word.strip_suffix("kB").and_then(|word| word.split_once(['*', '_']));
        let Some((count, kib)) = parts.and_then(|(count, kib)| Some((digits(count)?, digits(kib)?))) else {
            return false;
        };
        // The next order is twice as large. Anything else is a word of another CPU's report.
        if zone.blocks.last().is_none_or(|last| last.kib.checked_mul(2) == Some(kib)) && zone.blocks.len() < 32 {
            zone.blocks.push(LogBlocks { count, kib, types: String::new() });
        }
        true
    }
}

/// Whether a line belongs to what a kernel prints around Mem-Info, and says nothing about zones.
fn is_part_of_a_report(text: &str) -> bool {
    const PARTS: &str = "Call Trace:|Call trace:|Hardware name:|RIP:|RSP:|RAX:|RDX:|RBP:|R10:|R13:|Code:|FS:  |CS:  |\
         CR2:|<IRQ>|</IRQ>|<TASK>|</TASK>|Modules linked in|pagecache pages|pages in swap cache|Swap cache stats|\
         Free swap|Total swap|pages reserved|pages hwpoisoned|pages RAM|HighMem/MovableOnly|callbacks suppressed|\
         pages cma reserved|node 0: slabs|slabs:|Workqueue:|pages shared|pages non-shared|unevictable:|uid  tgid|\
         Killed process|Out of memory|oom-kill:|pages slab|Unreclaimable slab";
    static HEADS: LazyLock<Heads> = LazyLock::new(|| Heads::of(PARTS.split('|')));
    let is_node = text.trim().strip_prefix("Node ").is_some_and(|node| digits(node.trim()).is_some());
    is_node || HEADS.may_be_in(text) && PARTS.split('|').any(|part| text.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Report> {
        let mut reader = Reader::default();
        super::super::line::each(text, &super::super::framing::Framing::default(), |line| _ = reader.line(line.text));
        reader.finish()
    }

    #[test]
    fn one_number_a_line() {
        let text = "kernel: Node 0 \nkernel: Normal free:24148kB min:65640kB low:129584kB\nkernel: active_anon:6kB\n\
                    kernel: lowmem_reserve[]:\nkernel:  0\nkernel:  12\nkernel: Node 0 \nkernel: Normal: \nkernel: 0*4kB \n\
                    kernel: 1*8kB \nkernel: (U) \nkernel: = 8kB\n";
        let reports = read(text);
        assert_eq!(reports.len(), 1);
        let zone = &reports[0].zones[0];
        assert_eq!((zone.node, zone.name.as_str(), zone.kib("min")), (Some(0), "Normal", Some(65_640)));
        assert_eq!(zone.reserve, [0, 12]);
        assert_eq!(zone.blocks[1], LogBlocks { count: 1, kib: 8, types: "U".to_owned() });
        assert_eq!(reports[0].page_kib(), Some(4));
    }

    #[test]
    fn per_cpu_lists_of_old_kernels() {
        let text = "Mem-Info:\nNode 0 DMA32 per-cpu:\nCPU    0: hi:  186, btch:  31 usd: 185\nCPU    1: hi:  186, btch:  31 usd:   5\n\
                    Normal per-cpu:\nCPU    0: Hot: hi:  186, btch:  31 usd:  12   Cold: hi:   62, btch:  15 usd:  14\nfree:194\n";
        let reports = read(text);
        let sets = |zone: usize| &reports[0].zones[zone].pagesets;
        assert_eq!(sets(0)[1], LogPageset { cpu: 1, high: 186, batch: 31, count: 5 });
        assert_eq!(sets(1)[0], LogPageset { cpu: 0, high: 186, batch: 31, count: 26 });
        assert_eq!(reports[0].free, Some(194));
    }

    #[test]
    fn the_page_size_is_found() {
        let large = "Normal free:1280000kB min:1kB\nNormal: 5*64kB (U) 0*128kB = 320kB\n";
        assert_eq!(read(large)[0].page_kib(), Some(64));
        let sum = "Mem-Info:\nfree:20000 free_pcp:1\nNode 0 Normal free:1280000kB min:1kB\n";
        assert_eq!(read(sum)[0].page_kib(), Some(64));
        let cut = "Mem-Info:\nfree:114480 free_pcp:1\nNode 0 DMA free:13312kB min:64kB\n";
        assert_eq!(read(cut)[0].page_kib(), None);
    }

    #[test]
    fn reports_are_separate() {
        let one = "x: page allocation failure: order:0, mode:0x20\nMem-Info:\nNormal free:4kB min:1kB\n";
        let reports = read(&one.repeat(3));
        assert_eq!(reports.len(), 3);
        assert!(reports.iter().all(|report| report.requests.len() == 1 && report.zones.len() == 1));
    }
}
