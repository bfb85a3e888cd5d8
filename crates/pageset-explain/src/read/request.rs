//! The request in a kernel's message: who asked for which order, and with which flags.

use std::sync::LazyLock;

use super::heads::Heads;
use super::prefix::digits;

/// A message about a request that failed or that took long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Message {
    /// `page allocation failure`.
    Failure,
    /// `page allocation stalls` (4.9 to 4.14): the request waits.
    Stall,
    /// `invoked oom-killer`.
    OomKiller,
    /// `SLUB: Unable to allocate memory`.
    Slub,
    /// `cma_alloc: alloc failed`.
    Cma,
    /// `vmalloc: allocation failure`, `vmalloc error`, `vmap allocation for size`.
    Vmalloc,
    /// `possible memory allocation deadlock` of XFS and ZFS: the request is repeated until it succeeds.
    Deadlock(&'static str),
}

/// Why a request of vmalloc failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lack {
    /// The address space for vmalloc has no hole of this size.
    AddressSpace,
    /// The size is 0.
    NothingAsked,
    /// The size is more than the machine's memory.
    TooLarge,
    /// The address space for vmalloc is large enough for the size; whether the machine's memory is, the rest of the text may show.
    Large,
}

/// What the message about a failed request of CMA says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cma {
    /// The error's number, positive: 12 (ENOMEM), 16 (EBUSY), 4 (EINTR).
    pub(crate) error: Option<u64>,
    /// Free pages of the area, its pages, and the pages of its longest free range.
    pub(crate) free: Option<(u64, u64, u64)>,
}

/// The zones that a request may use, by its highest one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Class {
    Dma,
    Dma32,
    Normal,
    HighMem,
    Movable,
}

/// The zones in their order, from the lowest.
pub(crate) const ZONES: [&str; 6] = ["DMA", "DMA32", "Normal", "HighMem", "Movable", "Device"];

impl Class {
    /// The highest zone's place in [`ZONES`].
    pub(crate) const fn place(self) -> usize {
        self as usize
    }
}

/// The flags of a request, as far as the zone and the mark depend on them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Gfp {
    /// As printed: `GFP_ATOMIC|__GFP_COMP`, or `0x20` without names.
    pub(crate) text: String,
    pub(crate) class: Class,
    /// May use a part of the reserve below min.
    pub(crate) high: bool,
    /// May wait for reclaim.
    pub(crate) waits: bool,
    /// For movable pages: may use CMA.
    pub(crate) movable: bool,
}

impl Gfp {
    /// The flags from their names. Only the names before the first unknown character count.
    fn from_names(names: &str) -> Gfp {
        let mut gfp = Gfp { text: names.to_owned(), class: Class::Normal, high: false, waits: false, movable: false };
        let (mut highmem, mut dma, mut dma32) = (false, false, false);
        for name in names.split('|').map(str::trim) {
            match name {
                "GFP_ATOMIC" | "__GFP_HIGH" => gfp.high = true,
                "GFP_DMA" | "__GFP_DMA" => dma = true,
                "GFP_DMA32" | "__GFP_DMA32" => dma32 = true,
                "GFP_KERNEL"
                | "GFP_KERNEL_ACCOUNT"
                | "GFP_USER"
                | "GFP_NOIO"
                | "GFP_NOFS"
                | "GFP_TEMPORARY"
                | "__GFP_RECLAIM"
                | "__GFP_DIRECT_RECLAIM"
                | "__GFP_WAIT" => gfp.waits = true,
                "GFP_HIGHUSER" => (highmem, gfp.waits) = (true, true),
                "GFP_HIGHUSER_MOVABLE" | "GFP_TRANSHUGE" => (highmem, gfp.movable, gfp.waits) = (true, true, true),
                "GFP_TRANSHUGE_LIGHT" => (highmem, gfp.movable) = (true, true),
                "__GFP_HIGHMEM" => highmem = true,
                "__GFP_MOVABLE" => gfp.movable = true,
                _ => {}
            }
        }
        gfp.class = class(dma, dma32, highmem, gfp.movable);
        gfp
    }

    /// The flags from their number. The zones and `__GFP_HIGH` have the same bits in all kernels. Kernels up to 4.3 have one bit for
    /// waiting; 4.4 and 4.5 have others, and set one for the wake-up of kswapd; later ones print names.
    fn from_mask(mask: u64) -> Gfp {
        let (dma, highmem, dma32, movable, wait, high) = (1, 2, 4, 8, 0x10, 0x20);
        let (direct_reclaim, wakes_kswapd) = (0x40_0000, 0x200_0000);
        let has = |bit: u64| mask & bit != 0;
        let waits = if has(wakes_kswapd) { has(direct_reclaim) } else { has(wait) };
        let class = class(has(dma), has(dma32), has(highmem), has(movable));
        Gfp { text: format!("{mask:#x}"), class, high: has(high), waits, movable: has(movable) }
    }

    /// For a sentence: the name that people know, if there is one, and the zone if it is a low one.
    pub(crate) fn short(&self) -> String {
        let first = self.text.split('|').next().unwrap_or("");
        let name = match () {
            () if first.starts_with("GFP_") => first,
            () if self.high && !self.waits => "GFP_ATOMIC",
            () if !self.waits => "GFP_NOWAIT",
            () if self.movable => "movable",
            () => "GFP_KERNEL",
        };
        match self.class {
            Class::Dma if !name.contains("DMA") => format!("{name}|GFP_DMA"),
            Class::Dma32 if !name.contains("DMA") => format!("{name}|GFP_DMA32"),
            _ => name.to_owned(),
        }
    }
}

fn class(dma: bool, dma32: bool, highmem: bool, movable: bool) -> Class {
    match (dma, dma32, highmem, movable) {
        (true, ..) => Class::Dma,
        (_, true, ..) => Class::Dma32,
        (_, _, true, true) => Class::Movable,
        (_, _, true, false) => Class::HighMem,
        _ => Class::Normal,
    }
}

/// A request that the log is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub(crate) message: Message,
    /// The process, if it is printed.
    pub(crate) process: Option<String>,
    pub(crate) order: Option<u8>,
    pub(crate) gfp: Option<Gfp>,
    /// The nodes that the request may use, from `mems_allowed`; empty if not printed.
    pub(crate) nodes: Vec<u32>,
    pub(crate) cache: Option<String>,
    /// The number of the memory cgroup that has this slab cache.
    pub(crate) cache_group: Option<u64>,
    /// Pages of a CMA request.
    pub(crate) pages: Option<u64>,
    pub(crate) cma: Cma,
    /// The OOM killer was started by hand (sysrq), which the order -1 shows.
    pub(crate) is_by_hand: bool,
    /// The function that asked, by the call trace: the first one outside of the allocators.
    pub(crate) caller: Option<String>,
    /// How long a stalled request has waited. Unit: ms.
    pub(crate) stalled_ms: Option<u64>,
    /// The size of a request of vmalloc or of a file system.
    pub(crate) bytes: Option<u64>,
    /// What a request of vmalloc lacked, if not pages.
    pub(crate) lack: Option<Lack>,
}

const MESSAGES: [(&str, Message); 12] = [
    ("page allocation failure", Message::Failure),
    ("page allocation stalls", Message::Stall),
    ("invoked oom-killer", Message::OomKiller),
    ("SLUB: Unable to allocate memory", Message::Slub),
    ("cma_alloc: alloc failed", Message::Cma),
    ("alloc failed, req-size", Message::Cma),
    ("vmalloc: allocation failure", Message::Vmalloc),
    ("vmalloc error", Message::Vmalloc),
    ("vmap allocation for size", Message::Vmalloc),
    // 2.4: `__alloc_pages: 0-order allocation failed (gfp=0x1d2/0)`.
    ("-order allocation failed", Message::Failure),
    ("possible memory allocation deadlock", Message::Deadlock("XFS")),
    ("Possible memory allocation deadlock", Message::Deadlock("ZFS")),
];

static HEADS: LazyLock<Heads> = LazyLock::new(|| Heads::of(MESSAGES.map(|(words, _)| words)));

/// No machine that we know has so much memory for one caller: a wrong size, such as a negative number. A guess. Unit: bytes.
const MORE_THAN_ANY: u64 = 1 << 48;
/// Kernels of 64 bits have an address space for vmalloc of terabytes, those of 32 bits of less than this; so such a request does not fail
/// for want of a hole. Unit: bytes.
const MORE_THAN_A_HOLE: u64 = 1 << 30;

impl Request {
    /// The request in a line that begins a report, if it does.
    pub(crate) fn parse(text: &str) -> Option<Request> {
        if !HEADS.may_be_in(text) {
            return None;
        }
        let (place, words, message) =
            MESSAGES.iter().find_map(|(words, message)| text.find(words).map(|at| (at, words, *message)))?;
        let mut before = text[..place].trim().trim_end_matches(':').trim();
        let mut named = matches!(message, Message::Failure | Message::Stall | Message::OomKiller | Message::Vmalloc);
        let mut order = None;
        if words.starts_with("-order") {
            order = before.rsplit(' ').next().and_then(digits).and_then(|order| u8::try_from(order).ok());
            named = false;
        }
        if let Some((_, process)) = before.split_once("XFS").filter(|_| message == Message::Deadlock("XFS")) {
            // `XFS: runc:[1:CHILD](3580)`, `XFS (sda1)`.
            let process = process.trim_start_matches([':', ' ']);
            before = process.rsplit_once('(').map_or(process, |(process, _)| process).trim();
            named = true;
        }
        let is_name = named && !before.is_empty() && before.len() <= 64 && before != "vmalloc";
        let mut request = Request {
            message,
            process: is_name.then(|| before.to_owned()),
            order,
            gfp: None,
            nodes: Vec::new(),
            cache: None,
            cache_group: None,
            pages: None,
            cma: Cma::default(),
            is_by_hand: false,
            caller: None,
            stalled_ms: None,
            bytes: None,
            lack: None,
        };
        let rest = &text[place + words.len()..];
        request.fill(&text[place..]);
        if matches!(message, Message::Vmalloc | Message::Deadlock(_)) {
            request.size(words, rest);
        }
        Some(request)
    }

    /// Takes the size of a request of vmalloc or of a file system, and what lacked.
    fn size(&mut self, words: &str, rest: &str) {
        let number = |text: &str| digits(&text[..text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())]);
        let marks = ["size=", "size ", ": ", "of "];
        let found = |mark: &&str| rest.find(*mark).and_then(|at| number(&rest[at + mark.len()..]));
        self.bytes = if words.ends_with("size") { number(rest.trim_start()) } else { marks.iter().find_map(found) };
        if self.message == Message::Vmalloc {
            let is_partial = rest.contains("allocated ") || rest.contains("failed to ");
            self.lack = match self.bytes {
                _ if is_partial => None,
                _ if rest.contains("exceeds total pages") => Some(Lack::TooLarge),
                Some(0) => Some(Lack::NothingAsked),
                Some(bytes) if bytes >= MORE_THAN_ANY => Some(Lack::TooLarge),
                Some(bytes) if bytes >= MORE_THAN_A_HOLE => Some(Lack::Large),
                _ => Some(Lack::AddressSpace),
            };
        }
    }

    /// Whether `next` is the same failure, reported in more words: vmalloc prints up to three messages.
    pub(crate) fn takes(&mut self, next: &Request) -> bool {
        let is_same = self.message == Message::Vmalloc
            && (next.message == Message::Failure || next.message == Message::Vmalloc)
            && (self.process.is_none() || next.process.is_none());
        if is_same {
            self.process = self.process.take().or_else(|| next.process.clone());
            self.gfp = self.gfp.take().or_else(|| next.gfp.clone());
            self.bytes = next.bytes.or(self.bytes);
            self.nodes.clone_from(&next.nodes);
        }
        is_same
    }

    /// Takes a frame of the call trace.
    pub(crate) fn frame(&mut self, text: &str) {
        /// What stands between the report and the function that asked, by the beginning of the name.
        const INNER: &str = "dump_ show_stack unwind_ warn_alloc __alloc_pages alloc_pages __alloc_frozen __get_free_pages get_zeroed_page \
             __folio_alloc folio_alloc alloc_page new_slab allocate_slab alloc_slab ___slab_alloc __slab_alloc slab_ kmem_ cache_ \
             ____cache fallback_alloc __kmalloc kmalloc __do_kmalloc ___kmalloc __kmem krealloc kvmalloc __kvmalloc vmalloc __vmalloc \
             vzalloc page_frag __page_frag __napi_alloc_frag __netdev_alloc_frag oom_ out_of_memory __out_of_memory pagefault_out_of_memory \
             __alloc_skb __netdev_alloc_skb netdev_alloc_skb __napi_alloc_skb napi_alloc_skb \
             alloc_skb_with_frags vma_alloc_folio alloc_anon_folio filemap_alloc_folio mempool_alloc dma_ __dma arm_dma cma_ kasan_ save_stack ret_from_ do_DataAbort setup_arch swiotlb_ \
             x86_swiotlb";
        if self.caller.is_some() || !text.contains("+0x") || !text.contains("/0x") {
            return;
        }
        // `[<801047b8>] (warn_alloc_failed) from [<80107e10>] (__alloc_pages+0x848/0x9e0)`: the caller is the last one.
        let Some(word) = text.split_ascii_whitespace().rfind(|word| word.contains("+0x")) else { return };
        let name = word.trim_start_matches('(').split('+').next().unwrap_or("");
        let is_name = !name.is_empty()
            && name.len() <= 64
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.".contains(&b));
        // A frame with `?` may be left from earlier.
        let is_sure =
            !text.contains("? ") && !text.contains("RIP") && !text.contains("PC is") && !text.contains("pc :");
        // The names of Rust are long: the module says more.
        let module = text.trim_end().strip_suffix(']').and_then(|text| text.rsplit_once(" ["));
        if let Some((_, module)) = module.filter(|(_, module)| is_sure && word.len() > 64 && module.len() <= 64) {
            self.caller = Some(format!("the module {module}"));
        }
        if is_name
            && is_sure
            && !crate::locks::is_outermost(name)
            && !INNER.split(' ').any(|inner| name.starts_with(inner))
        {
            let end = [".isra", ".constprop", ".part", ".cold"].iter().filter_map(|end| name.find(end)).min();
            self.caller = Some(name[..end.unwrap_or(name.len())].to_owned());
        }
    }

    /// Takes the free ranges of a CMA area, `4@572+166@1114=> 170 free of 2048 total pages`, and returns whether the line is of them.
    pub(crate) fn ranges(&mut self, text: &str) -> bool {
        if self.message != Message::Cma {
            return false;
        }
        let (ranges, rest) = text.rsplit_once("=>").unwrap_or((text, ""));
        let size = |range: &str| {
            range.split_once('@').filter(|(_, at)| digits(at).is_some()).and_then(|(size, _)| digits(size))
        };
        let longest = ranges.split(['+', ' ', ':']).filter_map(size).max();
        let total = rest.trim().strip_suffix(" total pages").and_then(|rest| rest.split_once(" free of "));
        let total = total.and_then(|(free, total)| Some((digits(free.trim())?, digits(total.trim())?)));
        let is_ranges = longest.is_some() || total.is_some();
        let known = self.cma.free;
        if let (true, Some(longest)) = (is_ranges, longest.max(known.map(|(.., longest)| longest))) {
            let (free, total) = total.or(known.map(|(free, total, _)| (free, total))).unwrap_or_default();
            self.cma.free = Some((free, total, longest));
        }
        is_ranges || text.contains("number of available pages")
    }

    /// Whether the next line may have the rest: mail programs break lines.
    pub(crate) fn is_open(&self) -> bool {
        self.order.is_none() || self.gfp.is_none()
    }

    /// Takes what is missing from a text, and returns whether it had any.
    pub(crate) fn fill(&mut self, text: &str) -> bool {
        let before = self.clone();
        let after = |marks: &[&str]| {
            marks.iter().find_map(|mark| text.find(mark).map(|at| text[at + mark.len()..].trim_start()))
        };
        let number = |text: &str| {
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            digits(&text[..end])
        };
        if self.order.is_none() {
            let order = after(&["min order:", "page order", "order:", "order="]).and_then(number);
            self.order = order.and_then(|order| u8::try_from(order).ok()).filter(|order| *order < 32);
        }
        self.stalled_ms = self.stalled_ms.or_else(|| after(&["stalls for "]).and_then(number));
        self.is_by_hand |= text.contains("order=-1");
        if self.gfp.is_none()
            && let Some(mode) = after(&["mode:", "gfp_mask=", "gfp="])
        {
            let hex = mode.strip_prefix("0x").unwrap_or(mode);
            let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
            let names = hex[end..].strip_prefix('(').filter(|rest| rest.starts_with(['G', '_']));
            self.gfp = match (names, u64::from_str_radix(&hex[..end], 16)) {
                (Some(names), _) => Some(Gfp::from_names(&names[..names.find([')', ' ', ',']).unwrap_or(names.len())])),
                (None, Ok(mask)) => Some(Gfp::from_mask(mask)),
                (None, Err(_)) => None,
            };
        }
        if let Some(allowed) = after(&["mems_allowed="]) {
            let end = allowed.find(|c: char| !c.is_ascii_digit() && !matches!(c, ',' | '-')).unwrap_or(allowed.len());
            let ranges = pageset_trace::number::ranges(allowed[..end].trim_end_matches(','));
            self.nodes = ranges.flatten().take(1024).flatten().take(1024).collect();
        }
        // `nodemask=(null)` allows all.
        if let Some(mask) = after(&["nodemask="]).filter(|mask| mask.starts_with(|c: char| c.is_ascii_digit())) {
            let end = mask.find(|c: char| !c.is_ascii_digit() && !matches!(c, ',' | '-')).unwrap_or(mask.len());
            let ranges = pageset_trace::number::ranges(mask[..end].trim_end_matches(','));
            let mask: Vec<u32> = ranges.flatten().take(1024).flatten().take(1024).collect();
            match self.nodes.is_empty() {
                true => self.nodes = mask,
                false => self.nodes.retain(|node| mask.contains(node)),
            }
        }
        if let Some(cache) = after(&["cache:"]) {
            self.cache = cache.split([',', '(']).next().map(|name| name.trim().to_owned());
            // `kmalloc-1024(1793:c8ed…)`, up to 5.8.
            let group = cache.split_once('(').and_then(|(_, group)| group.split_once(':'));
            self.cache_group = group.and_then(|(group, _)| digits(group));
        }
        if self.pages.is_none() {
            self.pages = after(&["req-size:"]).and_then(number);
            self.cma.error = after(&["ret: -", "ret:-"]).and_then(number);
        }
        *self != before
    }
}

/// The kernel's release in a line of a log or of `uname -a`, if there is one.
pub(crate) fn release(text: &str) -> Option<&str> {
    let is_release = |word: &&str| word.contains('.') && pageset::policy::Release::parse(word).is_some();
    if let Some(at) = text.find("Linux version ") {
        return text[at + 14..].split_ascii_whitespace().next().filter(is_release);
    }
    if !text.contains("ainted") && !text.contains("Linux ") {
        return None;
    }
    let before = text.split(" #").next().filter(|before| before.len() < text.len())?;
    before.split_ascii_whitespace().next_back().filter(is_release)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_all_kernels() {
        let request = |text: &str| Request::parse(text).unwrap();
        let old = request("swapper: page allocation failure. order:1, mode:0x20");
        assert_eq!((old.process.as_deref(), old.order), (Some("swapper"), Some(1)));
        let gfp = old.gfp.unwrap();
        assert_eq!((gfp.class, gfp.high, gfp.waits, gfp.short().as_str()), (Class::Normal, true, false, "GFP_ATOMIC"));
        for (mode, class, high, waits, movable) in [
            // Up to 4.3, without names.
            ("0xd0", Class::Normal, false, true, false),
            ("0x4020", Class::Normal, true, false, false),
            ("0x10d0", Class::Normal, false, true, false),
            ("0x280da", Class::Movable, false, true, true),
            ("0xd1", Class::Dma, false, true, false),
            ("0xd4", Class::Dma32, false, true, false),
            ("0x200d2", Class::HighMem, false, true, false),
            // 4.4 and 4.5.
            ("0x2080020", Class::Normal, true, false, false),
            ("0x24000c0", Class::Normal, false, true, false),
            ("0x2204010", Class::Normal, false, false, false),
            // With names.
            ("0x14200ca(GFP_HIGHUSER_MOVABLE)", Class::Movable, false, true, true),
            ("0xa20(GFP_ATOMIC)", Class::Normal, true, false, false),
            ("0x800(GFP_NOWAIT)", Class::Normal, false, false, false),
            ("0x40dc0(GFP_KERNEL|__GFP_COMP|__GFP_ZERO)", Class::Normal, false, true, false),
            ("0xcc4(GFP_KERNEL|GFP_DMA32)", Class::Dma32, false, true, false),
        ] {
            let gfp =
                request(&format!("x: page allocation failure: order:0, mode:{mode}, nodemask=(null)")).gfp.unwrap();
            assert_eq!((gfp.class, gfp.high, gfp.waits, gfp.movable), (class, high, waits, movable), "{mode}");
        }
        let oom =
            request("CPU 0/KVM invoked oom-killer: gfp_mask=0x15000c0(GFP_KERNEL_ACCOUNT), nodemask=(null), order=0");
        assert_eq!((oom.message, oom.order, oom.process.as_deref()), (Message::OomKiller, Some(0), Some("CPU 0/KVM")));
        let cma = request("cma: cma_alloc: alloc failed, req-size: 2025 pages, ret: -12");
        assert_eq!((cma.message, cma.pages, cma.order), (Message::Cma, Some(2025), None));
        let nodes = request("x: page allocation failure: order:0, mode:0x20, cpuset=/,mems_allowed=0-1,3").nodes;
        assert_eq!(nodes, [0, 1, 3]);
        let within =
            request("x: page allocation failure: order:0, mode:0x20, nodemask=1-2,cpuset=/,mems_allowed=0-1").nodes;
        assert_eq!(within, [1]);
        let oldest = request("__alloc_pages: 3-order allocation failed (gfp=0x1d2/0)");
        assert_eq!((oldest.order, oldest.process, oldest.gfp.unwrap().waits), (Some(3), None, true));
        assert_eq!(Request::parse("Mem-Info:"), None);
    }

    #[test]
    fn requests_of_vmalloc_and_of_file_systems() {
        for (text, process, bytes, lack) in [
            ("vmap allocation for size 36864 failed: use vmalloc=<size>", None, 36_864, Some(Lack::AddressSpace)),
            ("vmalloc: allocation failure: 3760332 bytes", None, 3_760_332, Some(Lack::AddressSpace)),
            ("vmalloc: allocation failure: 18446744073709551615 bytes", None, u64::MAX, Some(Lack::TooLarge)),
            (
                "ins: vmalloc: allocation failure: 32768 bytes, mode:0xcc0(GFP_KERNEL)",
                Some("ins"),
                32_768,
                Some(Lack::AddressSpace),
            ),
            ("vmalloc: allocation failure: 0 bytes", None, 0, Some(Lack::NothingAsked)),
            ("x: vmalloc: allocation failure, allocated 4096 of 8192 bytes", Some("x"), 8192, None),
            (
                "x: vmalloc error: size 8192, page order 0, failed to allocate pages, mode:0xcc0(GFP_KERNEL)",
                Some("x"),
                8192,
                None,
            ),
            ("x: vmalloc error: size 8192, vm_struct allocation failed", Some("x"), 8192, Some(Lack::AddressSpace)),
            ("x: vmalloc error: size 8192, exceeds total pages", Some("x"), 8192, Some(Lack::TooLarge)),
            ("Possible memory allocation deadlock: size=44037 lflags=0x4210", None, 44_037, None),
            (
                "XFS: x:[1](3580) possible memory allocation deadlock size 144 in kmem_alloc (mode:0x250)",
                Some("x:[1]"),
                144,
                None,
            ),
        ] {
            let found = Request::parse(text).unwrap();
            assert_eq!((found.process.as_deref(), found.bytes, found.lack), (process, Some(bytes), lack), "{text}");
        }
        let mut first = Request::parse("vmalloc: allocation failure: 37798136 bytes").unwrap();
        assert!(first.takes(&Request::parse("ins: page allocation failure: order:0, mode:0xd2").unwrap()));
        assert_eq!((first.process.as_deref(), first.gfp.is_some()), (Some("ins"), true));
        assert!(!first.takes(&Request::parse("ins: page allocation failure: order:0, mode:0xd2").unwrap()));
    }

    #[test]
    fn free_ranges_of_cma() {
        let mut request = Request::parse("cma: cma_alloc: alloc failed, req-size: 256 pages, ret: -12").unwrap();
        assert!(request.ranges("number of available pages: 4@572+166@1114+"));
        assert_eq!(request.cma.free, Some((0, 0, 166)));
        assert!(request.ranges("7@585=> 177 free of 2048 total pages"));
        for other in ["user@host:~$", "7@host:~$ dmesg", "[ 1.0] usb 1-1: a@b"] {
            assert!(!request.ranges(other), "{other}");
        }
        assert_eq!(request.cma.free, Some((177, 2048, 166)));
        assert!(request.ranges("3@9"));
        assert_eq!(request.cma.free, Some((177, 2048, 166)));
        let mut other = Request::parse("x: page allocation failure: order:0, mode:0x20").unwrap();
        assert!(!other.ranges("4@572=> 4 free of 2048 total pages") && other.cma.free.is_none());
    }

    #[test]
    fn callers_are_outside_of_the_allocators() {
        for (inner, caller) in [
            ("folio_alloc_mpol_noprof vma_alloc_folio_noprof alloc_anon_folio", "do_anonymous_page"),
            ("alloc_pages_mpol filemap_alloc_folio_noprof", "page_cache_ra_unbounded"),
            ("__alloc_skb alloc_skb_with_frags", "sock_alloc_send_pskb"),
            ("kmem_cache_alloc_noprof mempool_alloc_noprof", "bio_alloc_bioset"),
        ] {
            let mut request = Request::parse("x: page allocation failure: order:0, mode:0x20").unwrap();
            for frame in inner.split(' ').chain([caller]) {
                request.frame(&format!(" {frame}+0x12/0x340"));
            }
            assert_eq!(request.caller.as_deref(), Some(caller), "{inner}");
        }
    }

    #[test]
    fn broken_lines_are_filled() {
        let mut request = Request::parse("java: page allocation failure: order:0,").unwrap();
        assert!(request.is_open() && request.fill("mode:0x2084120(GFP_ATOMIC|__GFP_COLD") && !request.is_open());
        assert!(request.gfp.unwrap().high);
    }

    #[test]
    fn releases() {
        for (text, expected) in [
            ("CPU: 7 PID: 1 Comm: java Not tainted 4.9.24-coreos #1", Some("4.9.24-coreos")),
            ("Pid: 0, comm: swapper Tainted: P         C O 3.8.0-1-mainline #1", Some("3.8.0-1-mainline")),
            ("Linux version 6.1.73 (root@x) #3 SMP", Some("6.1.73")),
            ("Linux box 3.6.11+ #362 PREEMPT", Some("3.6.11+")),
            ("order 5 #3", None),
        ] {
            assert_eq!(release(text), expected, "{text}");
        }
    }
}
