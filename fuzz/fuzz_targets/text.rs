//! The text format of recordings. The reader returns an error or events. Events that are written and read again are the
//! same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pageset_fuzz::begin_with;
use pageset_trace::text::{TextReader, TextWriter};
use pageset_trace::{Event, TraceError};

/// A recording with every kind of line.
const SEED: &str = "#pcptrace 1\n#t0 5\n0 0 1p A 1f 3 1 140dca\n0 1 42s A - 10 255 ffffffff\n1 2 0h F 0 9\n\
    7 0 3n B fffff\n0 0 1p Z 20 0 2 1\n9 0 1p D 20 0 2\n0 0 1p X 20 0 10 2 1 1\n0 0 0p V\n0 0 0p K\n0 0 0p k\n0 0 0p R\n\
    0 0 0p M ZB init0\n0 0 0p M ZE init0\n";

fn read(bytes: &[u8]) -> Result<Vec<Event>, TraceError> {
    TextReader::new(bytes)?.collect()
}

fuzz_target!(init: begin_with([SEED]), |bytes: &[u8]| {
    let Ok(events) = read(bytes) else { return };
    let mut writer = TextWriter::new(Vec::new());
    for event in &events {
        writer.event(event).expect("memory");
    }
    let written = writer.finish().expect("memory");
    assert_eq!(read(&written).expect("what was written"), events);
});
