//! A line of an event, in each tool's form.
//!
//! All tools write an event as one line: the task and its number, the CPU in brackets, perhaps flags, the time, the event's
//! name, and its fields.
//!
//! ```text
//!        dd 193 [001] 435.725794:  kmem:mm_page_free: page=0x1 pfn=0x1 order=0      perf script
//!        dd-193 [001] 435.725794: mm_page_free:  page=0x1 pfn=0x1 order=0           trace-cmd report
//!        dd-193 [001] d..1. 435.725794: mm_page_free: page=0x1 pfn=0x1 order=0      ftrace
//!        dd-193   1d..1. 435.725794: mm_page_free: page=0x1 pfn=0x1 order=0         trace-cmd report -l
//! ```

use pageset::Order;

use crate::event::{Context, Event, Kind};
use crate::limits::{self, ORDER_ALLOWED, PFN_ALLOWED};
use crate::tracepoint::decode::{VMSTAT_UPDATE, marker};

/// The tool that wrote a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `perf script`: the task's number is a word of its own.
    Perf,
    /// trace-cmd and ftrace: the task's number follows a hyphen.
    Ftrace,
}

/// The parts of a line that all events have.
pub(super) struct Line<'a> {
    pub(super) dialect: Dialect,
    pub(super) pid: u32,
    pub(super) cpu: Option<u64>,
    pub(super) context: Context,
    pub(super) time_ns: u64,
    /// Whether the time is a count, not seconds.
    pub(super) is_count: bool,
    pub(super) name: &'a str,
    pub(super) fields: &'a str,
}

impl<'a> Line<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Line<'a>> {
        let mut at = 0;
        for word in text.split_ascii_whitespace() {
            let start = at + text[at..].find(word)?;
            at = start + word.len();
            if let Some((time_ns, is_count)) = word.strip_suffix(':').and_then(time)
                && let Some((dialect, pid, cpu, context)) = task(&text[..start])
            {
                let mut rest = text[at..].trim_ascii_start();
                // perf may print the event's period first.
                let (first, after) = rest.split_once(' ').unwrap_or((rest, ""));
                if dialect == Dialect::Perf && first.bytes().all(|b| b.is_ascii_digit()) {
                    rest = after.trim_ascii_start();
                }
                // `trace-cmd report --ts-diff` prints the time since the last event.
                if let Some((_, after)) = rest.strip_prefix("(+").and_then(|rest| rest.split_once(") ")) {
                    rest = after.trim_ascii_start();
                }
                let (name, fields) = rest.split_once(' ').unwrap_or((rest, ""));
                let name = name.trim_end_matches(':');
                let name = name.rsplit_once(':').map_or(name, |(_system, name)| name);
                return Some(Line { dialect, pid, cpu, context, time_ns, is_count, name, fields });
            }
        }
        None
    }

    /// The value of `NAME=VALUE`.
    pub(super) fn field(&self, name: &str) -> Option<&'a str> {
        let mut words = self.fields.split_ascii_whitespace().rev();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    fn number(&self, name: &str) -> Option<u64> {
        let text = self.field(name)?;
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }

    /// The kind of the event. `None` if it is not part of a recording; an error names the wrong field.
    pub(super) fn kind(&self) -> Result<Option<Kind>, (&'static str, &'static str)> {
        let pfn = |name| self.number(name).and_then(limits::pfn).ok_or((name, PFN_ALLOWED));
        let order = |name| {
            let order = self.number(name).and_then(|order| u8::try_from(order).ok()).and_then(Order::new);
            order.ok_or((name, ORDER_ALLOWED))
        };
        let small = |name| {
            let number = self.number(name).and_then(|number| u8::try_from(number).ok());
            number.ok_or((name, "a number from 0 to 255"))
        };
        Ok(Some(match self.name {
            "mm_page_alloc" => Kind::Alloc {
                pfn: self.allocated().then(|| pfn("pfn")).transpose()?,
                order: order("order")?,
                migratetype: small("migratetype")?,
                gfp: self.field("gfp_flags").and_then(gfp).ok_or(("gfp_flags", "names of flags, joined with `|`"))?,
            },
            "mm_page_free" => Kind::Free { pfn: pfn("pfn")?, order: order("order")? },
            "mm_page_free_batched" => Kind::FreeBatched { pfn: pfn("pfn")? },
            "mm_page_alloc_zone_locked" => {
                let order = order("order")?;
                let percpu_refill = match self.field("percpu_refill") {
                    Some(_) => small("percpu_refill")? != 0,
                    None => order == Order::ZERO,
                };
                Kind::ZoneLocked { pfn: pfn("pfn")?, order, migratetype: small("migratetype")?, percpu_refill }
            }
            "mm_page_pcpu_drain" => {
                Kind::Drain { pfn: pfn("pfn")?, order: order("order")?, migratetype: small("migratetype")? }
            }
            "mm_page_alloc_extfrag" => Kind::ExtFrag {
                pfn: pfn("pfn")?,
                alloc_order: order("alloc_order")?,
                fallback_order: order("fallback_order")?,
                alloc_migratetype: small("alloc_migratetype")?,
                fallback_migratetype: small("fallback_migratetype")?,
                change_ownership: small("change_ownership")? != 0,
            },
            "workqueue_execute_start" if self.fields.trim_ascii_end().ends_with(VMSTAT_UPDATE) => Kind::VmstatWork,
            "mm_vmscan_kswapd_wake" => Kind::KswapdWake,
            "mm_vmscan_kswapd_sleep" => Kind::KswapdSleep,
            "mm_vmscan_direct_reclaim_begin" => Kind::DirectReclaim,
            "sched_process_fork" => {
                let child = self.number("child_pid").and_then(|child| u32::try_from(child).ok());
                Kind::Fork { child: child.ok_or(("child_pid", "a number below 2^32"))? }
            }
            "tracing_mark_write" | "print" => {
                // trace-cmd puts the place of the write before the text.
                let text = ["ZB ", "ZE "].into_iter().find_map(|mark| self.fields.find(mark));
                return Ok(text.and_then(|at| marker(&self.fields.as_bytes()[at..])));
            }
            _ => return Ok(None),
        }))
    }

    /// Whether an allocation has a page: a failed one is printed with page frame 0 or with all ones.
    fn allocated(&self) -> bool {
        !matches!(self.number("pfn"), Some(0 | u64::MAX))
    }
}

/// A time in seconds with a fraction, in nanoseconds; or a whole number, and `true`.
fn time(text: &str) -> Option<(u64, bool)> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some((seconds, fraction)) = text.split_once('.') else {
        return if digits(text) { Some((text.parse().ok()?, true)) } else { None };
    };
    if !digits(seconds) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let seconds: u64 = seconds.parse().ok()?;
    Some((seconds.checked_mul(1_000_000_000)?.checked_add(fraction.parse::<u64>().ok()? * scale)?, false))
}

/// The task, the CPU and the context, from the text before the time.
fn task(text: &str) -> Option<(Dialect, u32, Option<u64>, Context)> {
    let mut words = text.split_ascii_whitespace().rev();
    let mut word = words.next()?;
    let bracketed = |word: &str| word.strip_prefix('[')?.strip_suffix(']')?.parse::<u64>().ok();
    let (mut cpu, mut context) = (bracketed(word), Context::Process);
    // ftrace's flags: the third one is the context.
    let context_of = |flags: &str| match flags.as_bytes().get(2) {
        Some(b'z' | b'Z') => Context::Nmi,
        Some(b'h' | b'H') => Context::HardIrq,
        Some(b's') => Context::SoftIrq,
        _ => Context::Process,
    };
    if cpu.is_some() {
        word = words.next()?;
    } else if let Some((number, flags)) = cpu_and_flags(word) {
        (cpu, context) = (Some(number), context_of(flags));
        word = words.next()?;
    } else if let Some(before) = words.clone().next()
        && let Some(number) = bracketed(before)
    {
        (cpu, context) = (Some(number), context_of(word));
        words.next();
        word = words.next()?;
    }
    // ftrace's number of the process, if the option `record-tgid` is set: `( 123)` or `(-----)`.
    if word.ends_with(')') {
        if !word.starts_with('(') {
            words.next();
        }
        word = words.next()?;
    }
    let number = |text: &str| text.parse::<u32>().ok();
    // perf prints `TID` or `PID/TID`.
    let perf = number(word.rsplit_once('/').map_or(word, |(_, tid)| tid)).filter(|_| words.next().is_some());
    if let Some(pid) = perf {
        return Some((Dialect::Perf, pid, cpu, context));
    }
    let (_, pid) = word.rsplit_once('-')?;
    cpu?;
    Some((Dialect::Ftrace, number(pid)?, cpu, context))
}

/// The CPU and the flags in one word, as in ftrace's latency format: `1d..1.`.
fn cpu_and_flags(word: &str) -> Option<(u64, &str)> {
    let flags = word.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_flags = (4..=8).contains(&flags.len()) && flags.bytes().all(|b| b == b'.' || b.is_ascii_alphanumeric());
    let cpu = word[..word.len() - flags.len()].parse().ok()?;
    (is_flags && flags.contains('.')).then_some((cpu, flags))
}

/// The bits of a request's flags by their names, as kernels from 6.10 on number them. A replay uses bits 0 to 5 and 10,
/// which are the same in all kernels that print these names.
const GFP: [(&str, u32); 38] = [
    ("GFP_TRANSHUGE", 0x1c_24ca),
    ("GFP_TRANSHUGE_LIGHT", 0x1c_20ca),
    ("GFP_HIGHUSER_MOVABLE", 0x10_0cca),
    ("GFP_HIGHUSER", 0x10_0cc2),
    ("GFP_USER", 0x10_0cc0),
    ("GFP_KERNEL_ACCOUNT", 0x40_0cc0),
    ("GFP_KERNEL", 0xcc0),
    ("GFP_NOFS", 0xc40),
    ("GFP_ATOMIC", 0x820),
    ("GFP_NOIO", 0xc00),
    ("GFP_NOWAIT", 0x2800),
    ("GFP_DMA", 0x1),
    ("GFP_DMA32", 0x4),
    ("__GFP_RECLAIM", 0xc00),
    ("__GFP_DMA", 0x1),
    ("__GFP_HIGHMEM", 0x2),
    ("__GFP_DMA32", 0x4),
    ("__GFP_MOVABLE", 0x8),
    ("__GFP_RECLAIMABLE", 0x10),
    ("__GFP_HIGH", 0x20),
    ("__GFP_IO", 0x40),
    ("__GFP_FS", 0x80),
    ("__GFP_ZERO", 0x100),
    ("__GFP_DIRECT_RECLAIM", 0x400),
    ("__GFP_KSWAPD_RECLAIM", 0x800),
    ("__GFP_WRITE", 0x1000),
    ("__GFP_NOWARN", 0x2000),
    ("__GFP_RETRY_MAYFAIL", 0x4000),
    ("__GFP_NOFAIL", 0x8000),
    ("__GFP_NORETRY", 0x1_0000),
    ("__GFP_MEMALLOC", 0x2_0000),
    ("__GFP_COMP", 0x4_0000),
    ("__GFP_NOMEMALLOC", 0x8_0000),
    ("__GFP_HARDWALL", 0x10_0000),
    ("__GFP_THISNODE", 0x20_0000),
    ("__GFP_ACCOUNT", 0x40_0000),
    ("__GFP_ZEROTAGS", 0x80_0000),
    ("__GFP_NO_OBJ_EXT", 0x100_0000),
];

/// The flags of a request. Unknown names, which other kernels have, are no bits.
fn gfp(text: &str) -> Option<u32> {
    let mut bits = 0;
    for name in text.split('|') {
        let known = GFP.into_iter().find(|&(known, _)| known == name).map(|(_, bits)| bits);
        bits |= match name.strip_prefix("0x") {
            // The bits that the kernel had no name for, or all of them.
            Some(digits) => u32::from_str_radix(digits, 16).ok()?,
            None if name == "none" || name.starts_with("GFP_") || name.starts_with("__GFP_") => known.unwrap_or(0),
            None => name.parse().ok()?,
        };
    }
    Some(bits)
}

/// Names of the flags of a request, as the kernel prints them; flags without a name are a number.
fn gfp_names(gfp: u32) -> String {
    let (mut left, mut names) = (gfp, Vec::new());
    for (name, bits) in GFP {
        if left & bits == bits {
            left &= !bits;
            names.push(name.to_owned());
        }
    }
    match left {
        _ if gfp == 0 => "none".to_owned(),
        0 => names.join("|"),
        _ => format!("{}{}{left:#x}", names.join("|"), if names.is_empty() { "" } else { "|" }),
    }
}

/// The event as a line of `perf script --ns`. `None` for markers, and for what no tracepoint shows: bulk allocations and
/// changes of state.
pub fn perf_script_line(event: &Event) -> Option<String> {
    let text = match &event.kind {
        Kind::Alloc { pfn, order, migratetype, gfp } => {
            let (pfn, order, gfp) = (pfn.map_or(0, |pfn| pfn.0), order.get(), gfp_names(*gfp));
            let fields = format!("order={order} migratetype={migratetype} gfp_flags={gfp}");
            format!("kmem:mm_page_alloc: page={pfn:#x} pfn={pfn:#x} {fields}")
        }
        Kind::Free { pfn, order } => {
            format!("kmem:mm_page_free: page={0:#x} pfn={0:#x} order={1}", pfn.0, order.get())
        }
        Kind::FreeBatched { pfn } => format!("kmem:mm_page_free_batched: page={0:#x} pfn={0:#x} order=0", pfn.0),
        Kind::ZoneLocked { pfn, order, migratetype, percpu_refill } => format!(
            "kmem:mm_page_alloc_zone_locked: page={0:#x} pfn={0:#x} order={1} migratetype={migratetype} percpu_refill={2}",
            pfn.0,
            order.get(),
            u8::from(*percpu_refill)
        ),
        Kind::Drain { pfn, order, migratetype } => format!(
            "kmem:mm_page_pcpu_drain: page={0:#x} pfn={0:#x} order={1} migratetype={migratetype}",
            pfn.0,
            order.get()
        ),
        Kind::ExtFrag {
            pfn,
            alloc_order,
            fallback_order,
            alloc_migratetype,
            fallback_migratetype,
            change_ownership,
        } => format!(
            "kmem:mm_page_alloc_extfrag: page={0:#x} pfn={0:#x} alloc_order={1} fallback_order={2} \
             alloc_migratetype={alloc_migratetype} fallback_migratetype={fallback_migratetype} change_ownership={3}",
            pfn.0,
            alloc_order.get(),
            fallback_order.get(),
            u8::from(*change_ownership)
        ),
        Kind::VmstatWork => format!("workqueue:workqueue_execute_start: work struct 0x0: function {VMSTAT_UPDATE}"),
        Kind::KswapdWake => "vmscan:mm_vmscan_kswapd_wake: nid=0 order=0".to_owned(),
        Kind::KswapdSleep => "vmscan:mm_vmscan_kswapd_sleep: nid=0".to_owned(),
        Kind::DirectReclaim => "vmscan:mm_vmscan_direct_reclaim_begin: order=0".to_owned(),
        Kind::Fork { child } => {
            format!("sched:sched_process_fork: comm=:{0} pid={0} child_comm=:{child} child_pid={child}", event.pid)
        }
        Kind::BulkAlloc { .. } | Kind::StateChange(_) | Kind::SnapshotBegin(_) | Kind::SnapshotEnd(_) => return None,
    };
    let (seconds, ns) = (event.time_ns / 1_000_000_000, event.time_ns % 1_000_000_000);
    // perf prints a process whose name it does not know as its number after a colon.
    Some(format!("{:>16} {:>7} [{:03}] {seconds}.{ns:09}: {text}", format!(":{}", event.pid), event.pid, event.cpu.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str = "mm_page_free: page=0x1 pfn=0x5a order=1";

    fn parsed(head: &str) -> Option<(Dialect, u32, Option<u64>, Context, u64)> {
        let text = format!("{head} {EVENT}");
        let line = Line::parse(&text)?;
        assert_eq!(
            line.kind(),
            Ok(Some(Kind::Free { pfn: pageset::Pfn(0x5a), order: Order::new(1).unwrap() })),
            "{head}"
        );
        Some((line.dialect, line.pid, line.cpu, line.context, line.time_ns))
    }

    #[test]
    fn variants_of_the_common_shape() {
        use Context::{HardIrq, Nmi, Process, SoftIrq};
        use Dialect::{Ftrace, Perf};
        let rows = [
            ("  dd 193 [001] 435.725794:", (Perf, 193, Some(1), Process, 435_725_794_000)),
            ("  lto dqhov [1] 9: x 193/194 [001] 435.725794123:  1", (Perf, 194, Some(1), Process, 435_725_794_123)),
            ("kworker/1:2-ev 7 435.5:", (Perf, 7, None, Process, 435_500_000_000)),
            ("  dd-193 [001] 435.725794:", (Ftrace, 193, Some(1), Process, 435_725_794_000)),
            (" a b-c-193  [017] ..s1. 5.000001:", (Ftrace, 193, Some(17), SoftIrq, 5_000_001_000)),
            ("<idle>-0     [000] d.h.. 5.000001:", (Ftrace, 0, Some(0), HardIrq, 5_000_001_000)),
            ("<...>-7 (     7) [000] d.Z3 5.000001:", (Ftrace, 7, Some(0), Nmi, 5_000_001_000)),
            ("<...>-7 (-------) [000] .... 12345:", (Ftrace, 7, Some(0), Process, 12345)),
            ("trace-cm-1464   12d.s1. 5.000001:", (Ftrace, 1464, Some(12), SoftIrq, 5_000_001_000)),
            ("dd-193 [001] 435.725794: (+5270) ", (Ftrace, 193, Some(1), Process, 435_725_794_000)),
        ];
        for (head, expected) in rows {
            assert_eq!(parsed(head), Some(expected), "{head}");
        }
        for head in
            ["dd-193 435.7:", "435.7:", "[001] 435.7:", "dd-x [001] 435.7:", "dd-193 [001] 435.7", "=> 1 [0] x:"]
        {
            assert_eq!(parsed(head), None, "{head}");
        }
    }
}
