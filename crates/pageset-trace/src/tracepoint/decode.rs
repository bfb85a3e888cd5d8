//! Decodes raw records into [`Event`]s, with ids and offsets from the running kernel's `format` files.

use pageset::{CpuId, Order, Pfn};

use super::format::{Field, Format, FormatError};
use crate::event::{Context, Event, Kind, StateChange};
use crate::limits;

/// `common_flags`: in a hard interrupt. Part of the kernel's interface to trace readers.
const FLAG_HARDIRQ: u64 = 0x08;
/// `common_flags`: in a soft interrupt.
const FLAG_SOFTIRQ: u64 = 0x10;
/// `common_flags`: in a non-maskable interrupt.
const FLAG_NMI: u64 = 0x40;

/// A recorded event, and the consequence of its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracepoint {
    /// The folder of the event.
    pub system: &'static str,
    /// The event.
    pub name: &'static str,
    /// The consequence of its absence; `None` if the event is required.
    pub without: Option<&'static str>,
}

/// The work that decays pagesets once a second: a `workqueue_execute_start` of its function.
pub const VMSTAT_WORK: Tracepoint = Tracepoint {
    system: "workqueue",
    name: "workqueue_execute_start",
    without: Some("the times of the once-a-second decay are unknown, so drains come out too few"),
};

/// The function of that work.
pub const VMSTAT_UPDATE: &str = "vmstat_update";

/// All events of a recording except the markers and [`VMSTAT_WORK`], which needs a filter. Specification:
/// `trace-replay.md` 4.
pub const TRACEPOINTS: [Tracepoint; 10] = {
    const fn of(system: &'static str, name: &'static str, without: Option<&'static str>) -> Tracepoint {
        Tracepoint { system, name, without }
    }
    const NO_REFILLS: Option<&str> = Some("the kernel's refills are unknown: nothing to compare a replay with");
    const NO_DRAINS: Option<&str> = Some("the kernel's drains are unknown: nothing to compare a replay with");
    const NO_BATCHES: Option<&str> = Some("pages freed in batches seem to be freed a little too early");
    const NO_RECLAIM: Option<&str> = Some("memory pressure while recording goes unnoticed");
    [
        of("kmem", "mm_page_alloc", None),
        of("kmem", "mm_page_free", None),
        of("kmem", "mm_page_free_batched", NO_BATCHES),
        of("kmem", "mm_page_alloc_zone_locked", NO_REFILLS),
        of("kmem", "mm_page_pcpu_drain", NO_DRAINS),
        of("kmem", "mm_page_alloc_extfrag", Some("pages taken from other types' pageblocks go unnoticed")),
        of("vmscan", "mm_vmscan_kswapd_wake", NO_RECLAIM),
        of("vmscan", "mm_vmscan_kswapd_sleep", NO_RECLAIM),
        of("vmscan", "mm_vmscan_direct_reclaim_begin", NO_RECLAIM),
        of("sched", "sched_process_fork", Some("the children of a process cannot be told to be its own")),
    ]
};

/// The probe event at the begin of a bulk allocation.
pub const BULK_BEGIN: &str = "bulk_begin";
/// The probe event at the end of a bulk allocation.
pub const BULK_END: &str = "bulk_end";

/// The probe event of [`StateChange::ReclaimEnded`].
pub const RECLAIM_ENDED: &str = "reclaim_ended";
/// The probe event of [`StateChange::CpuOffline`].
pub const CPU_OFFLINE: &str = "cpu_offline";
/// The probe event of [`StateChange::CpuOnline`].
pub const CPU_ONLINE: &str = "cpu_online";
/// The probe event of [`StateChange::PagesetsOff`].
pub const PAGESETS_OFF: &str = "pagesets_off";
/// The probe event of [`StateChange::PagesetsOn`].
pub const PAGESETS_ON: &str = "pagesets_on";
/// The probe events of [`StateChange::ZoneCounter`]: two functions change counters.
pub const ZONE_COUNTER: [&str; 2] = ["zone_counter", "zone_counter_irq_safe"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BulkRequest {
    pub(super) asked: u32,
    pub(super) gfp: u32,
    pub(super) node: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Event(Kind),
    BulkBegin(BulkRequest),
    /// The innermost bulk allocation of this process ends; its array now has `got` pages.
    BulkEnd {
        got: u32,
    },
}

/// A record: an [`Event`], or one of the two parts of a bulk allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) time_ns: u64,
    pub(super) cpu: CpuId,
    pub(super) pid: u32,
    pub(super) context: Context,
    pub(super) content: Content,
}

/// The fields of one event.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Alloc {
        pfn: Field,
        order: Field,
        migratetype: Field,
        gfp: Field,
    },
    Free {
        pfn: Field,
        order: Field,
    },
    FreeBatched {
        pfn: Field,
    },
    ZoneLocked {
        pfn: Field,
        order: Field,
        migratetype: Field,
        percpu_refill: Option<Field>,
    },
    Drain {
        pfn: Field,
        order: Field,
        migratetype: Field,
    },
    ExtFrag {
        pfn: Field,
        orders: [Field; 2],
        migratetypes: [Field; 2],
        change_ownership: Field,
    },
    Plain(fn() -> Kind),
    /// A work that starts; only the work of `address` counts, if it is given.
    Work {
        function: Option<Field>,
        address: Option<u64>,
    },
    Fork {
        child: Field,
    },
    CpuChange(fn(CpuId) -> StateChange, Field),
    ZoneChange(fn(Pfn) -> StateChange, Field),
    ZoneCounter {
        start: Field,
        counter: Field,
        change: Field,
    },
    Marker {
        text: Field,
    },
    BulkBegin {
        asked: Field,
        gfp: Field,
        node: Field,
    },
    BulkEnd {
        got: Field,
    },
}

impl Shape {
    fn of(format: &Format) -> Result<Option<Self>, FormatError> {
        let field = |name| format.field(name);
        Ok(Some(match format.name.as_str() {
            "mm_page_alloc" => Shape::Alloc {
                pfn: field("pfn")?,
                order: field("order")?,
                migratetype: field("migratetype")?,
                gfp: field("gfp_flags")?,
            },
            "mm_page_free" => Shape::Free { pfn: field("pfn")?, order: field("order")? },
            "mm_page_free_batched" => Shape::FreeBatched { pfn: field("pfn")? },
            "mm_page_alloc_zone_locked" => Shape::ZoneLocked {
                pfn: field("pfn")?,
                order: field("order")?,
                migratetype: field("migratetype")?,
                percpu_refill: field("percpu_refill").ok(),
            },
            "mm_page_pcpu_drain" => {
                Shape::Drain { pfn: field("pfn")?, order: field("order")?, migratetype: field("migratetype")? }
            }
            "mm_page_alloc_extfrag" => Shape::ExtFrag {
                pfn: field("pfn")?,
                orders: [field("alloc_order")?, field("fallback_order")?],
                migratetypes: [field("alloc_migratetype")?, field("fallback_migratetype")?],
                change_ownership: field("change_ownership")?,
            },
            "workqueue_execute_start" => Shape::Work { function: field("function").ok(), address: None },
            "mm_vmscan_kswapd_wake" => Shape::Plain(|| Kind::KswapdWake),
            "mm_vmscan_kswapd_sleep" => Shape::Plain(|| Kind::KswapdSleep),
            "mm_vmscan_direct_reclaim_begin" => Shape::Plain(|| Kind::DirectReclaim),
            "sched_process_fork" => Shape::Fork { child: field("child_pid")? },
            "print" => Shape::Marker { text: field("buf")? },
            RECLAIM_ENDED => Shape::Plain(|| Kind::StateChange(StateChange::ReclaimEnded)),
            CPU_OFFLINE => Shape::CpuChange(StateChange::CpuOffline, field("cpu")?),
            CPU_ONLINE => Shape::CpuChange(StateChange::CpuOnline, field("cpu")?),
            PAGESETS_OFF => Shape::ZoneChange(StateChange::PagesetsOff, field("start")?),
            PAGESETS_ON => Shape::ZoneChange(StateChange::PagesetsOn, field("start")?),
            name if ZONE_COUNTER.contains(&name) => {
                Shape::ZoneCounter { start: field("start")?, counter: field("counter")?, change: field("change")? }
            }
            BULK_BEGIN => Shape::BulkBegin { asked: field("asked")?, gfp: field("gfp")?, node: field("node")? },
            BULK_END => Shape::BulkEnd { got: field("got")? },
            _ => return Ok(None),
        }))
    }

    fn read(&self, record: &[u8]) -> Option<Content> {
        Some(match *self {
            Shape::BulkBegin { asked, gfp, node } => {
                let asked = u32::try_from(asked.read(record)?).ok().filter(|&asked| asked <= limits::MAX_BULK)?;
                let node = node.read(record)?.cast_signed();
                // The kernel treats any negative number as no node.
                let node = i32::try_from(node.max(-1)).ok().filter(|&node| node < limits::MAX_NODES as i32)?;
                Content::BulkBegin(BulkRequest { asked, gfp: gfp.read(record)? as u32, node })
            }
            Shape::BulkEnd { got } => Content::BulkEnd { got: u32::try_from(got.read(record)?).ok()? },
            _ => Content::Event(self.read_event(record)?),
        })
    }

    fn read_event(&self, record: &[u8]) -> Option<Kind> {
        let pfn = |field: Field| field.read(record).filter(|&pfn| !field.is_all_ones(pfn)).and_then(limits::pfn);
        let order = |field: Field| u8::try_from(field.read(record)?).ok().and_then(Order::new);
        let migratetype = |field: Field| u8::try_from(field.read(record)?).ok();
        let flag = |field: Field| Some(field.read(record)? != 0);
        Some(match *self {
            Shape::Alloc { pfn: page, order: o, migratetype: m, gfp } => {
                let failed = page.is_all_ones(page.read(record)?);
                let pfn = if failed { None } else { Some(pfn(page)?) };
                // The kernel's type has 32 bits.
                let gfp = gfp.read(record)? as u32;
                Kind::Alloc { pfn, order: order(o)?, migratetype: migratetype(m)?, gfp }
            }
            Shape::Free { pfn: page, order: o } => Kind::Free { pfn: pfn(page)?, order: order(o)? },
            Shape::FreeBatched { pfn: page } => Kind::FreeBatched { pfn: pfn(page)? },
            Shape::ZoneLocked { pfn: page, order: o, migratetype: m, percpu_refill } => {
                let order = order(o)?;
                let percpu_refill = match percpu_refill {
                    Some(field) => flag(field)?,
                    None => order == Order::ZERO,
                };
                Kind::ZoneLocked { pfn: pfn(page)?, order, migratetype: migratetype(m)?, percpu_refill }
            }
            Shape::Drain { pfn: page, order: o, migratetype: m } => {
                Kind::Drain { pfn: pfn(page)?, order: order(o)?, migratetype: migratetype(m)? }
            }
            Shape::ExtFrag { pfn: page, orders, migratetypes, change_ownership } => Kind::ExtFrag {
                pfn: pfn(page)?,
                alloc_order: order(orders[0])?,
                fallback_order: order(orders[1])?,
                alloc_migratetype: migratetype(migratetypes[0])?,
                fallback_migratetype: migratetype(migratetypes[1])?,
                change_ownership: flag(change_ownership)?,
            },
            Shape::Plain(kind) => kind(),
            Shape::Work { address: None, .. } => Kind::VmstatWork,
            Shape::Work { function, address } => {
                if function?.read(record) != address {
                    return None;
                }
                Kind::VmstatWork
            }
            Shape::Fork { child } => Kind::Fork { child: child.read(record)? as u32 },
            Shape::CpuChange(change, cpu) => Kind::StateChange(change(limits::cpu(cpu.read(record)?)?)),
            Shape::ZoneChange(change, start) => Kind::StateChange(change(pfn(start)?)),
            Shape::ZoneCounter { start, counter, change } => Kind::StateChange(StateChange::ZoneCounter {
                zone: pfn(start)?,
                counter: u8::try_from(counter.read(record)?).ok()?,
                change: i32::try_from(change.read(record)?.cast_signed()).ok()?,
            }),
            Shape::Marker { text } => marker(record.get(text.offset..)?)?,
            Shape::BulkBegin { .. } | Shape::BulkEnd { .. } => return None,
        })
    }
}

/// Parses `ZB tag` or `ZE tag`, up to the end of the line or of the text.
pub(crate) fn marker(text: &[u8]) -> Option<Kind> {
    let line = text.split(|&byte| byte == 0 || byte == b'\n').next()?;
    let tag = |text| limits::tag(text).map(str::to_owned);
    match line.split_at_checked(3)? {
        (b"ZB ", text) => Some(Kind::SnapshotBegin(tag(text)?)),
        (b"ZE ", text) => Some(Kind::SnapshotEnd(tag(text)?)),
        _ => None,
    }
}

/// Decodes records of the events with known formats.
#[derive(Clone, Debug)]
pub struct Decoder {
    kind: Field,
    flags: Field,
    pid: Field,
    /// Sorted by id.
    shapes: Vec<(u16, Shape)>,
}

impl Decoder {
    /// A decoder for these events; events that are not part of a recording are ignored.
    ///
    /// # Errors
    ///
    /// If there is no format, or an event lacks a required field.
    pub fn new(formats: &[Format]) -> Result<Self, FormatError> {
        let mut shapes = Vec::new();
        for format in formats {
            if let Some(shape) = Shape::of(format)? {
                shapes.push((format.id, shape));
            }
        }
        shapes.sort_by_key(|&(id, _)| id);
        // The common fields are the same in every event.
        let common = formats.first().ok_or_else(|| FormatError::from("no event formats".to_owned()))?;
        Ok(Decoder {
            kind: common.field("common_type")?,
            flags: common.field("common_flags")?,
            pid: common.field("common_pid")?,
            shapes,
        })
    }

    /// Takes only works of this function for [`Kind::VmstatWork`]. Without an address, all of them.
    pub(crate) fn only_work(mut self, of: Option<u64>) -> Self {
        for (_, shape) in &mut self.shapes {
            if let Shape::Work { address, .. } = shape {
                *address = of;
            }
        }
        self
    }

    /// Whether the event with this number has a known format and is part of a recording.
    pub(crate) fn knows(&self, id: u16) -> bool {
        self.shapes.binary_search_by_key(&id, |&(id, _)| id).is_ok()
    }

    /// The event in `record`. `None` if the record is of another event, has values out of range, or is one part of a
    /// bulk allocation.
    pub fn decode(&self, time_ns: u64, cpu: CpuId, record: &[u8]) -> Option<Event> {
        let Record { pid, context, content, .. } = self.record(time_ns, cpu, record)?;
        match content {
            Content::Event(kind) => Some(Event { time_ns, cpu, pid, context, kind }),
            _ => None,
        }
    }

    /// Like [`Decoder::decode`], but includes the parts of bulk allocations.
    pub(super) fn record(&self, time_ns: u64, cpu: CpuId, record: &[u8]) -> Option<Record> {
        let id = u16::try_from(self.kind.read(record)?).ok()?;
        let shape = &self.shapes[self.shapes.binary_search_by_key(&id, |&(id, _)| id).ok()?].1;
        let flags = self.flags.read(record)?;
        let context = if flags & FLAG_NMI != 0 {
            Context::Nmi
        } else if flags & FLAG_HARDIRQ != 0 {
            Context::HardIrq
        } else if flags & FLAG_SOFTIRQ != 0 {
            Context::SoftIrq
        } else {
            Context::Process
        };
        let pid = self.pid.read(record)? as u32;
        Some(Record { time_ns, cpu, pid, context, content: shape.read(record)? })
    }
}
