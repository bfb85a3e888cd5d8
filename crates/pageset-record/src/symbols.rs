//! Addresses of kernel functions, from one pass over `/proc/kallsyms`. On an emulated CPU a pass takes seconds.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};

use crate::error::RecordError;

/// Lines between two checks for a signal.
const LINES_PER_CHECK: u32 = 4096;

/// The wanted functions that the kernel has.
#[derive(Debug)]
pub(super) struct Symbols(HashMap<&'static str, u64>);

impl Symbols {
    /// Looks up `wanted`. `check` is called now and then; its error ends the pass.
    pub(super) fn find(
        wanted: impl Iterator<Item = &'static str>,
        check: &mut dyn FnMut() -> Result<(), RecordError>,
    ) -> Result<Symbols, RecordError> {
        // Without the file, no function is known.
        let Ok(file) = File::open("/proc/kallsyms") else { return Ok(Symbols(HashMap::new())) };
        Symbols::read(BufReader::with_capacity(1 << 16, file), wanted, check)
    }

    fn read(
        mut symbols: impl BufRead,
        wanted: impl Iterator<Item = &'static str>,
        check: &mut dyn FnMut() -> Result<(), RecordError>,
    ) -> Result<Symbols, RecordError> {
        let mut left: HashMap<&[u8], &'static str> = wanted.map(|name| (name.as_bytes(), name)).collect();
        let mut found = HashMap::new();
        let (mut line, mut lines) = (Vec::new(), 0_u32);
        while !left.is_empty() && symbols.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            lines += 1;
            if lines.is_multiple_of(LINES_PER_CHECK) {
                check()?;
            }
            // `ADDRESS TYPE NAME`, followed by the module's name for symbols of modules, which come last.
            let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            let (address, name) = (words.next(), words.nth(1));
            if words.next().is_some() {
                break;
            }
            if let (Some(address), Some(name)) = (address, name.and_then(|name| left.remove(name))) {
                let address = str::from_utf8(address).ok().and_then(|hex| u64::from_str_radix(hex, 16).ok());
                found.insert(name, address.unwrap_or(0));
            }
            line.clear();
        }
        Ok(Symbols(found))
    }

    /// Whether no function is known: the kernel does not tell their names.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the kernel has this function.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The address of a function: 0 if it is hidden, `None` if there is no such function.
    pub(super) fn address(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    #[cfg(test)]
    pub(super) fn of(names: &[&'static str]) -> Symbols {
        Symbols(names.iter().map(|name| (*name, 1)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "ffffffff81000000 T _stext\nffffffff81234560 t vmstat_update\n0000000000000000 T hidden\n\
                        ffffffffc0000000 t of_module\t[ext4]\nffffffffc0000010 t later\n";

    fn read(text: &str, check: &mut dyn FnMut() -> Result<(), RecordError>) -> Result<Symbols, RecordError> {
        Symbols::read(text.as_bytes(), ["vmstat_update", "hidden", "of_module", "later"].into_iter(), check)
    }

    #[test]
    fn functions_of_the_kernel_itself() {
        let symbols = read(TEXT, &mut || Ok(())).unwrap();
        assert_eq!(
            (symbols.address("vmstat_update"), symbols.address("hidden")),
            (Some(0xffff_ffff_8123_4560), Some(0))
        );
        // Names of modules begin the part that is not read.
        assert!(!symbols.has("of_module") && !symbols.has("later") && !symbols.is_empty());
        assert!(read("", &mut || Ok(())).unwrap().is_empty());
    }

    #[test]
    fn a_signal_ends_the_pass() {
        let long = "ffffffff81000000 T x\n".repeat(3 * LINES_PER_CHECK as usize);
        let mut checks = 0;
        let ended = read(&long, &mut || {
            checks += 1;
            if checks == 2 { Err(RecordError::Unknown("a signal".into())) } else { Ok(()) }
        });
        assert!(ended.is_err() && checks == 2, "{checks} checks");
    }
}
