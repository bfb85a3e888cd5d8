//! `perf.data`: events equal perf's own output, losses are counted, and damage is an error.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use pageset_trace::{Context, ErrorKind, Event, Facts, Form, Kind, Loss, OpenOptions, Trace, TraceError};
use proptest::prelude::*;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/perf").join(name)
}

fn unpacked(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    zstd::Decoder::new(std::fs::File::open(data(name)).unwrap()).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

fn saved(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".data").tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn read(bytes: &[u8]) -> Result<(Facts, Vec<Event>), TraceError> {
    let file = saved(bytes);
    let options = OpenOptions { without_snapshots: true, ..OpenOptions::default() };
    let trace = Trace::open_with(file.path(), &options)?;
    assert_eq!(trace.form(), Form::Perf);
    let events = trace.events()?.collect::<Result<Vec<_>, _>>()?;
    assert_eq!(trace.events()?.count(), events.len(), "a second pass");
    Ok((trace.facts().clone(), events))
}

#[test]
fn events_equal_the_output_of_perf() {
    let (_, events) = read(&unpacked("lost.data.zst")).unwrap();
    let ours: Vec<String> = events
        .iter()
        .map(|e| {
            let kind = match &e.kind {
                Kind::Alloc { pfn, order, migratetype, .. } => {
                    format!("A {} {order} {migratetype}", pfn.map_or("-".to_owned(), |pfn| format!("{:x}", pfn.0)))
                }
                Kind::Free { pfn, order } => format!("F {:x} {order}", pfn.0),
                Kind::FreeBatched { pfn } => format!("B {:x}", pfn.0),
                Kind::ZoneLocked { pfn, order, migratetype, percpu_refill } => {
                    format!("Z {:x} {order} {migratetype} {}", pfn.0, u8::from(*percpu_refill))
                }
                Kind::Drain { pfn, order, migratetype } => format!("D {:x} {order} {migratetype}", pfn.0),
                other => panic!("{other:?}"),
            };
            format!("{} {} {} {kind}", e.time_ns, e.cpu.0, e.pid)
        })
        .collect();
    let expected = std::fs::read_to_string(data("lost.txt")).unwrap();
    assert_eq!(ours, expected.lines().collect::<Vec<_>>());
    let Kind::Alloc { gfp, .. } = events[0].kind else { panic!("{:?}", events[0]) };
    // NOWAIT | IO | FS | COMP | ACCOUNT, as perf names it: bits 11 and 13, 6, 7, 18, 22.
    assert_eq!(gfp, 1 << 11 | 1 << 13 | 1 << 6 | 1 << 7 | 1 << 18 | 1 << 22);
    assert!(events.iter().all(|e| matches!(e.context, Context::Process | Context::SoftIrq)));
}

#[test]
fn a_complete_recording_with_a_zoneinfo_file() {
    let file = saved(&unpacked("whole.data.zst"));
    let error = Trace::open(file.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingSnapshots);
    assert!(error.to_string().contains(".data.zoneinfo"), "{error}");

    let options = OpenOptions { zoneinfo: Some(data("zoneinfo.txt")), ..OpenOptions::default() };
    let trace = Trace::open_with(file.path(), &options).unwrap();
    let facts = trace.facts();
    assert_eq!((facts.kernel_release.as_deref(), facts.cpus, facts.nodes), (Some("6.18.44"), 2, 1));
    assert_eq!((facts.page_size, facts.clock.as_str(), facts.lost_events()), (4096, "perf", false));
    assert_eq!(facts.loss.len(), 2, "each CPU has an entry without losses");
    assert_eq!(facts.command[..2], ["perf", "record"]);
    assert_eq!(trace.snapshots().zoneinfo.len(), 1);
    assert!(trace.snapshots().zoneinfo_of("init0").is_some());
    // The counts of `perf script`.
    let mut counts = [0; 4];
    for event in trace.events().unwrap() {
        let place = match event.unwrap().kind {
            Kind::Alloc { .. } => 0,
            Kind::Free { .. } => 1,
            Kind::FreeBatched { .. } => 2,
            Kind::ZoneLocked { .. } => 3,
            other => panic!("{other:?}"),
        };
        counts[place] += 1;
    }
    assert_eq!(counts, [1066, 4108, 4038, 6]);

    let mut beside = file.path().as_os_str().to_owned();
    beside.push(".zoneinfo");
    std::fs::copy(data("zoneinfo.txt"), &beside).unwrap();
    let found = Trace::open(file.path()).map(|trace| trace.snapshots().zoneinfo.len());
    std::fs::remove_file(&beside).unwrap();
    assert_eq!(found.unwrap(), 1);
}

#[test]
fn lost_events_are_counted_by_cpu() {
    let (facts, _) = read(&unpacked("lost.data.zst")).unwrap();
    let lost = |cpu, dropped| Loss { cpu, dropped, ..Loss::default() };
    // By `perf report -D`: LOST of 900 on CPU 0 and 1358 on CPU 1; LOST_SAMPLES of 3739 in all.
    assert_eq!(facts.loss, [lost(0, 900 + (3739 - 900 - 1358)), lost(1, 1358)]);
}

/// Overwrites the 8-byte number at `place`.
fn put(bytes: &mut [u8], place: usize, value: u64) {
    bytes[place..place + 8].copy_from_slice(&value.to_le_bytes());
}

fn get(bytes: &[u8], place: usize) -> u64 {
    u64::from_le_bytes(bytes[place..place + 8].try_into().unwrap())
}

#[test]
fn errors_name_the_reason() {
    let good = unpacked("lost.data.zst");
    let (data_at, data_size) = (get(&good, 40), get(&good, 48));
    let table = (data_at + data_size) as usize;
    let command_line = get(&good, table + 16 * 4) as usize;
    let event_desc = get(&good, table + 16 * 5) as usize;
    type Change<'a> = &'a dyn Fn(&mut Vec<u8>);
    let rows: &[(Change<'_>, ErrorKind, &str)] = &[
        (&|b| b.truncate(90), ErrorKind::Damaged, "the header is cut short"),
        (&|b| b.truncate(5000), ErrorKind::Damaged, "outside the file"),
        (&|b| b.truncate(b.len() - 1), ErrorKind::Damaged, "outside the file"),
        (&|b| put(b, 8, 16), ErrorKind::Unsupported, "written to a pipe"),
        (&|b| b[..8].reverse(), ErrorKind::Unsupported, "other byte order"),
        (&|b| put(b, 48, 0), ErrorKind::Damaged, "was not ended"),
        (&|b| put(b, 48, u64::MAX), ErrorKind::Damaged, "outside the file"),
        (&|b| put(b, table + 8, u64::MAX), ErrorKind::Damaged, "outside the file"),
        (&|b| b[event_desc..event_desc + 4].fill(0xff), ErrorKind::Damaged, "description of the events"),
        // Without the check, the reader allocates 2^32 - 1 arguments.
        (&|b| b[command_line..command_line + 4].fill(0xff), ErrorKind::Damaged, "command line is cut short"),
        // The sampling period of the first event: its attribute starts 8 bytes in, the period 16 bytes further.
        (&|b| put(b, event_desc + 8 + 16, 100), ErrorKind::Unsupported, "not every kmem:mm_page_alloc was recorded"),
        (&|b| b[data_at as usize + 6..][..2].fill(0), ErrorKind::Damaged, "a record of 0 bytes"),
        (&|b| b[data_at as usize] = 81, ErrorKind::Unsupported, "compressed"),
        (&|b| b[data_at as usize] = 71, ErrorKind::Unsupported, "processor trace"),
    ];
    for (change, kind, what) in rows {
        let mut bytes = good.clone();
        change(&mut bytes);
        let error = read(&bytes).map(|_| ()).expect_err(what);
        assert!(error.to_string().contains(what), "{what}: {error}");
        assert_eq!(error.kind(), *kind, "{what}: {error}");
    }
}

#[test]
fn truncated_files_are_damaged() {
    let good = unpacked("lost.data.zst");
    for cut in (8..good.len()).step_by(101) {
        let error = read(&good[..cut]).map(|_| ()).expect_err("a truncated file");
        assert_eq!(error.kind(), ErrorKind::Damaged, "cut to {cut} bytes: {error}");
    }
}

proptest! {
    /// A perf.data has no checksums, so a change may be undetected, but it never causes a panic or a huge allocation.
    #[test]
    fn any_change_is_read_or_refused(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = unpacked("lost.data.zst");
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        let _ = read(&bytes);
    }

    /// Changes of the header, the tables and the descriptions.
    #[test]
    fn any_change_of_the_tables_is_read_or_refused(
        in_front in any::<bool>(),
        place in 0usize..20_000,
        value in prop_oneof![Just(0u64), Just(u64::MAX), Just(1 << 31), Just(1 << 62), any::<u64>()],
    ) {
        let mut bytes = unpacked("lost.data.zst");
        let table = (get(&bytes, 40) + get(&bytes, 48)) as usize;
        let place = if in_front { place % 1200 } else { table + place % (bytes.len() - table - 8) };
        put(&mut bytes, place, value);
        let _ = read(&bytes);
    }
}
