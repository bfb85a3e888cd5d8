//! Captured ring buffers, compared with the kernel's own text of them and with damage.

use std::io::Read as _;

use pageset::{CpuId, Pfn};
use pageset_trace::tracepoint::decode::Decoder;
use pageset_trace::tracepoint::format::{Format, PageLayout};
use pageset_trace::tracepoint::merge::{Merge, copy_full};
use pageset_trace::{Context, Event, Kind, StateChange};
use proptest::prelude::*;

const CPU0: &[u8] = include_bytes!("../data/ring/cpu0.raw");
const CPU1: &[u8] = include_bytes!("../data/ring/cpu1.raw");
const KERNEL: &str = include_str!("../data/ring/kernel.txt");

fn decoder() -> Decoder {
    let texts = [
        include_str!("../data/ring/print.format"),
        include_str!("../data/ring/mm_page_alloc.format"),
        include_str!("../data/ring/mm_page_free.format"),
        include_str!("../data/ring/mm_page_free_batched.format"),
        include_str!("../data/ring/mm_page_alloc_zone_locked.format"),
        include_str!("../data/ring/mm_page_pcpu_drain.format"),
        include_str!("../data/ring/mm_page_alloc_extfrag.format"),
        include_str!("../data/ring/workqueue_execute_start.format"),
        include_str!("../data/ring/mm_vmscan_kswapd_wake.format"),
        include_str!("../data/ring/mm_vmscan_kswapd_sleep.format"),
        include_str!("../data/ring/mm_vmscan_direct_reclaim_begin.format"),
    ];
    Decoder::new(&texts.map(|text| Format::parse(text).unwrap())).unwrap()
}

fn layout() -> PageLayout {
    PageLayout::parse(include_str!("../data/ring/header_page")).unwrap()
}

/// `trace_pipe_raw` returns one page per call; so does a slice with a buffer of one page.
fn merge<'a>(end_ns: u64, cpus: &[&'a [u8]]) -> Merge<&'a [u8]> {
    let sources = cpus.iter().enumerate().map(|(cpu, &bytes)| (CpuId(cpu as u32), bytes));
    Merge::new(layout(), decoder(), end_ns, sources).unwrap()
}

fn all(merge: &mut Merge<&[u8]>) -> Vec<Event> {
    std::iter::from_fn(|| merge.next_event().unwrap()).collect()
}

/// An event in the format of `kernel.txt`.
fn kernel_line(event: &Event) -> String {
    let context = match event.context {
        Context::Process => 'p',
        Context::SoftIrq => 's',
        Context::HardIrq => 'h',
        Context::Nmi => 'n',
    };
    // The kernel rounds to the nearest microsecond.
    let us = (event.time_ns + 500) / 1000;
    let hex = |pfn: Pfn| format!("{:#x}", pfn.0);
    let words = match &event.kind {
        Kind::Alloc { pfn, order, migratetype, .. } => {
            let pfn = pfn.map_or("0".into(), hex);
            format!("mm_page_alloc pfn={pfn} order={order} migratetype={migratetype}")
        }
        Kind::Free { pfn, order } => format!("mm_page_free pfn={} order={order}", hex(*pfn)),
        Kind::FreeBatched { pfn } => format!("mm_page_free_batched pfn={} order=0", hex(*pfn)),
        Kind::ZoneLocked { pfn, order, migratetype, percpu_refill } => format!(
            "mm_page_alloc_zone_locked pfn={} order={order} migratetype={migratetype} percpu_refill={}",
            hex(*pfn),
            u8::from(*percpu_refill)
        ),
        Kind::Drain { pfn, order, migratetype } => {
            format!("mm_page_pcpu_drain pfn={} order={order} migratetype={migratetype}", hex(*pfn))
        }
        Kind::VmstatWork => "workqueue_execute_start function vmstat_update".into(),
        Kind::SnapshotBegin(tag) => format!("tracing_mark_write ZB {tag}"),
        Kind::SnapshotEnd(tag) => format!("tracing_mark_write ZE {tag}"),
        other => format!("{other:?}"),
    };
    let (seconds, rest) = (us / 1_000_000, us % 1_000_000);
    format!("{} {}{context} {seconds}.{rest:06} {words}", event.cpu.0, event.pid)
}

#[test]
fn events_equal_the_kernel_s_text() {
    let mut merge = merge(u64::MAX, &[CPU0, CPU1]);
    let events = all(&mut merge);
    assert!(events.is_sorted_by_key(|event| event.time_ns));
    let ours: Vec<String> = events.iter().map(kernel_line).collect();
    let kernel: Vec<&str> = KERNEL.lines().collect();
    for (ours, kernel) in ours.iter().zip(&kernel) {
        assert_eq!(ours, kernel);
    }
    assert_eq!(ours.len(), kernel.len());
    assert_eq!(merge.counts().skipped, 0);
    assert_eq!(merge.counts().raw_bytes, (CPU0.len() + CPU1.len()) as u64);
    assert!(merge.missed_pages().all(|(_, pages)| pages == 0));
}

/// A record of the recorder's probe of counters: the change is signed.
#[test]
fn changes_of_a_zones_counter_are_decoded() {
    for name in ["zone_counter", "zone_counter_irq_safe"] {
        let field = |text: &str, offset: u32, size: u32, signed: u32| {
            format!("\tfield:{text};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
        };
        let format = [
            format!("name: {name}\nID: 77\nformat:\n"),
            field("unsigned short common_type", 0, 2, 0),
            field("unsigned char common_flags", 2, 1, 0),
            field("unsigned char common_preempt_count", 3, 1, 0),
            field("int common_pid", 4, 4, 1),
            "\n".to_owned(),
            field("unsigned long __probe_ip", 8, 8, 0),
            field("u64 start", 16, 8, 0),
            field("u8 counter", 24, 1, 0),
            field("s64 change", 25, 8, 1),
            "\nprint fmt: \"\"\n".to_owned(),
        ];
        let decoder = Decoder::new(&[Format::parse(&format.concat()).unwrap()]).unwrap();
        for change in [-3_i64, 512] {
            let mut record = vec![77, 0, 0, 0, 9, 0, 0, 0];
            record.extend([0; 8]);
            record.extend(163_840_u64.to_ne_bytes());
            record.push(6);
            record.extend(change.to_ne_bytes());
            let event = decoder.decode(5, CpuId(3), &record).unwrap();
            let expected = StateChange::ZoneCounter { zone: Pfn(163_840), counter: 6, change: change as i32 };
            assert_eq!((event.pid, event.kind), (9, Kind::StateChange(expected)), "{name}");
        }
    }
}

#[test]
fn a_full_buffer_ends_the_recording_for_all() {
    let mut copy = tempfile::tempfile().unwrap();
    // A partially read last page is a full page in the copy.
    let end_ns = copy_full(&layout(), CpuId(1), &CPU1[..2 * 4096 - 8], &mut copy).unwrap().unwrap();
    let mut copied = Vec::new();
    copy.read_to_end(&mut copied).unwrap();
    assert_eq!(copied[..2 * 4096 - 8], CPU1[..2 * 4096 - 8]);
    assert_eq!(copied.len(), 2 * 4096);

    let whole = all(&mut merge(u64::MAX, &[CPU0, CPU1]));
    let events = all(&mut merge(end_ns, &[CPU0, &copied]));
    // The last page of a full buffer is not trusted, so the events end with the page before it.
    let trusted = all(&mut merge(u64::MAX, &[&[], &CPU1[..4096]]));
    assert!(events.len() > trusted.len() && events.len() < whole.len());
    assert!(trusted.iter().all(|event| events.contains(event)));
    let before_end: Vec<Event> = whole.into_iter().filter(|event| event.time_ns < end_ns).collect();
    assert_eq!(events, before_end);
    assert_eq!(copy_full(&layout(), CpuId(0), &[][..], &mut tempfile::tempfile().unwrap()).unwrap(), None);
}

#[test]
fn marked_pages_are_counted() {
    let mut bytes = CPU0.to_vec();
    bytes[4096 + 8 + 3] |= 0x80; // bit 31 of the second page's commit word
    let mut merge = merge(u64::MAX, &[&bytes]);
    assert!(!all(&mut merge).is_empty());
    assert_eq!(merge.missed_pages().collect::<Vec<_>>(), [(CpuId(0), 1)]);
}

proptest! {
    #[test]
    fn damage_never_panics(
        flips in prop::collection::vec((0..CPU0.len(), any::<u8>()), 1..20),
        length in 0..CPU0.len(),
    ) {
        let mut bytes = CPU0[..length].to_vec();
        for (at, value) in flips {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        if let Ok(mut merge) = Merge::new(layout(), decoder(), u64::MAX, [(CpuId(0), &bytes[..])]) {
            let mut last = 0;
            while let Ok(Some(event)) = merge.next_event() {
                prop_assert!(event.time_ns >= last, "time goes backwards");
                last = event.time_ns;
            }
        }
    }

    #[test]
    fn any_record_is_decoded_or_ignored(record in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = decoder().decode(0, CpuId(0), &record);
    }
}
