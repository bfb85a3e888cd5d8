//! The project's own form: a reader returns what the writer wrote, and any damage is an error with a place, never other
//! content.

use std::io::Write;
use std::path::PathBuf;

use pageset::{CpuId, Order, Pfn};
use pageset_trace::file::Writer;
use pageset_trace::text::TextWriter;
use pageset_trace::{
    Context, CpuCache, ErrorKind, Event, Facts, Kind, Loss, OpenOptions, StateChange, Trace, TraceError,
};
use proptest::prelude::*;

use crate::common;

/// Writes a recording in the project's own form.
fn written(facts: &Facts, snapshots: &[(String, String)], events: impl IntoIterator<Item = Event>) -> Vec<u8> {
    let mut writer = Writer::create(Vec::new(), facts).unwrap();
    for (tag, text) in snapshots {
        writer.snapshot_text(tag, text).unwrap();
    }
    for event in events {
        writer.event(&event).unwrap();
    }
    writer.finish().unwrap()
}

/// The contents of a recording.
type Content = (Facts, Vec<(String, String)>, Vec<Event>);

fn read(bytes: &[u8]) -> Result<Content, TraceError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let options = OpenOptions { without_snapshots: true, ..OpenOptions::default() };
    let trace = Trace::open_with(file.path(), &options)?;
    let events = trace.events()?.collect::<Result<Vec<_>, _>>()?;
    if let Some(totals) = trace.totals() {
        assert_eq!(totals.events, events.len() as u64);
    }
    Ok((trace.facts().clone(), trace.snapshots().texts.clone(), events))
}

fn event(time_ns: u64, cpu: u32, pid: u32, context: Context, kind: Kind) -> Event {
    Event { time_ns, cpu: CpuId(cpu), pid, context, kind }
}

/// A short recording with every kind of event and of snapshot.
fn sample() -> Content {
    let facts = Facts {
        kernel_release: Some("6.18.44".to_owned()),
        cpus: 2,
        caches: vec![CpuCache { cpu: 1, bytes: 1 << 25, sharers: 2 }],
        batch_scale_max: Some(5),
        high_fraction: Some(0),
        command: vec!["make".to_owned(), "-j2".to_owned()],
        clock: "mono".to_owned(),
        lists_emptied: true,
        loss: vec![Loss { cpu: 1, missed_pages: 3, ..Loss::default() }],
        ..Facts::default()
    };
    let snapshots = vec![
        ("init0".to_owned(), include_str!("../zoneinfo/linux-6.18-one-node.txt").to_owned()),
        ("stats".to_owned(), String::new()),
    ];
    let order = |n| Order::new(n).unwrap();
    let (pfn, max) = (Pfn(0x14_3c18), Pfn((1 << 52) - 1));
    let kinds = [
        Kind::SnapshotBegin("init0".to_owned()),
        Kind::SnapshotEnd("init0".to_owned()),
        Kind::Alloc { pfn: Some(pfn), order: order(10), migratetype: 255, gfp: u32::MAX },
        Kind::Alloc { pfn: None, order: order(0), migratetype: 1, gfp: 0x14_0dca },
        Kind::Free { pfn: max, order: order(9) },
        Kind::FreeBatched { pfn: Pfn(0) },
        Kind::ZoneLocked { pfn, order: order(3), migratetype: 2, percpu_refill: true },
        Kind::ZoneLocked { pfn, order: order(3), migratetype: 2, percpu_refill: false },
        Kind::Drain { pfn, order: order(1), migratetype: 4 },
        Kind::ExtFrag {
            pfn,
            alloc_order: order(1),
            fallback_order: order(2),
            alloc_migratetype: 3,
            fallback_migratetype: 4,
            change_ownership: true,
        },
        Kind::BulkAlloc { asked: 1 << 20, taken: 0, gfp: u32::MAX, node: 65_535 },
        Kind::BulkAlloc { asked: 4, taken: 4, gfp: 0xcc0, node: -1 },
        Kind::Fork { child: u32::MAX },
        Kind::StateChange(StateChange::ReclaimEnded),
        Kind::StateChange(StateChange::CpuOffline(CpuId(65_535))),
        Kind::StateChange(StateChange::CpuOnline(CpuId(0))),
        Kind::StateChange(StateChange::PagesetsOff(max)),
        Kind::StateChange(StateChange::PagesetsOn(pfn)),
        Kind::StateChange(StateChange::ZoneCounter { zone: max, counter: 255, change: i32::MIN }),
        Kind::StateChange(StateChange::ZoneCounter { zone: pfn, counter: 1, change: i32::MAX }),
        Kind::VmstatWork,
        Kind::KswapdWake,
        Kind::KswapdSleep,
        Kind::DirectReclaim,
    ];
    let contexts = [Context::Process, Context::SoftIrq, Context::HardIrq, Context::Nmi];
    let events = kinds.into_iter().enumerate().map(|(i, kind)| {
        let i = i as u32;
        // Repeated times, changing CPUs, and the smallest and largest pids.
        event(
            5 + u64::from(i / 2) * 1000,
            [0, 65_535, 1][i as usize % 3],
            i.wrapping_sub(1),
            contexts[i as usize / 2 % 4],
            kind,
        )
    });
    (facts, snapshots, events.collect())
}

#[test]
fn shipped_recordings_are_reproduced_byte_for_byte() {
    for name in common::NAMES {
        let trace = Trace::open(&common::path(&format!("{name}.events.zst"))).unwrap();
        let events = || trace.events().unwrap().map(Result::unwrap);
        let bytes = written(trace.facts(), &trace.snapshots().texts, events());
        let (facts, texts, again) = read(&bytes).unwrap();
        assert_eq!((&facts, &texts), (trace.facts(), &trace.snapshots().texts), "{name}");
        let mut writer = TextWriter::new(Vec::new());
        for event in &again {
            writer.event(event).unwrap();
        }
        assert!(writer.finish().unwrap() == common::text(&format!("{name}.events.zst")), "{name}");
        // The file is smaller than the text form at zstd's highest level.
        let shipped = std::fs::metadata(common::path(&format!("{name}.events.zst"))).unwrap().len();
        assert!((bytes.len() as u64) < shipped, "{name}: {} bytes", bytes.len());
    }
}

/// A name cannot send escape sequences to the terminal of its reader.
#[test]
fn errors_are_printable() {
    let error = Trace::open(std::path::Path::new("/nonexistent/\u{1b}[2Ja\nb")).unwrap_err().to_string();
    assert!(error.starts_with(r"/nonexistent/\u{1b}[2Ja\nb: "), "{error:?}");
}

#[test]
fn all_contents_are_reproduced() {
    let (facts, snapshots, events) = sample();
    assert_eq!(read(&written(&facts, &snapshots, events.clone())).unwrap(), (facts.clone(), snapshots.clone(), events));
    assert_eq!(read(&written(&facts, &[], [])).unwrap(), (facts, vec![], vec![]));
}

/// An output with little room.
struct Disk {
    bytes: Vec<u8>,
    room: usize,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let length = bytes.len().min(self.room - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..length]);
        if length == 0 && !bytes.is_empty() { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(length) }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_recording_that_does_not_fit_keeps_its_whole_sections() {
    let (facts, snapshots, _) = sample();
    let events: Vec<_> =
        (0..3 * 32_768).map(|i| event(i / 3, i as u32 % 7, i as u32, Context::Process, Kind::VmstatWork)).collect();
    let all = written(&facts, &snapshots, events.clone()).len();
    let mut kept_by_room = Vec::new();
    // Room for one section, for two, and for an end, which is shorter than a section.
    for room in [1, 2].map(|sections| written(&facts, &snapshots, events[..sections * 32_768].to_vec()).len()) {
        let mut writer = Writer::create(Disk { bytes: Vec::new(), room }, &facts).unwrap();
        for (tag, text) in &snapshots {
            writer.snapshot_text(tag, text).unwrap();
        }
        let written = events.iter().try_for_each(|event| writer.event(event)).and_then(|()| writer.flush());
        assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        let (bytes, totals) = writer.keep_whole_sections();
        let (bytes, kept) = (usize::try_from(bytes).unwrap(), usize::try_from(totals.events).unwrap());
        writer.output().bytes.truncate(bytes);
        writer.output().room = all;
        let disk = writer.finish().unwrap();
        assert_eq!(read(&disk.bytes).unwrap(), (facts.clone(), snapshots.clone(), events[..kept].to_vec()));
        kept_by_room.push(kept);
    }
    assert_eq!(kept_by_room, [32_768, 2 * 32_768]);
}

#[test]
fn many_snapshots_and_sections() {
    let text = include_str!("../zoneinfo/linux-6.18-one-node.txt");
    let snapshots: Vec<_> = (0..500).map(|i| (format!("mid{i}"), text.to_owned())).collect();
    // One event less than two sections, exactly two sections, and one more.
    for count in [2 * 32_768 - 1, 2 * 32_768, 2 * 32_768 + 1] {
        let events: Vec<_> =
            (0..count).map(|i| event(i / 3, i as u32 % 7, 1, Context::Process, Kind::VmstatWork)).collect();
        let content = (Facts::default(), snapshots.clone(), events.clone());
        assert_eq!(read(&written(&content.0, &snapshots, events)).unwrap(), content);
    }
}

#[test]
fn a_loss_at_the_end_replaces_the_loss_of_the_facts() {
    let (facts, ..) = sample();
    let mut writer = Writer::create(Vec::new(), &facts).unwrap();
    let loss = vec![Loss { cpu: 0, overrun: 9, ..Loss::default() }];
    writer.set_loss(loss.clone());
    let (read, ..) = read(&writer.finish().unwrap()).unwrap();
    assert_eq!(read, Facts { loss, ..facts });
}

#[test]
fn the_writer_refuses_values_that_readers_refuse() {
    let fresh = || Writer::create(Vec::new(), &Facts::default()).unwrap();
    let at = |time, kind| event(time, 0, 1, Context::Process, kind);
    let bad = [
        event(1, 65_536, 1, Context::Process, Kind::VmstatWork),
        at(1, Kind::FreeBatched { pfn: Pfn(1 << 52) }),
        at(1, Kind::SnapshotEnd(String::new())),
        at(1, Kind::SnapshotEnd("a b".to_owned())),
        at(1, Kind::SnapshotBegin("x".repeat(65))),
    ];
    for event in bad {
        let mut writer = fresh();
        assert_eq!(writer.event(&event).unwrap_err().kind(), std::io::ErrorKind::InvalidInput, "{event:?}");
        // The refused event has no effect.
        writer.event(&at(1, Kind::VmstatWork)).unwrap();
        assert_eq!(read(&writer.finish().unwrap()).unwrap().2, [at(1, Kind::VmstatWork)]);
    }
    let mut writer = fresh();
    writer.snapshot_text("init0", "").unwrap();
    assert!(writer.snapshot_text("init0", "").is_err(), "a tag twice");
    assert!(writer.snapshot_text("é", "").is_err(), "a tag with other characters");
    writer.event(&at(2, Kind::VmstatWork)).unwrap();
    assert!(writer.event(&at(1, Kind::VmstatWork)).is_err(), "time going back");
    assert!(writer.snapshot_text("init1", "").is_err(), "a snapshot after an event");
}

#[test]
fn truncated_files_are_damaged() {
    let (facts, snapshots, events) = sample();
    let bytes = written(&facts, &snapshots, events);
    for cut in 0..bytes.len() {
        let error = read(&bytes[..cut]).expect_err("a truncated file");
        let expected = if (1..8).contains(&cut) { ErrorKind::Unsupported } else { ErrorKind::Damaged };
        assert_eq!(error.kind(), expected, "cut to {cut} bytes: {error}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    let error = read(&longer).unwrap_err().to_string();
    assert!(error.contains("1 bytes follow the end of the recording"), "{error}");
}

#[test]
fn a_writer_that_was_not_finished_leaves_a_damaged_file() {
    let (facts, snapshots, events) = sample();
    let mut bytes = Vec::new();
    let mut writer = Writer::create(&mut bytes, &facts).unwrap();
    writer.snapshot_text(&snapshots[0].0, &snapshots[0].1).unwrap();
    writer.event(&events[0]).unwrap();
    drop(writer);
    assert_eq!(read(&bytes).unwrap_err().kind(), ErrorKind::Damaged);
}

#[test]
fn other_versions_and_other_files() {
    let mut bytes = written(&Facts::default(), &[], []);
    let mut set_version = |version| {
        bytes[8] = version;
        let crc = crc32fast::hash(&bytes[..12]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes.clone()
    };
    assert_eq!(read(&set_version(1)).unwrap().0, Facts::default(), "a file of version 1");
    let error = read(&set_version(5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error.to_string().contains("version 5 of the recording's form is not known; allowed: versions 1 to 4"),
        "{error}"
    );

    for other in [&b"hello"[..], b"\x7fELF", &[0; 1000]] {
        let error = read(other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    assert_eq!(read(b"").unwrap_err().kind(), ErrorKind::Damaged);
    let error = Trace::open(&PathBuf::from("/no/such/file.pstrace")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().starts_with("/no/such/file.pstrace: cannot be opened: No such file"), "{error}");
}

/// A section with correct checksums, as a hostile writer makes it.
fn section(kind: &[u8; 4], index: u32, items: u32, raw_bytes: u32, stored: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_vec();
    for word in [index, items, raw_bytes, stored.len() as u32, crc32fast::hash(stored)] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(stored);
    bytes
}

/// A section with this payload.
fn packed(kind: &[u8; 4], index: u32, items: u32, raw: &[u8]) -> Vec<u8> {
    section(kind, index, items, raw.len() as u32, &zstd::bulk::compress(raw, 1).unwrap())
}

/// A payload of events from its four streams.
fn streams(parts: [&[u8]; 4]) -> Vec<u8> {
    let lengths = parts[..3].iter().flat_map(|part| (part.len() as u32).to_le_bytes());
    lengths.chain(parts.concat()).collect()
}

/// A complete file with these sections of events.
fn file(sections: &[Vec<u8>], events: u64) -> Vec<u8> {
    let header = &written(&Facts::default(), &[], [])[..16];
    let end = format!(r#"{{"events":{events},"snapshots":0,"first_ns":0,"last_ns":0}}"#);
    let end = packed(b"ENDS", sections.len() as u32 + 1, 1, end.as_bytes());
    [header, &packed(b"FACT", 0, 1, b"{}"), &sections.concat(), &end].concat()
}

#[test]
fn hostile_files_with_correct_checksums() {
    let vmstat = 6;
    let good = packed(b"EVTS", 1, 1, &streams([&[vmstat], &[1], &[], &[]]));
    assert_eq!(
        read(&file(std::slice::from_ref(&good), 1)).unwrap().2.len(),
        1,
        "the files are valid without the fault"
    );

    let events = |parts| vec![packed(b"EVTS", 1, 1, &streams(parts))];
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    let rows: Vec<(&str, Vec<Vec<u8>>, u64)> = vec![
        ("streams longer than the section", vec![packed(b"EVTS", 1, 1, &[0xff; 12])], 1),
        ("no lengths", vec![packed(b"EVTS", 1, 1, &[0; 11])], 1),
        ("other count of heads", vec![packed(b"EVTS", 1, 2, &streams([&[vmstat], &[1], &[], &[]]))], 2),
        ("unknown kind", events([&[13], &[1], &[], &[]]), 1),
        ("unknown bit", events([&[vmstat | 0x40], &[1], &[], &[]]), 1),
        ("no time", events([&[vmstat], &[], &[], &[]]), 1),
        ("surplus time", events([&[vmstat], &[1, 1], &[], &[]]), 1),
        ("surplus argument", events([&[vmstat], &[1], &[], &[0]]), 1),
        ("surplus pfn", events([&[vmstat], &[1], &[0], &[]]), 1),
        ("no pfn", events([&[2], &[1], &[], &[]]), 1),
        ("huge pfn", events([&[2], &[1], &huge, &[]]), 1),
        ("order 11", events([&[1], &[1], &[1], &[11]]), 1),
        ("flag 2", events([&[3], &[1], &[1], &[0, 0, 2]]), 1),
        ("huge CPU", events([&[vmstat | 0x10], &[1], &[], &huge]), 1),
        ("huge pid", events([&[vmstat | 0x20], &[1], &[], &[&huge[..], &[0]].concat()]), 1),
        ("context 4", events([&[vmstat | 0x20], &[1], &[], &[1, 4]]), 1),
        ("tag of 65 bytes", events([&[11], &[1], &[], &[&[65][..], &[b'a'; 65]].concat()]), 1),
        ("tag cut short", events([&[11], &[1], &[], &[5, b'a']]), 1),
        ("empty tag", events([&[12], &[1], &[], &[0]]), 1),
        (
            "time overflows",
            vec![packed(b"EVTS", 1, 2, &streams([&[vmstat, vmstat], &[&huge[..], &[1]].concat(), &[], &[]]))],
            2,
        ),
        (
            "time goes back",
            vec![
                packed(b"EVTS", 1, 1, &streams([&[vmstat], &[9], &[], &[]])),
                packed(b"EVTS", 2, 1, &streams([&[vmstat], &[8], &[], &[]])),
            ],
            2,
        ),
        ("no events", vec![packed(b"EVTS", 1, 0, &streams([&[], &[], &[], &[]]))], 0),
        ("too many events", vec![packed(b"EVTS", 1, 32_769, &streams([&[vmstat], &[1], &[], &[]]))], 32_769),
        ("other total", vec![good.clone()], 2),
        ("wrong index", vec![packed(b"EVTS", 7, 1, &streams([&[vmstat], &[1], &[], &[]]))], 1),
        ("two beginnings", vec![packed(b"FACT", 1, 1, b"{}")], 0),
        ("two ends", vec![packed(b"ENDS", 1, 1, br#"{"events":0,"snapshots":0,"first_ns":0,"last_ns":0}"#)], 0),
        ("unknown kind of section", vec![packed(b"WHAT", 1, 1, b"")], 0),
        ("4 GiB claimed", vec![section(b"EVTS", 1, 1, u32::MAX, &zstd::bulk::compress(&[0; 99], 1).unwrap())], 1),
        ("more than claimed", vec![section(b"EVTS", 1, 1, 9, &zstd::bulk::compress(&[0; 99], 1).unwrap())], 1),
        ("less than claimed", vec![section(b"EVTS", 1, 1, 999, &zstd::bulk::compress(&[0; 99], 1).unwrap())], 1),
        ("no zstd", vec![section(b"EVTS", 1, 1, 99, &[0; 99])], 1),
        ("snapshot after events", vec![good.clone(), packed(b"SNAP", 2, 1, b"\x01a\0\0\0\0")], 1),
        ("snapshot cut short", vec![packed(b"SNAP", 1, 1, b"\x01a\x02\0\0\0x")], 0),
        ("snapshot of no text", vec![packed(b"SNAP", 1, 1, b"\x01a\x01\0\0\0\xff")], 0),
        ("snapshots claimed", vec![packed(b"SNAP", 1, u32::MAX, b"\x01a\0\0\0\0")], 0),
        ("surplus in snapshots", vec![packed(b"SNAP", 1, 1, b"\x01a\0\0\0\0!")], 0),
        ("a tag twice", vec![packed(b"SNAP", 1, 2, b"\x01a\0\0\0\0\x01a\0\0\0\0")], 0),
        ("zoneinfo that is none", vec![packed(b"SNAP", 1, 1, b"\x05init0\x02\0\0\0x\n")], 0),
    ];
    for (what, sections, total) in rows {
        let error = read(&file(&sections, total)).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Damaged, "{what}: {error}");
    }
}

#[test]
fn facts_that_no_machine_has() {
    let loss = |cpu| vec![Loss { cpu, ..Loss::default() }];
    let rows = [
        (Facts { page_size: 0, ..Facts::default() }, "pages of 0 bytes"),
        (Facts { page_size: 4095, ..Facts::default() }, "pages of 4095 bytes"),
        (Facts { pageblock_order: 14, ..Facts::default() }, "pageblocks of order 14; allowed: orders from 0 to 13"),
        (Facts { cpus: 65_537, ..Facts::default() }, "too many CPUs"),
        (Facts { cpu_nodes: vec![0, 65_536], ..Facts::default() }, "CPUs of nodes that no machine has"),
        (Facts { loss: loss(65_536), ..Facts::default() }, "too many CPUs"),
    ];
    for (facts, what) in rows {
        let error = read(&written(&facts, &[], [])).unwrap_err();
        assert!(error.kind() == ErrorKind::Damaged && error.to_string().contains(what), "{error}");
    }
}

fn any_kind() -> impl Strategy<Value = Kind> {
    let order = || (0u8..=10).prop_map(|n| Order::new(n).unwrap());
    let pfn = || (0u64..1 << 52).prop_map(Pfn);
    let tag = || "[!-~]{1,64}";
    prop_oneof![
        (proptest::option::of(pfn()), order(), any::<u8>(), any::<u32>())
            .prop_map(|(pfn, order, migratetype, gfp)| Kind::Alloc { pfn, order, migratetype, gfp }),
        (pfn(), order()).prop_map(|(pfn, order)| Kind::Free { pfn, order }),
        pfn().prop_map(|pfn| Kind::FreeBatched { pfn }),
        (pfn(), order(), any::<u8>(), any::<bool>()).prop_map(|(pfn, order, migratetype, percpu_refill)| {
            Kind::ZoneLocked { pfn, order, migratetype, percpu_refill }
        }),
        (pfn(), order(), any::<u8>()).prop_map(|(pfn, order, migratetype)| Kind::Drain { pfn, order, migratetype }),
        (pfn(), order(), order(), any::<u8>(), any::<u8>(), any::<bool>()).prop_map(|(pfn, a, f, am, fm, own)| {
            Kind::ExtFrag {
                pfn,
                alloc_order: a,
                fallback_order: f,
                alloc_migratetype: am,
                fallback_migratetype: fm,
                change_ownership: own,
            }
        }),
        (0u32..=1 << 20, any::<u32>(), any::<u32>(), -1i32..65_536).prop_map(|(asked, part, gfp, node)| {
            Kind::BulkAlloc { asked, taken: ((u64::from(asked) * u64::from(part)) >> 32) as u32, gfp, node }
        }),
        any::<u32>().prop_map(|child| Kind::Fork { child }),
        Just(Kind::StateChange(StateChange::ReclaimEnded)),
        (0u32..65_536).prop_map(|cpu| Kind::StateChange(StateChange::CpuOffline(CpuId(cpu)))),
        (0u32..65_536).prop_map(|cpu| Kind::StateChange(StateChange::CpuOnline(CpuId(cpu)))),
        pfn().prop_map(|pfn| Kind::StateChange(StateChange::PagesetsOff(pfn))),
        pfn().prop_map(|pfn| Kind::StateChange(StateChange::PagesetsOn(pfn))),
        (pfn(), any::<u8>(), any::<i32>()).prop_map(|(zone, counter, change)| {
            Kind::StateChange(StateChange::ZoneCounter { zone, counter, change })
        }),
        Just(Kind::VmstatWork),
        Just(Kind::KswapdWake),
        Just(Kind::KswapdSleep),
        Just(Kind::DirectReclaim),
        tag().prop_map(Kind::SnapshotBegin),
        tag().prop_map(Kind::SnapshotEnd),
    ]
}

/// Any events in the order of time.
fn any_events() -> impl Strategy<Value = Vec<Event>> {
    let contexts = [Context::Process, Context::SoftIrq, Context::HardIrq, Context::Nmi];
    let one = (0u64..1 << 57, 0u32..65_536, any::<u32>(), 0..4usize, any_kind());
    proptest::collection::vec(one, 0..100).prop_map(move |rows| {
        let mut time = 0;
        let mut next = |step| {
            time += step;
            time
        };
        rows.into_iter().map(|(step, cpu, pid, c, kind)| event(next(step), cpu, pid, contexts[c], kind)).collect()
    })
}

proptest! {
    #[test]
    fn any_events_are_reproduced(events in any_events()) {
        prop_assert_eq!(read(&written(&Facts::default(), &[], events.clone())).unwrap().2, events.clone());
        let mut writer = TextWriter::new(Vec::new());
        for event in &events {
            writer.event(event).unwrap();
        }
        prop_assert_eq!(read(&writer.finish().unwrap()).unwrap().2, events);
    }

    #[test]
    fn any_change_is_an_error(place in any::<prop::sample::Index>(), change in 1u8..) {
        let (facts, snapshots, events) = sample();
        let mut bytes = written(&facts, &snapshots, events);
        let place = place.index(bytes.len());
        bytes[place] ^= change;
        prop_assert!(read(&bytes).is_err(), "byte {} changed by {:#x}", place, change);
    }

    /// With correct checksums, the decoder reads any bytes without a panic.
    #[test]
    fn any_payload_is_read_or_refused(raw in proptest::collection::vec(any::<u8>(), 0..200), items in 1u32..50) {
        let _ = read(&file(&[packed(b"EVTS", 1, items, &raw)], items.into()));
        let _ = read(&file(&[packed(b"SNAP", 1, items, &raw)], 0));
    }

    /// The same with streams that fit their lengths, so that the decoder reads more of them.
    #[test]
    fn any_streams_are_read_or_refused(
        heads in proptest::collection::vec(0u8..0x40, 1..50),
        times in proptest::collection::vec(any::<u8>(), 0..100),
        pfns in proptest::collection::vec(0u8..0x90, 0..100),
        args in proptest::collection::vec(0u8..0x90, 0..200),
    ) {
        let count = heads.len() as u32;
        let _ = read(&file(&[packed(b"EVTS", 1, count, &streams([&heads, &times, &pfns, &args]))], count.into()));
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), text in any::<bool>()) {
        if text {
            bytes.splice(0..0, *b"#pcptrace 1\n#t0 1\n");
        }
        let _ = read(&bytes);
    }

    /// Lines of valid letters and separators reach deeper into the parser than random bytes.
    #[test]
    fn any_words_are_read_or_refused(words in "([0-9a-f]{1,20}|[-AFBZDXVKkRMp]| |\n|ZB|init0){0,200}") {
        let _ = read(format!("#pcptrace 1\n#t0 1\n{words}").as_bytes());
    }
}

/// Flips every bit of a short recording.
#[test]
fn every_flipped_bit_is_an_error() {
    let (facts, snapshots, events) = sample();
    let bytes = written(&facts, &snapshots, events);
    for place in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[place] ^= 1 << bit;
            assert!(read(&bytes).is_err(), "bit {bit} of byte {place}");
        }
    }
}
