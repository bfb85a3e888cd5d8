//! The text form: the shipped recordings are read and written again byte for byte. Every other text is an error that
//! names the line.

use pageset_trace::text::{TextReader, TextWriter};
use pageset_trace::{ErrorKind, Place, Trace, TraceError};

use crate::common;

/// Events of each recording, counted independently (`zstdcat | wc -l` less two).
const EVENTS: [usize; 3] = [324_889, 775_482, 324_698];

#[test]
fn shipped_recordings_are_reproduced_byte_for_byte() {
    for (name, events) in common::NAMES.into_iter().zip(EVENTS) {
        let trace = Trace::open(&common::path(&format!("{name}.events.zst"))).unwrap();
        assert_eq!(trace.name(), name);
        let mut writer = TextWriter::new(Vec::new());
        let mut count = 0;
        for event in trace.events().unwrap() {
            writer.event(&event.unwrap()).unwrap();
            count += 1;
        }
        assert_eq!(count, events, "{name}");
        assert!(writer.finish().unwrap() == common::text(&format!("{name}.events.zst")), "{name}");
    }
}

#[test]
fn facts_of_the_shipped_recordings() {
    for name in common::NAMES {
        let trace = Trace::open(&common::path(&format!("{name}.events.zst"))).unwrap();
        let facts = trace.facts();
        assert_eq!((facts.cpus, facts.nodes, facts.pageblock_order, facts.page_size), (2, 1, 9, 4096), "{name}");
        assert_eq!(facts.loss.len(), 2, "{name}");
        assert!(!facts.lost_events(), "{name}");
        assert!(trace.snapshots().zoneinfo_of("init2").is_some() && trace.snapshots().text("vmstat.1").is_some());
    }
}

fn read(text: &[u8]) -> Result<Vec<pageset_trace::Event>, TraceError> {
    TextReader::new(text)?.collect()
}

#[test]
fn every_kind_of_event_is_reproduced() {
    let text = b"#pcptrace 1\n#t0 5\n0 0 1p A 1f 3 1 140dca\n0 65535 4294967295s A - 10 255 ffffffff\n1 2 0h F 0 9\n\
        7 0 3n B fffffffffffff\n0 0 1p Z 20 0 2 1\n0 0 1p Z 20 0 2 0\n9 0 1p D 20 0 2\n0 0 1p X 20 0 10 2 1 1\n\
        0 0 1p X 20 0 10 2 1 0\n0 0 1p U 64 60 cc0 -1\n\
        0 0 1s U 1048576 0 cc0 65535\n0 0 0p V\n0 0 0p K\n0 0 0p k\n0 0 0p R\n0 0 0p M ZB init0\n0 0 0p M ZE init0\n";
    let mut writer = TextWriter::new(Vec::new());
    for event in read(text).unwrap() {
        writer.event(&event).unwrap();
    }
    assert_eq!(String::from_utf8(writer.finish().unwrap()).unwrap(), str::from_utf8(text).unwrap());
}

#[test]
fn errors_name_the_line_and_the_allowed_values() {
    let rows: &[(&str, &str)] = &[
        ("", "no time"),
        ("garbage", "time `garbage` is not allowed; allowed: nanoseconds"),
        ("-5 0 1p V", "time `-5`"),
        ("+5 0 1p V", "time `+5`"),
        ("99999999999999999999 0 1p V", "time `99999999999999999999`"),
        ("18446744073709551615 0 1p V", "the time overflows"),
        ("0", "no CPU"),
        ("0 65536 1p V", "CPU `65536` is not allowed; allowed: a CPU number below 65536"),
        ("0 -1 1p V", "CPU `-1`"),
        ("0 0 1 V", "process `1`"),
        ("0 0 p V", "process `p`"),
        ("0 0 -1p V", "process `-1p`"),
        ("0 0 4294967296p V", "process `4294967296p`"),
        ("0 0 1x V", "process `1x`"),
        ("0 0 1p", "no kind"),
        ("0 0 1p ", "no kind"),
        ("0 0 1p Q 1", "kind `Q` is not allowed; allowed: A, F, B"),
        ("0 0 1p AA 1", "kind `AA`"),
        ("0 0 1p U 4 5 cc0 0", "taken `5` is not allowed; allowed: at most 1048576 pages"),
        ("0 0 1p U 1048577 5 cc0 0", "asked `1048577`"),
        ("0 0 1p U 4 4 cc0 -2", "node `-2` is not allowed; allowed: -1, or a node number below 65536"),
        ("0 0 1p U 4 4 cc0 65536", "node `65536`"),
        ("0 0 1p U 4 4 cc0", "no node"),
        ("0 0 1p V 1", "`1` follows the last argument"),
        ("0 0 1p V ", "follows the last argument"),
        ("0  0 1p V", "no CPU"),
        ("0 0 1p F", "no pfn"),
        ("0 0 1p F 1", "no order"),
        ("0 0 1p F 1 11", "order `11` is not allowed; allowed: an order from 0 to 10"),
        ("0 0 1p F 1 -1", "order `-1`"),
        ("0 0 1p F 1 0 0", "`0` follows the last argument"),
        ("0 0 1p F - 0", "pfn `-`"),
        ("0 0 1p F 0x1 0", "pfn `0x1`"),
        ("0 0 1p F g 0", "pfn `g`"),
        ("0 0 1p F 10000000000000 0", "pfn `10000000000000`"),
        ("0 0 1p F 11111111111111111 0", "pfn `11111111111111111`"),
        ("0 0 1p A - 0 0 100000000", "gfp `100000000`"),
        ("0 0 1p A - 0 256 0", "migratetype `256`"),
        ("0 0 1p Z 1 0 0 2", "percpu_refill `2` is not allowed; allowed: 0 or 1"),
        ("0 0 1p X 1 0 9 0 1 7", "change_ownership `7`"),
        ("0 0 1p M ZX init0", "marker `ZX`"),
        ("0 0 1p M ZB", "no tag"),
        ("0 0 1p M ZB a b", "`b` follows"),
        ("0 0 1p P", "no child"),
        ("0 0 1p S", "no change"),
        ("0 0 1p S cpu-gone 1", "change `cpu-gone` is not allowed"),
        ("0 0 1p S cpu-online", "no cpu"),
        ("0 0 1p S cpu-offline 65536", "cpu `65536`"),
        ("0 0 1p S pagesets-off", "no pfn"),
        ("0 0 1p S reclaim-ended 1", "`1` follows"),
        ("0 0 1p S zone-counter", "no pfn"),
        ("0 0 1p S zone-counter 1 256", "counter `256`"),
        ("0 0 1p S zone-counter 1 5 2147483648", "change `2147483648` is not allowed; allowed: a number of 32 bits"),
        ("0 0 1p S zone-counter 1 5 -1 2", "`2` follows"),
        ("0 0 1p V\r", "kind `V\\r`"),
        ("0 0 1p \u{1b}[31m", "kind `\\u{1b}[31m`"),
    ];
    for (line, what) in rows {
        // The previous event is complete and comes first.
        let text = format!("#pcptrace 1\n#t0 1\n0 0 1p V\n{line}\n0 0 1p V\n");
        let mut reader = TextReader::new(text.as_bytes()).unwrap();
        assert!(reader.next().unwrap().is_ok(), "{line:?}");
        let error = reader.next().unwrap().expect_err(line);
        assert_eq!((error.kind(), error.place()), (ErrorKind::Damaged, &Place::Line(4)), "{line:?}");
        assert!(error.to_string().contains(what), "{line:?}: {error}");
        assert!(reader.next().is_none(), "{line:?}: an event after an error");
    }
}

#[test]
fn wrong_headers() {
    let rows: &[(&[u8], ErrorKind, &str)] = &[
        (b"", ErrorKind::Damaged, "empty"),
        (b"hello\n", ErrorKind::Unsupported, "not the text form"),
        (b"#pcptrace 2\n#t0 1\n", ErrorKind::Unsupported, "version `2` of the text form is not known"),
        (b"#pcptrace 11\n#t0 1\n", ErrorKind::Unsupported, "version `11`"),
        (b"#pcptrace\n#t0 1\n", ErrorKind::Unsupported, "not the text form"),
        (b"#pcptrace 1", ErrorKind::Damaged, "line 1: the text ends in the middle of a line"),
        (b"#pcptrace 1\n", ErrorKind::Damaged, "line 2"),
        (b"#pcptrace 1\n#t0 -1\n", ErrorKind::Damaged, "line 2: `#t0 -1` is not a start line"),
        (b"#pcptrace 1\n#t0 18446744073709551616\n", ErrorKind::Damaged, "line 2"),
        (b"#pcptrace 1\n0 0 1p V\n", ErrorKind::Damaged, "line 2"),
    ];
    for (text, kind, what) in rows {
        let error = read(text).expect_err(what);
        assert_eq!(error.kind(), *kind, "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
    assert!(read(b"#pcptrace 1\n#t0 1\n").unwrap().is_empty(), "a recording without events is valid");
}

#[test]
fn a_truncated_text_is_an_error_except_at_a_line_end() {
    let whole = b"#pcptrace 1\n#t0 5\n0 0 1p A 1f 3 1 140dca\n1 2 0h F 0 9\n";
    for cut in 0..whole.len() {
        // The ends of the second header line and of the first event.
        let at_line_end = [18, 41].contains(&cut);
        assert_eq!(read(&whole[..cut]).is_ok(), at_line_end, "cut to {cut} bytes");
    }
}

#[test]
fn an_endless_line_is_refused() {
    let text = b"#pcptrace 1\n#t0 1\n".iter().copied().chain(std::iter::repeat_n(b'0', 1 << 20)).collect::<Vec<_>>();
    let error = read(&text).unwrap_err();
    assert!(error.to_string().contains("line 3: the line has more than 4096 bytes"), "{error}");
}
