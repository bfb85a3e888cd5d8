//! Lines without what logs, mails and terminals put around them.

/// A line of an input, without its prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line<'t> {
    /// The line's number in the input, counted from 1. Lines that syslog has joined have the number of the joined line.
    pub(crate) at: u64,
    /// The line as it is in the input.
    pub(crate) raw: &'t str,
    /// The line without quotation marks and without the prefix of a log. Indentation stays.
    pub(crate) text: &'t str,
}

/// The lines of a text. syslog writes a line break as `#012`; JSON writes it as `\n`.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    // A terminal's `\r` at the end is white space. Progress bars write it alone; what they overwrote is no line.
    text.lines().zip(1..).flat_map(|(raw, at)| {
        let parts = raw.split("#012").flat_map(|part| part.split("\\n"));
        parts.map(move |part| Line { at, raw: part, text: stripped(part) })
    })
}

/// The line without quotation marks of a mail and without the prefix of a log.
fn stripped(raw: &str) -> &str {
    let mut text = raw;
    // `> `, `>> `, `| `: quotation.
    while let Some(rest) = text.trim_start().strip_prefix(['>', '|']) {
        // perf draws its call graphs with `|`.
        if text.trim_start().starts_with('|') && !rest.starts_with(" [") && !rest.contains("kB") {
            break;
        }
        text = rest.strip_prefix(' ').unwrap_or(rest);
    }
    // `Feb  9 08:09:39 host kernel: `, `kernel: `, `kern.info: `; several, if a log was logged.
    for mark in ["kernel:", "kern.info:", "kern.warn:", "kern.warning:", "kern.err:", "kern.debug:"] {
        while let Some(place) = text.find(mark).filter(|place| is_prefix(&text[..*place])) {
            text = &text[place + mark.len()..];
            text = text.strip_prefix(' ').unwrap_or(text);
        }
    }
    // `<4>`, `[  123.456789]`, `[Fri Feb  9 08:09:39 2024]`, `[T1234]`, `[   C3]`.
    loop {
        let rest = text.trim_start();
        let bracketed = |open: char, close: char| {
            let inner = rest.strip_prefix(open)?;
            let end = inner.find(close)?;
            Some((&inner[..end], &inner[end + 1..]))
        };
        if let Some((level, after)) = bracketed('<', '>')
            && !level.is_empty()
            && level.bytes().all(|b| b.is_ascii_digit())
        {
            text = after;
        } else if let Some((stamp, after)) = bracketed('[', ']')
            && is_stamp(stamp)
        {
            text = after.strip_prefix(' ').unwrap_or(after);
        } else {
            return text;
        }
    }
}

/// Whether the text before `kernel:` can be the prefix of a log: a date, a host and numbers, but no sentence.
fn is_prefix(before: &str) -> bool {
    before.len() <= 120 && !before.contains("page allocation failure") && !before.contains("kB")
}

/// Whether the text in brackets is a time or the number of a thread or a CPU.
fn is_stamp(stamp: &str) -> bool {
    let stamp = stamp.trim();
    let has_digit = stamp.bytes().any(|b| b.is_ascii_digit());
    let is_time = stamp.contains(['.', ':']) && !stamp.contains(['<', '(', '_', '+']);
    let is_thread =
        stamp.strip_prefix(['T', 'C']).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    // In 2.6 logs an address in brackets begins a frame: `[<ffffffff81123daf>]`; it has `<`.
    has_digit && (is_time && stamp.len() <= 40 || is_thread)
}

/// The words of a line with their places, without the times that interrupted printing leaves between them.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_ascii_whitespace().filter(|word| {
        let inner = word.trim_matches(['[', ']']);
        let is_time = inner.len() < word.len()
            && inner.split_once('.').is_some_and(|(a, b)| digits(a).is_some() && b.len() >= 3 && digits(b).is_some());
        !is_time && *word != "["
    })
}

/// A decimal number without a sign.
pub(crate) fn digits(word: &str) -> Option<u64> {
    let is_number = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| word.parse().ok()).flatten()
}

/// The bytes of `part` within `whole`; both are slices of one text.
#[cfg(test)]
fn place(whole: &str, part: &str) -> std::ops::Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_logs_go() {
        for (raw, text) in [
            ("Feb  9 08:09:39 host kernel: Mem-Info:", "Mem-Info:"),
            ("[ 2161.691518] active_anon:3268", "active_anon:3268"),
            ("Jul 16 11:53:24 h kernel: [1310061.327439] CPU 0/KVM invoked oom-killer", "CPU 0/KVM invoked oom-killer"),
            ("[Mon Apr 20 15:08:07 2020] kworker/u16:3: page", "kworker/u16:3: page"),
            ("> > <4>[    1.5] DMA free:1kB", "DMA free:1kB"),
            ("[  163.149428][  T123] swapper/0: page", "swapper/0: page"),
            ("[ 1.25][    C3] swapper/3: page", "swapper/3: page"),
            ("    kernel: [<ffffffff81123daf>] ? x+0x1/0x2", "[<ffffffff81123daf>] ? x+0x1/0x2"),
            ("  2015-10-01T18:25:37.33654 kern.info: [    0.000000] SRAT", "SRAT"),
            ("     |--43.21%--rmqueue_bulk", "     |--43.21%--rmqueue_bulk"),
            ("    cpu: 0", "    cpu: 0"),
            ("Feb 09 08:09:39 host kernel:     kernel: swapper: page", "swapper: page"),
        ] {
            assert_eq!(stripped(raw), text, "{raw}");
            assert_eq!(place(raw, stripped(raw)).end, raw.len());
        }
    }

    #[test]
    fn joined_lines_are_split() {
        let text = "a#012 b\r\nc\\nd";
        let all: Vec<(u64, &str)> = lines(text).filter(|l| !l.text.is_empty()).map(|l| (l.at, l.text)).collect();
        assert_eq!(all.iter().map(|(_, text)| *text).collect::<Vec<_>>(), ["a", " b", "c", "d"]);
    }

    #[test]
    fn times_between_words_go() {
        let line = "0*512kB [2836065.503181]  03*4096kB [ 12.3456] 5404*4kB (UM) 1.5";
        assert_eq!(words(line).collect::<Vec<_>>(), ["0*512kB", "03*4096kB", "5404*4kB", "(UM)", "1.5"]);
    }
}
