//! Addresses of kernel functions, from `/proc/kallsyms`.

use std::fs;
use std::ops::Range;

use crate::record::RecordError;

/// The longest function. A guess: ten times the longest of 6.18. Unit: bytes.
const LONGEST: u64 = 1 << 20;

/// Functions, sorted by address. The parts of one function may be apart.
pub(super) struct Symbols(Vec<(u64, String)>);

impl Symbols {
    /// Reads the functions of the running kernel.
    ///
    /// # Errors
    /// If the file is missing or shows no addresses.
    pub(super) fn read() -> Result<Symbols, RecordError> {
        let missing = |what: &str| RecordError::Missing {
            what: format!("the addresses of the kernel's functions cannot be read: {what}"),
            help: "run as root, with kernel.kptr_restrict below 2".to_owned(),
        };
        let text =
            fs::read_to_string("/proc/kallsyms").map_err(|error| missing(&format!("/proc/kallsyms: {error}")))?;
        let symbols = Symbols::parse(&text);
        if symbols.0.is_empty() { Err(missing("/proc/kallsyms shows none")) } else { Ok(symbols) }
    }

    /// Parses lines of `ADDRESS KIND NAME`. Lines without an address, and symbols other than code, are skipped.
    pub(super) fn parse(text: &str) -> Symbols {
        let line = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
            let address = u64::from_str_radix(address, 16).ok().filter(|address| *address > 0)?;
            kind.eq_ignore_ascii_case("t").then(|| (address, name.to_owned()))
        };
        let mut all: Vec<(u64, String)> = text.lines().filter_map(line).collect();
        all.sort();
        Symbols(all)
    }

    /// The address ranges of a function's code, including the parts and copies that the compiler made, such as
    /// `NAME.constprop.0` and `NAME.cold`.
    pub(super) fn function(&self, name: &str) -> Vec<Range<u64>> {
        let is = |symbol: &str| symbol.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let places = self.0.iter().enumerate().filter(|(_, (_, symbol))| is(symbol));
        places
            .filter_map(|(place, (begin, _))| {
                let end = self.0[place..].iter().map(|(address, _)| *address).find(|address| address > begin)?;
                Some(*begin..end)
            })
            .collect()
    }

    /// The function that a return address lies in. `None` if it lies before all functions, or far behind one, such as in
    /// a module that was loaded later.
    pub(super) fn at(&self, address: u64) -> Option<&str> {
        // A return address is after the call: after a final call, it is the next function's first one.
        let (begin, _) = self.0[..self.0.partition_point(|(begin, _)| *begin < address)].last()?;
        let first = self.0.partition_point(|(other, _)| other < begin);
        (address - begin <= LONGEST).then(|| self.0[first].1.as_str())
    }

    /// The address range of the kernel's lock functions, which are contiguous.
    pub(super) fn locks(&self) -> Option<Range<u64>> {
        let at = |name: &str| self.0.iter().find(|(_, symbol)| symbol == name).map(|(address, _)| *address);
        Some(at("__lock_text_start")?..at("__lock_text_end")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
ffffffff81000100 T first
ffffffff81000200 t free_one_page
ffffffff81000200 t alias_of_it
ffffffff81000280 d some_data
ffffffff81000300 t free_one_page_too
ffffffff81000400 T __lock_text_start
ffffffff81000400 T _raw_spin_lock
ffffffff81000500 T __lock_text_end
ffffffff81000010 t free_one_page.cold
0000000000000000 t hidden
";

    #[test]
    fn a_function_ends_where_the_next_begins() {
        let symbols = Symbols::parse(TEXT);
        let at = |begin: u64, end: u64| 0xffff_ffff_8100_0000 + begin..0xffff_ffff_8100_0000 + end;
        assert_eq!(symbols.function("free_one_page"), [at(0x10, 0x100), at(0x200, 0x300)]);
        assert_eq!(symbols.function("hidden"), []);
        assert_eq!(symbols.locks(), Some(at(0x400, 0x500)));
        for (address, expected) in [
            (0x10, None),
            (0x11, Some("free_one_page.cold")),
            (0x180, Some("first")),
            // The return address of a call that ends a function.
            (0x200, Some("first")),
            (0x201, Some("alias_of_it")),
            (0x10_0500, Some("__lock_text_end")),
            (0x10_0501, None),
        ] {
            assert_eq!(symbols.at(0xffff_ffff_8100_0000 + address), expected, "{address:x}");
        }
        assert_eq!(Symbols::parse("0000000000000000 T __lock_text_start\n").locks(), None);
    }
}
