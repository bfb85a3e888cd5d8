//! What the fuzz targets share: where they begin, and what those need that read recordings.

use std::env;
use std::fs;
use std::path::Path;

#[cfg(feature = "readers")]
pub mod recordings;

/// Writes what a target's fuzzer begins with, made of the files that the tests use, into the folder that `PAGESET_SEEDS`
/// names. libFuzzer reads its folders after that.
pub fn begin_with<B: AsRef<[u8]>>(seeds: impl IntoIterator<Item = B>) {
    if let Some(folder) = env::var_os("PAGESET_SEEDS") {
        for (number, seed) in seeds.into_iter().enumerate() {
            fs::write(Path::new(&folder).join(number.to_string()), seed).expect("a folder to write to");
        }
    }
}
