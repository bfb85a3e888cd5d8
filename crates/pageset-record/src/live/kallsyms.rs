//! Addresses of kernel functions, from `/proc/kallsyms`.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;

use crate::error::RecordError;

/// The longest function. A guess: ten times the longest of 6.18. Unit: bytes.
const LONGEST: u64 = 1 << 20;
/// The last symbol of the kernel or a module reaches at most to a multiple of this, because another module may begin
/// there: modules have pages of their own. The smallest page of all machines. Unit: bytes.
const PAGE: u64 = 4096;

/// A function, or a part of one.
#[derive(Clone, Copy)]
struct Symbol {
    begin: u64,
    name: Word,
    /// In brackets; empty for the kernel itself.
    module: Word,
    /// Of several names of an address, a weak one is the last.
    weak: bool,
}

/// A word of [`Symbols::words`].
#[derive(Clone, Copy, Default)]
struct Word {
    at: u32,
    length: u16,
}

/// Functions, sorted by address. The parts of one function may be apart.
///
/// A kernel has a hundred thousand. Each takes 32 bytes and its name.
#[derive(Default)]
pub(super) struct Symbols {
    all: Vec<Symbol>,
    /// The names of functions and modules, one after the other.
    words: String,
}

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
        let symbols = File::open("/proc/kallsyms")
            .and_then(|file| Symbols::of_lines(BufReader::new(file)))
            .map_err(|error| missing(&format!("/proc/kallsyms: {error}")))?;
        if symbols.all.is_empty() { Err(missing("/proc/kallsyms shows none")) } else { Ok(symbols) }
    }

    /// Parses a text of such lines.
    #[cfg(test)]
    pub(super) fn parse(text: &str) -> Symbols {
        Symbols::of_lines(text.as_bytes()).unwrap()
    }

    /// Reads lines of `ADDRESS KIND NAME [MODULE]`. Lines without an address, and symbols other than code, are skipped.
    fn of_lines(mut lines: impl BufRead) -> io::Result<Symbols> {
        let mut symbols = Symbols::default();
        let mut line = String::new();
        while lines.read_line(&mut line)? > 0 {
            symbols.push(&line);
            line.clear();
        }
        let Symbols { mut all, words } = symbols;
        all.sort_unstable_by(|a, b| {
            let [a, b] = [a, b].map(|of| (of.begin, of.weak, of.name.of(&words), of.module.of(&words)));
            a.cmp(&b)
        });
        Ok(Symbols { all, words })
    }

    /// Adds the function of a line, if it has one.
    fn push(&mut self, line: &str) -> Option<()> {
        let mut words = line.split_ascii_whitespace();
        let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
        let begin = u64::from_str_radix(address, 16).ok().filter(|begin| *begin > 0)?;
        let weak = match kind {
            "t" | "T" => false,
            "w" | "W" => true,
            _ => return None,
        };
        let module = words.next().unwrap_or_default();
        // The functions of a module follow each other.
        let before = self.all.last().map(|symbol| symbol.module).unwrap_or_default();
        let module = if before.of(&self.words) == module { before } else { self.word(module)? };
        let name = self.word(name)?;
        self.all.push(Symbol { begin, name, module, weak });
        Some(())
    }

    /// Keeps a word; `None` if it is too long for any kernel.
    fn word(&mut self, text: &str) -> Option<Word> {
        let word = Word { at: u32::try_from(self.words.len()).ok()?, length: u16::try_from(text.len()).ok()? };
        self.words.push_str(text);
        Some(word)
    }

    /// The address ranges of a function's code, including the parts and copies that the compiler made, such as
    /// `NAME.constprop.0` and `NAME.cold`.
    pub(super) fn function(&self, name: &str) -> Vec<Range<u64>> {
        let is = |symbol: &str| symbol.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let places = self.all.iter().enumerate().filter(|(_, symbol)| is(symbol.name.of(&self.words)));
        places
            .filter_map(|(place, Symbol { begin, .. })| {
                let end = self.all[place..].iter().map(|symbol| symbol.begin).find(|end| end > begin)?;
                Some(*begin..end)
            })
            .collect()
    }

    /// The function that a return address lies in. `None` if it lies before all functions, or far behind one, such as in
    /// a module that was loaded later.
    pub(super) fn at(&self, address: u64) -> Option<&str> {
        // A return address is after the call: after a final call, it is the next function's first one.
        let (before, after) = self.all.split_at(self.all.partition_point(|symbol| symbol.begin < address));
        let Symbol { begin, module, .. } = *before.last()?;
        let end = match after.first() {
            Some(next) if next.module.of(&self.words) == module.of(&self.words) => begin.saturating_add(LONGEST),
            _ => (begin / PAGE + 1).saturating_mul(PAGE),
        };
        let first = before.partition_point(|other| other.begin < begin);
        (address <= end).then(|| self.all[first].name.of(&self.words))
    }

    /// The address range of the kernel's lock functions, which are contiguous.
    pub(super) fn locks(&self) -> Option<Range<u64>> {
        let at =
            |name: &str| self.all.iter().find(|symbol| symbol.name.of(&self.words) == name).map(|symbol| symbol.begin);
        Some(at("__lock_text_start")?..at("__lock_text_end")?)
    }
}

impl Word {
    fn of(self, words: &str) -> &str {
        let at = self.at as usize;
        &words[at..at + usize::from(self.length)]
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
            // After the last symbol.
            (0x1000, Some("__lock_text_end")),
            (0x1001, None),
        ] {
            assert_eq!(symbols.at(0xffff_ffff_8100_0000 + address), expected, "{address:x}");
        }
        assert_eq!(Symbols::parse("0000000000000000 T __lock_text_start\n").locks(), None);
    }

    /// A module that was loaded after the symbols were read may lie between two that they show.
    #[test]
    fn the_last_function_of_a_module_ends_with_its_page() {
        let text = "\
ffffffffa0000f00 t early [one]
ffffffffa0004f00 t last [one]
ffffffffa0009000 t of_another [two]
ffffffffa0209000 t far [two]
";
        let symbols = Symbols::parse(text);
        for (address, expected) in [
            (0x1234, Some("early")),
            (0x4f00, Some("early")),
            (0x4f80, Some("last")),
            (0x5000, Some("last")),
            (0x5001, None),
            (0x8fff, None),
            (0x9001, Some("of_another")),
            (0x10_9000, Some("of_another")),
            (0x10_9001, None),
        ] {
            assert_eq!(symbols.at(0xffff_ffff_a000_0000 + address), expected, "{address:x}");
        }
        assert_eq!(Symbols::parse("fffffffffffff800 t end\n").at(u64::MAX), Some("end"));
    }

    #[test]
    fn weak_functions_have_names() {
        let text = "\
ffffffff81000100 T first
ffffffff81000200 W weak_one
ffffffff81000200 w a_weak_one
ffffffff81000300 W a_weak_name
ffffffff81000300 T strong_name
ffffffff81000400 V weak_data
";
        let symbols = Symbols::parse(text);
        let at = |address: u64| symbols.at(0xffff_ffff_8100_0000 + address);
        assert_eq!(
            [0x180, 0x280, 0x380, 0x480].map(at),
            ["first", "a_weak_one", "strong_name", "strong_name"].map(Some)
        );
        let first = 0xffff_ffff_8100_0100..0xffff_ffff_8100_0200;
        assert_eq!(symbols.function("first"), vec![first]);
    }
}
