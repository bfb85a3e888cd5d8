//! The recordings that the project contains, for tests.

use std::io::Read;
use std::path::PathBuf;

/// The recordings' names.
pub(crate) const NAMES: [&str; 3] = ["compile-q1", "pf1-q1", "sock-q1"];

/// A file of the folder `traces`.
pub(crate) fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces").join(file)
}

/// A decompressed file of the folder `traces`.
pub(crate) fn text(file: &str) -> Vec<u8> {
    let mut text = Vec::new();
    let file = std::fs::File::open(path(file)).expect("the recording ships with the project");
    zstd::Decoder::new(file).unwrap().read_to_end(&mut text).unwrap();
    text
}
