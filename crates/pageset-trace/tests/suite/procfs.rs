//! The kernel's texts in `/proc`: of the shipped recordings, of older and larger machines, and invalid ones.

use pageset_trace::procfs::{BuddyInfo, PageTypeInfo, PagesetSection, ParseError, ZoneSection, Zoneinfo};
use pageset_trace::{ErrorKind, OpenOptions, Place, Trace};
use proptest::prelude::*;

use crate::common;

/// 6.18, one node, 2 CPUs, just drained pagesets.
const LINUX_6_18: &str = include_str!("../zoneinfo/linux-6.18-one-node.txt");
/// Two nodes in 5.10: no boost, promo or cma lines, and no bounds of high.
const LINUX_5_10: &str = include_str!("../zoneinfo/linux-5.10-two-nodes.txt");
/// 4.4: counters before the protection, `scanned`, `all_unreclaimable`, no per-node stats.
const LINUX_4_4: &str = include_str!("../zoneinfo/linux-4.4.txt");
/// 4.19: per-node stats, protection before the counters.
const LINUX_4_19: &str = include_str!("../zoneinfo/linux-4.19.txt");

#[test]
fn linux_6_18() {
    let info = Zoneinfo::parse(LINUX_6_18).unwrap();
    let names: Vec<_> = info.zones.iter().map(|z| z.name.as_str()).collect();
    assert_eq!(names, ["DMA", "DMA32", "Normal", "Movable", "Device"]);
    assert_eq!(info.cpus(), 2);
    let zone = info.zone(0, "Normal").unwrap();
    let set =
        |cpu| PagesetSection { cpu, count: 0, high: 252, batch: 63, high_min: Some(7163), high_max: Some(102_400) };
    let expected = ZoneSection {
        node: 0,
        name: "Normal".to_owned(),
        free: 964_354,
        boost: Some(0),
        min: 11_461,
        low: 14_326,
        high: 17_191,
        promo: Some(20_056),
        spanned: 5_505_024,
        present: 5_505_024,
        managed: 1_638_400,
        cma: 0,
        start_pfn: 1_048_576,
        protection: vec![0; 5],
        pagesets: vec![set(0), set(1)],
        counters: zone.counters.clone(),
    };
    assert_eq!(*zone, expected);
    assert_eq!(zone.counters[0], ("nr_free_pages".to_owned(), 964_354));
    assert!(zone.counters.contains(&("numa_hit".to_owned(), 130_892_104)));
    assert_eq!(info.zones[0].protection, [0, 3019, 9419, 9419, 9419]);
    assert!(info.zones[0].counters.contains(&("nr_file_pages".to_owned(), 501_395)), "a node's counters");
    // A zone without pages has only watermarks.
    let movable = info.zone(0, "Movable").unwrap();
    assert_eq!((movable.managed, movable.min, movable.pagesets.len(), movable.start_pfn), (0, 32, 0, 0));
}

#[test]
fn older_kernels() {
    let info = Zoneinfo::parse(LINUX_5_10).unwrap();
    let zones: Vec<_> = info.zones.iter().map(|z| (z.node, z.name.as_str(), z.managed, z.start_pfn)).collect();
    assert_eq!(zones, [(0, "DMA", 3975, 1), (0, "Normal", 4_017_000, 1_048_576), (1, "Normal", 4_127_950, 5_242_880)]);
    let set = |cpu, count| PagesetSection { cpu, count, high: 378, batch: 63, high_min: None, high_max: None };
    assert_eq!(info.zone(1, "Normal").unwrap().pagesets, [set(0, 0), set(1, 120), set(2, 357), set(3, 44)]);
    assert_eq!((info.zones[1].promo, info.zones[1].boost, info.zones[1].cma), (None, None, 0));
    assert_eq!(info.cpus(), 4);

    let info = Zoneinfo::parse(LINUX_4_4).unwrap();
    let zone = info.zone(0, "DMA32").unwrap();
    assert_eq!((zone.free, zone.min, zone.low, zone.high), (338_511, 5632, 7040, 8448));
    assert_eq!(zone.protection, [0, 0, 13_031, 13_031]);
    assert_eq!(zone.pagesets[1], PagesetSection { cpu: 1, count: 160, high: 186, batch: 31, ..Default::default() });
    assert!(zone.counters.contains(&("all_unreclaimable".to_owned(), 0)));

    let info = Zoneinfo::parse(LINUX_4_19).unwrap();
    assert_eq!(info.zones[0].start_pfn, 1);
    assert_eq!(info.zone(0, "Normal").unwrap().pagesets[0].high, 186);
    assert!(info.zone(0, "Movable").is_some_and(|zone| zone.pagesets.is_empty()));
}

#[test]
fn every_snapshot_of_the_shipped_recordings() {
    for (name, zoneinfos) in common::NAMES.into_iter().zip([23, 16, 10]) {
        let trace = Trace::open(&common::path(&format!("{name}.events.zst"))).unwrap();
        let all = trace.snapshots();
        assert_eq!((all.zoneinfo.len(), all.pagetypeinfo.len(), all.buddyinfo.len()), (zoneinfos, 2, 2), "{name}");
        assert_eq!(all.start().unwrap().0, "init2");
        assert_eq!(all.end().unwrap().0, "fini0");
        for (tag, info) in &all.zoneinfo {
            for zone in info.zones.iter().filter(|zone| zone.present > 0) {
                assert_eq!(zone.pagesets.len(), 2, "{name} {tag}");
                assert!(zone.min <= zone.low && zone.low <= zone.high && zone.managed <= zone.present);
                assert_eq!(zone.counters.iter().find(|c| c.0 == "nr_free_pages").unwrap().1, zone.free);
            }
        }
        // The two texts show the same lists, because they are read in succession.
        for (types, buddy) in all.pagetypeinfo.iter().zip(&all.buddyinfo) {
            for (types, buddy) in types.1.zones.iter().zip(&buddy.1.zones).filter(|(t, _)| t.zone != "Normal") {
                let sums = (0..11).map(|order| types.free.iter().map(|free| free[order].count).sum::<u64>());
                assert_eq!(sums.collect::<Vec<_>>(), buddy.free_blocks, "{name} {}", types.zone);
            }
        }
    }
}

#[test]
fn pagetypeinfo() {
    let trace = Trace::open(&common::path("pf1-q1.events.zst")).unwrap();
    let info = &trace.snapshots().pagetypeinfo[0].1;
    assert_eq!((info.pageblock_order, info.pages_per_block), (9, 512));
    assert_eq!(info.types, ["Unmovable", "Movable", "Reclaimable", "HighAtomic", "Isolate"]);
    assert_eq!((info.type_number("Isolate"), info.type_number("CMA")), (Some(4), None));
    let normal = &info.zones[2];
    assert_eq!((normal.node, normal.zone.as_str(), &normal.pageblocks[..]), (0, "Normal", &[313, 2749, 138, 0, 0][..]));
    assert_eq!(normal.free[2].iter().map(|f| f.count).collect::<Vec<_>>(), [1309, 0, 30, 72, 30, 18, 6, 1, 0, 0, 0]);

    // The kernel counts a long list only to 100000; other kernels add a table.
    let text = trace.snapshots().text("pagetypeinfo.0").unwrap().replace(" 2254 ", " >100000 ")
        + "\nNumber of mixed blocks    Unmovable      Movable  Reclaimable   HighAtomic      Isolate \n\
           Node 0, zone   Normal            1            2            3            4            5 \n";
    let info = PageTypeInfo::parse(&text).unwrap();
    let free = info.zones[2].free[1][0];
    assert_eq!((free.count, free.or_more, info.zones[2].free[1][1].or_more), (100_000, true, false));
    assert_eq!(info.zones[2].pageblocks[0], 313);
}

#[test]
fn buddyinfo() {
    let text =
        "Node 0, zone      DMA      0      1 \nNode 0, zone   Normal   3885    264 \nNode 1, zone   Normal   7    8 \n";
    let info = BuddyInfo::parse(text).unwrap();
    let zones: Vec<_> = info.zones.iter().map(|z| (z.node, z.zone.as_str(), &z.free_blocks[..])).collect();
    assert_eq!(zones, [(0, "DMA", &[0, 1][..]), (0, "Normal", &[3885, 264]), (1, "Normal", &[7, 8])]);
}

/// Checks invalid changes of a valid text: each row has the replaced text, its replacement, and the line and part of
/// the error.
fn check<T: std::fmt::Debug>(good: &str, rows: &[(&str, &str, u64, &str)], parse: fn(&str) -> Result<T, ParseError>) {
    parse(good).expect("valid without the change");
    for &(from, to, line, what) in rows {
        assert!(good.contains(from), "{from:?} is not in the text");
        let error = parse(&good.replacen(from, to, 1)).expect_err(what);
        assert!(error.to_string().contains(what), "{from:?} -> {to:?}: {error}");
        assert_eq!(error.line, line, "{from:?} -> {to:?}: {error}");
        assert!(!error.allowed.is_empty());
    }
}

/// One small zone.
const SMALL: &str = "\
Node 0, zone   Normal
  pages free     100
        min      1
        low      2
        high     3
        spanned  400
        present  300
        managed  200
        protection: (0, 7)
      nr_free_pages 100
  pagesets
    cpu: 0
              count: 10
              high:  20
              batch: 5
  vm stats threshold: 8
    cpu: 1
              count: 11
              high:  21
              batch: 5
              high_min: 6
              high_max: 9
  node_unreclaimable:  0
  start_pfn:           4096
";

#[test]
fn invalid_zoneinfo() {
    let rows = [
        ("100\n", "-100\n", 2, "free `-100` is not a number; allowed: a decimal number from 0 to 2^64 - 1"),
        ("100\n", "+100\n", 2, "free `+100` is not a number"),
        ("100\n", "x\n", 2, "free `x` is not a number"),
        ("100\n", "\n", 2, "free `` is not a number"),
        ("100\n", "18446744073709551616\n", 2, "free `18446744073709551616` is too large"),
        ("100\n", "100 5\n", 2, "`5` follows the number of free"),
        ("min      1\n", "min      1\n min 1\n", 4, "min appears twice"),
        ("        low      2\n", "", 1, "node 0, zone Normal has no `low`"),
        ("        managed  200\n", "", 1, "has no `managed`"),
        ("Node 0", "Node x", 1, "node `x` is not a number"),
        ("Node 0", "Node 4294967296", 1, "node `4294967296` is too large"),
        ("Node 0, zone   Normal", "Node 0", 1, "does not name a node and a zone"),
        ("Node 0, zone   Normal", "Node 0, zone   ", 1, "does not name a node and a zone"),
        ("Node 0, zone   Normal", "Node 0, zone   Normal x", 1, "`x` follows the zone's name"),
        ("Node 0, zone   Normal\n", "", 1, "is outside any zone"),
        ("  pagesets\n", "", 11, "a pageset before `pagesets`"),
        ("    cpu: 0\n", "", 12, "count outside a pageset"),
        ("cpu: 1", "cpu: 0", 17, "cpu 0 follows cpu 0"),
        ("cpu: 0", "cpu: -1", 12, "cpu `-1` is not a number"),
        ("count: 11", "count: many", 18, "count `many` is not a number"),
        ("batch: 5\n", "batch: 5\n batch: 5\n", 16, "batch appears twice in the pageset of cpu 0"),
        ("              batch: 5\n  vm", "  vm", 12, "the pageset of cpu 0 has no `batch`"),
        ("              high_max: 9\n", "", 17, "the pageset of cpu 1 has one of high_min and high_max"),
        ("(0, 7)", "0, 7", 9, "protection `0, 7` is not a list in parentheses"),
        ("(0, 7)", "(0, x)", 9, "protection `x` is not a number"),
        ("  start_pfn:           4096\n", "", 1, "has no `start_pfn`"),
        ("4096\n", "4096\n start_pfn: 1\n", 25, "start_pfn appears twice"),
    ];
    check(SMALL, &rows, Zoneinfo::parse);
    for (text, line, what) in [
        ("", 1, "no zone in the text"),
        ("\n\n", 3, "no zone in the text"),
        ("hello\n", 1, "is outside any zone"),
        (&format!("{SMALL}{SMALL}"), 25, "node 0, zone Normal appears twice"),
    ] {
        let error = Zoneinfo::parse(text).unwrap_err();
        assert!(error.line == line && error.what.contains(what), "{error}");
    }
}

#[test]
fn a_truncated_zoneinfo_is_an_error() {
    // The whole text is needed up to its last line.
    for cut in 0..SMALL.len() {
        assert!(Zoneinfo::parse(&SMALL[..cut]).is_err(), "cut to {cut} bytes");
    }
    // A text of several zones may end after any zone, because no text has the number of zones.
    let whole = (0..LINUX_6_18.len()).filter(|&cut| Zoneinfo::parse(&LINUX_6_18[..cut]).is_ok());
    for cut in whole {
        let rest = &LINUX_6_18[cut..];
        assert!(rest.starts_with("Node ") || rest.starts_with("        cma") || rest.starts_with("        protection"));
    }
}

#[test]
fn invalid_buddyinfo() {
    let good = "Node 0, zone      DMA      0      1 \nNode 0, zone   Normal   3885    264 \n";
    let rows = [
        ("3885", "-1", 2, "free blocks `-1` is not a number"),
        ("3885", "99999999999999999999", 2, "too large"),
        ("3885", "", 2, "1 counts in the row; allowed: 2"),
        ("Normal", "DMA", 2, "node 0, zone DMA appears twice"),
        ("Node 0, zone   Normal", "hello", 2, "is not a row of buddyinfo"),
        ("264 \n", "264", 3, "ends too early"),
    ];
    check(good, &rows, BuddyInfo::parse);
    assert!(BuddyInfo::parse("").is_err() && BuddyInfo::parse("Node 0, zone DMA\n").is_err());
}

/// The kernel prints the whole text for each node with memory, and only the headers for a node without memory.
#[test]
fn pagetypeinfo_of_several_nodes() {
    let head = "Page block order: 9\nPages per block:  512\n\n";
    let counts = "Free pages count per migrate type at order       0      1 \n";
    let blocks = "\nNumber of blocks type     Unmovable      Movable \n";
    let node = |node: u32, zone: &str, free: u64| {
        format!(
            "{head}{counts}Node    {node}, zone {zone:>8}, type    Unmovable {free:6} {:6} \n\
             Node    {node}, zone {zone:>8}, type      Movable {:6} {:6} \n{blocks}Node {node}, zone {zone:>8} {:12} {:12} \n",
            free + 1,
            free + 2,
            free + 3,
            free + 4,
            free + 5
        )
    };
    let text = format!("{}{head}{counts}{blocks}{}", node(0, "DMA32", 10), node(2, "Normal", 20));
    let info = PageTypeInfo::parse(&text).unwrap();
    let zones: Vec<_> =
        info.zones.iter().map(|z| (z.node, z.zone.as_str(), z.free[1][0].count, z.pageblocks[1])).collect();
    assert_eq!(zones, [(0, "DMA32", 12, 15), (2, "Normal", 22, 25)]);
    assert_eq!(info.types, ["Unmovable", "Movable"]);
    // A node with an incomplete text is still an error.
    let cut = text.replacen("Node 2, zone   Normal", "Node 3, zone   Normal", 1);
    assert!(PageTypeInfo::parse(&cut).unwrap_err().what.contains("node 3, zone Normal has no free counts"));
}

#[test]
fn invalid_pagetypeinfo() {
    let good = "\
Page block order: 9
Pages per block:  512

Free pages count per migrate type at order       0      1
Node    0, zone      DMA, type    Unmovable      0      1
Node    0, zone      DMA, type      Movable      2      3
Node    0, zone   Normal, type    Unmovable      4      5
Node    0, zone   Normal, type      Movable      6      7

Number of blocks type     Unmovable      Movable
Node 0, zone      DMA            1            7
Node 0, zone   Normal            2            8
";
    let rows = [
        ("order: 9", "order: x", 1, "pageblock order `x` is not a number"),
        ("order: 9", "order: 64", 1, "pageblock order is too large"),
        ("512", "511", 2, "511 pages do not fit pageblock order 9"),
        ("order       0      1", "order       0      2", 4, "order 2 out of place"),
        ("      4      5", "      4", 7, "1 counts for 2 orders"),
        ("      4      5", "      4      >", 7, "free blocks `` is not a number"),
        ("      4      5", "      4      -5", 7, "free blocks `-5` is not a number"),
        ("Normal, type    Unmovable", "Normal, type    Movable", 7, "type `Movable` out of place"),
        ("Normal, type    Unmovable", "Normal, kind    Unmovable", 7, "names no type"),
        ("Normal, type    Unmovable", "DMA, type    Unmovable", 7, "type `Unmovable` out of place"),
        ("Node    0, zone   Normal, type      Movable      6      7\n", "", 12, "node 0, zone Normal has 1 of 2 types"),
        ("Number of blocks type     Unmovable", "Number of blocks type     Other", 10, "are not those of the free"),
        ("            2            8", "            2", 12, "1 counts in the row; allowed: 2"),
        ("zone   Normal            2", "zone   DMA            2", 12, "node 0, zone DMA appears twice"),
        ("zone   Normal            2", "zone   Other            2", 12, "zone Other has no free counts"),
        ("Node 0, zone   Normal            2            8\n", "", 12, "zone Normal has no number of blocks"),
        ("Pages per block:  512\n", "", 12, "no `Pages per block`"),
    ];
    check(good, &rows, PageTypeInfo::parse);
    for cut in 0..good.len() {
        assert!(PageTypeInfo::parse(&good[..cut]).is_err(), "cut to {cut} bytes");
    }
}

/// Writes a text recording with these snapshots and opens it.
fn open_with_snapshots(text: &[u8]) -> Result<Trace, pageset_trace::TraceError> {
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join("a.events");
    std::fs::write(&events, "#pcptrace 1\n#t0 1\n0 0 1p M ZE init0\n").unwrap();
    std::fs::write(folder.path().join("a.snap"), text).unwrap();
    Trace::open_with(&events, &OpenOptions::default())
}

#[test]
fn errors_in_snapshots_name_tag_and_line() {
    let good = format!("=== init0\n{SMALL}=== stats\nentries: 5\noverrun: 3\n");
    let trace = open_with_snapshots(good.as_bytes()).unwrap();
    assert_eq!((trace.facts().loss[0].overrun, trace.facts().lost_events()), (3, true));

    let snapshot = |tag: &str, line| Place::Snapshot { tag: tag.to_owned(), line };
    let rows: Vec<(String, Place, &str)> = vec![
        (String::new(), Place::Line(1), "the file is empty"),
        ("hello\n".to_owned(), Place::Line(1), "`hello` is not the heading of a snapshot"),
        (format!("\n{good}"), Place::Line(1), "is not the heading of a snapshot"),
        (good.replace("free     100", "free     ten"), snapshot("init0", 2), "free `ten` is not a number"),
        (format!("{good}=== init0\n{SMALL}"), snapshot("init0", 1), "the tag appears twice"),
        (good.replace("=== stats", "=== st ats"), snapshot("`st ats`", 1), "the tag is not allowed"),
        (good.replace("overrun: 3", "overrun: -3"), snapshot("stats", 2), "overrun `-3` is not a number"),
        (good.replace("entries: 5\n", ""), snapshot("stats", 1), "overrun before any `entries`"),
        (format!("{good}=== facts\n{{\"cpus\": -1}}\n"), snapshot("facts", 1), "invalid value"),
        (format!("{good}=== buddyinfo.0\nx\n"), snapshot("buddyinfo.0", 1), "is not a row of buddyinfo"),
    ];
    for (text, place, what) in rows {
        let error = open_with_snapshots(text.as_bytes()).map(|_| ()).expect_err(what);
        assert!(error.to_string().contains(what) && error.to_string().contains("a.snap"), "{error}");
        assert_eq!((error.kind(), error.place()), (ErrorKind::Damaged, &place), "{error}");
    }
    let error = open_with_snapshots(b"=== init0\n\xff\n").unwrap_err();
    assert!(error.to_string().contains("this is not text"), "{error}");
    let error = open_with_snapshots(b"=== vmstat.0\nx\n").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingSnapshots);
}

#[test]
fn events_that_end_before_their_snapshots_are_truncated() {
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join("a.events");
    std::fs::write(folder.path().join("a.snap"), format!("=== init0\n{SMALL}=== fini0\n{SMALL}")).unwrap();
    let whole = "#pcptrace 1\n#t0 1\n0 0 1p M ZE init0\n0 0 1p V\n0 0 1p M ZE fini0\n";
    for (text, whole) in [(whole, true), (&whole[..whole.len() - 18], false), ("#pcptrace 1\n#t0 1\n0 0 1p V\n", true)]
    {
        std::fs::write(&events, text).unwrap();
        let trace = Trace::open(&events).unwrap();
        let last = trace.events().unwrap().last().unwrap();
        assert_eq!(last.is_ok(), whole, "{text}");
        if let Err(error) = last {
            assert!(error.to_string().contains("the events end before the snapshot fini0"), "{error}");
        }
    }
}

proptest! {
    #[test]
    fn any_lines_are_read_or_refused(
        lines in proptest::collection::vec((0usize..60, 0usize..60, "[ -~]{0,12}"), 0..40),
    ) {
        // Lines of real texts, some with a replaced end.
        let buddy = "Node 0, zone      DMA      0      1 \n";
        let all: Vec<&str> = [SMALL, buddy, LINUX_4_4].iter().flat_map(|text| text.lines()).collect();
        let mut text = String::new();
        for (line, keep, end) in lines {
            let line = all[line % all.len()];
            let keep = keep.min(line.len());
            text += &line[..keep];
            text += &end;
            text.push('\n');
        }
        let _ = (Zoneinfo::parse(&text), BuddyInfo::parse(&text), PageTypeInfo::parse(&text));
    }
}
