//! Shared parts of the fuzz targets: their first inputs, and helpers for targets that read recordings.

use std::env;
use std::fs;
use std::path::Path;

#[cfg(feature = "readers")]
pub mod recordings;

/// Writes the first inputs of a target to the folder that `PAGESET_SEEDS` names, if it is set.
///
/// Call it when the target starts: libFuzzer reads its input folders afterwards.
pub fn begin_with<B: AsRef<[u8]>>(seeds: impl IntoIterator<Item = B>) {
    if let Some(folder) = env::var_os("PAGESET_SEEDS") {
        for (number, seed) in seeds.into_iter().enumerate() {
            fs::write(Path::new(&folder).join(number.to_string()), seed).expect("a folder to write to");
        }
    }
}
