//! The prefix of a line: what logs, mails and terminals put before it.

use super::envelope::is_prefix;

/// Whether a line has the prefix of a log.
pub(super) fn is_log(line: &str) -> bool {
    stripped(line).len() < unquoted(line).trim_start().len()
}

/// The line without the quotation marks of a mail, `> `, `>> `, `| `, and without those of a list, `"…",`.
pub(super) fn unquoted(raw: &str) -> &str {
    let member = raw.trim().strip_prefix('"').and_then(|text| text.trim_end_matches(',').strip_suffix('"'));
    let mut text = member.filter(|text| !text.contains('"')).unwrap_or(raw);
    while let Some(rest) = text.trim_start().strip_prefix(['>', '|']) {
        // perf draws its call graphs with `|`.
        if text.trim_start().starts_with('|') && !rest.starts_with(" [") && !rest.contains("kB") {
            break;
        }
        text = rest.strip_prefix(' ').unwrap_or(rest);
    }
    text
}

/// The line without quotation marks of a mail and without the prefix of a log.
pub(super) fn stripped(raw: &str) -> &str {
    let mut text = enveloped(unquoted(raw));
    // `Feb  9 08:09:39 host kernel: `, `kernel: `, `kern.info: `; several, if a log was logged.
    let marks = [
        "kernel:",
        "kernel[0]:",
        "kernel - - -",
        "klogd:",
        "[kernel]",
        "kern.info:",
        "kern.warn:",
        "kern.warning:",
        "kern.err:",
        "kern.debug:",
    ];
    for mark in marks.iter().filter(|_| raw.contains("kern") || raw.contains("klogd")) {
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
            text = after.strip_prefix(": ").or(after.strip_prefix(' ')).unwrap_or(after);
        } else {
            return text;
        }
    }
}

/// The message within what tools of logs put around it: a record of `/dev/kmsg` and of netconsole (`4,1234,567890,-;`), the facility of
/// `dmesg -x` (`kern  :warn  : `), a member of JSON, a time with or without its date, `logcat`.
fn enveloped(line: &str) -> &str {
    let text = line.trim_start();
    // Most lines have none of these.
    let is_answer = text.contains("\"stdout\":");
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '{' | 'k' | 'u')) && !is_answer {
        return line;
    }
    if let Some(record) = text.strip_prefix('{').or(Some(text).filter(|_| is_answer)) {
        let members = ["\"log\":", "\"MESSAGE\":", "\"message\":", "\"stdout\":", "\"msg\":"];
        let value = |member: &&str| record[record.find(*member)? + member.len()..].trim_start().strip_prefix('"');
        let found = members.iter().find_map(value);
        return found.map_or(line, |found| enveloped(&found[..found.find('"').unwrap_or(found.len())]));
    }
    if let Some((head, message)) = text.split_once(';')
        && head.split(',').take(3).filter(|number| digits(number).is_some()).count() == 3
    {
        return message;
    }
    for facility in ["kern", "user"] {
        if let Some(rest) = text.strip_prefix(facility)
            && let Some((level, message)) = rest.trim_start().strip_prefix(':').and_then(|rest| rest.split_once(':'))
            && level.trim().bytes().all(|b| b.is_ascii_lowercase())
            && level.trim().len() <= 7
        {
            return message.strip_prefix(' ').unwrap_or(message);
        }
    }
    let Some((stamp, rest)) = text.split_once(' ') else { return line };
    // `2024-08-08T08:37:09,914376+00:00 `, and of containers ` stdout F `.
    if stamp.len() >= 19 && stamp.as_bytes()[4] == b'-' && stamp.as_bytes()[10] == b'T' {
        let stream = ["stdout F ", "stderr F "].iter().find_map(|stream| rest.strip_prefix(stream));
        return stream.unwrap_or(rest);
    }
    // `2024-08-08 08:37:09,914 ` and `08:37:09.914 `, as terminals log a serial console. Tables have times without a fraction.
    if stamp.len() == 10
        && stamp.as_bytes()[4] == b'-'
        && let Some((time, message)) = rest.split_once(' ')
        && clock(time).is_some()
    {
        return message;
    }
    if clock(stamp) == Some(true) {
        return rest;
    }
    // `10-24 14:24:26.342   710   710 I `.
    let is_day = stamp.len() == 5 && stamp.as_bytes()[2] == b'-';
    let mut rest = rest;
    if is_day && rest.as_bytes().get(2) == Some(&b':') && rest.as_bytes().get(5) == Some(&b':') {
        for _ in 0..6 {
            let (word, after) = rest.trim_start().split_once(' ').unwrap_or((rest, ""));
            rest = after;
            if matches!(word, "V" | "D" | "I" | "W" | "E" | "F") {
                return rest.trim_start().strip_prefix(": ").unwrap_or(rest);
            }
        }
    }
    line
}

/// Whether a time of day, `08:37:09` and perhaps a zone, has a fraction; `None` of another word.
fn clock(word: &str) -> Option<bool> {
    let two = |at: usize| word.as_bytes().get(at..at + 2).is_some_and(|two| two.iter().all(u8::is_ascii_digit));
    let is_time = two(0) && two(3) && two(6) && word.as_bytes()[2] == b':' && word.as_bytes()[5] == b':';
    is_time.then(|| word.as_bytes().get(8).is_some_and(|byte| matches!(byte, b'.' | b',')))
}

/// Whether the text in brackets is a time or the number of a thread or a CPU.
fn is_stamp(stamp: &str) -> bool {
    // `dmesg -d` prints `[  +0.002367]`.
    let stamp = stamp.trim().trim_start_matches('+');
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
            ("Jun 06 15:45:40 [kernel] [ 1596.567002] swapper: page", "swapper: page"),
            ("  2.02%  [kernel]   [k] clear_page_rep", "  2.02%  [kernel]   [k] clear_page_rep"),
            ("4,1234,567890123,-;swapper/0: page", "swapper/0: page"),
            ("[  +0.002367] swapper/0: page", "swapper/0: page"),
            ("6,12,5,-,caller=T1;a; b", "a; b"),
            ("kern  :warn  : [    1.234567] swapper/0: page", "swapper/0: page"),
            ("kern: warning: [2026-01-12T20:27:31.913975631Z]: swapper/0: page", "swapper/0: page"),
            ("2024-08-08T08:37:09,914376+00:00 swapper/0: page", "swapper/0: page"),
            ("2024-08-08T08:37:09.914Z stdout F [ 1.2] swapper/0: page", "swapper/0: page"),
            ("2024-08-08 08:37:09.914 swapper/0: page", "swapper/0: page"),
            ("2024-08-08 08:37:09+01:00 [ 1.2] swapper/0: page", "swapper/0: page"),
            ("08:37:09.914 swapper/0: page", "swapper/0: page"),
            ("12:00:01 pgpgin/s pgpgout/s", "12:00:01 pgpgin/s pgpgout/s"),
            ("Nov 28 10:01:02 host kernel[0]: swapper/0: page", "swapper/0: page"),
            ("<4>1 2026-11-28T10:01:02.000012Z host kernel - - - [ 1.2] swapper/0: page", "swapper/0: page"),
            ("Nov 28 10:01:02 host klogd: swapper/0: page", "swapper/0: page"),
            ("10-24 14:24:26.342     0     0 W         : swapper/0: page", "swapper/0: page"),
            ("10-24 14:24:26.342   710   710 I lowmemorykiller: Kill", "lowmemorykiller: Kill"),
        ] {
            assert_eq!(stripped(raw), text, "{raw}");
            assert_eq!(place(raw, stripped(raw)).end, raw.len());
        }
        let json = "{\"log\":\"[ 12.5] DMA free:1kB\",\"stream\":\"stdout\"}";
        assert_eq!(stripped(json), "DMA free:1kB");
        assert_eq!(stripped("{\"PRIORITY\": \"4\", \"MESSAGE\": \"DMA free:1kB\"}"), "DMA free:1kB");
    }

    #[test]
    fn times_between_words_go() {
        let line = "0*512kB [2836065.503181]  03*4096kB [ 12.3456] 5404*4kB (UM) 1.5";
        assert_eq!(words(line).collect::<Vec<_>>(), ["0*512kB", "03*4096kB", "5404*4kB", "(UM)", "1.5"]);
    }
}
