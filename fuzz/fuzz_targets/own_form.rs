//! Recordings in the project's own format, with any content behind valid checksums. The reader returns an error or events.
//! Events that are written and read again are the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pageset::{CpuId, Order, Pfn};
use pageset_fuzz::begin_with;
use pageset_fuzz::recordings::{own_form, read, sections, taken_apart, zoneinfos};
use pageset_trace::file::Writer;
use pageset_trace::{Context, Event, Facts, Kind};

/// A short recording in the fuzzer's encoding.
fn seed(zoneinfo: &[u8]) -> Vec<u8> {
    let facts = Facts { cpus: 2, clock: "mono".into(), ..Facts::default() };
    let mut writer = Writer::create(Vec::new(), &facts).expect("memory");
    writer.snapshot_text("init0", &String::from_utf8_lossy(zoneinfo)).expect("memory");
    let (pfn, order) = (Pfn(0x14_3c18), Order::COSTLY);
    let kinds = [
        Kind::Alloc { pfn: Some(pfn), order, migratetype: 1, gfp: 0x14_0dca },
        Kind::Alloc { pfn: None, order, migratetype: 1, gfp: 0x14_0dca },
        Kind::Free { pfn, order },
        Kind::FreeBatched { pfn },
        Kind::ZoneLocked { pfn, order, migratetype: 2, percpu_refill: true },
        Kind::Drain { pfn, order, migratetype: 4 },
        Kind::BulkAlloc { asked: 4, taken: 4, gfp: 0xcc0, node: -1 },
        Kind::VmstatWork,
    ];
    for (number, kind) in (0..).zip(kinds) {
        let (time_ns, cpu) = (u64::from(number) * 1000, CpuId(number / 3));
        writer.event(&Event { time_ns, cpu, pid: 7, context: Context::Process, kind }).expect("memory");
    }
    taken_apart(&writer.finish().expect("memory"))
}

fuzz_target!(init: begin_with(zoneinfos().map(|text| seed(&text))), |bytes: &[u8]| {
    let Ok((trace, events)) = read(&own_form(sections(bytes))) else { return };
    let mut writer = Writer::create(Vec::new(), trace.facts()).expect("memory");
    for (tag, text) in &trace.snapshots().texts {
        writer.snapshot_text(tag, text).expect("a snapshot that was read");
    }
    for event in &events {
        writer.event(event).expect("an event that was read");
    }
    let written = writer.finish().expect("memory");
    let (again, events_again) = read(&written).expect("what was written");
    assert_eq!(events, events_again);
    assert_eq!(trace.snapshots().texts, again.snapshots().texts);
});
