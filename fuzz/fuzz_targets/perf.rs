//! Files of the format `perf.data`. The reader returns an error or events in order of time, in bounded memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pageset_fuzz::begin_with;
use pageset_fuzz::recordings::{read, test_file};

/// A recording of a few events, some of them lost.
fn seed() -> Vec<u8> {
    zstd::stream::decode_all(&test_file("data/perf/lost.data.zst")[..]).expect("the file is whole")
}

fuzz_target!(init: begin_with([seed()]), |bytes: &[u8]| {
    // The magic number keeps the fuzzer in this format.
    let mut file = bytes.to_vec();
    let magic = b"PERFILE2";
    let length = file.len().min(magic.len());
    file[..length].copy_from_slice(&magic[..length]);
    if let Ok((_, events)) = read(&file) {
        assert!(events.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns), "time goes back");
    }
});
