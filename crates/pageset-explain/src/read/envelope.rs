//! What a tool puts around each line of a log, as the whole text shows it: forms that a line alone does not show.

/// What stands around the lines of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Envelope {
    /// Most lines have text before the kernel's time: the name of a host, of a container or of a port, another time, a quotation mark.
    is_headed: bool,
    /// The text is of `journalctl -o export` or `-o verbose`: most lines are fields, and the message is one of them.
    has_fields: bool,
}

impl Envelope {
    pub(super) fn of(text: &str) -> Envelope {
        let lines = || text.lines().filter(|line| !line.trim().is_empty());
        let headed = lines().filter(|line| head(line).is_some_and(|(before, _)| !before.trim().is_empty())).count();
        let fields = lines().filter(|line| is_field(line)).count();
        let has_message = lines().any(|line| message(line).is_some());
        Envelope { is_headed: 2 * headed > lines().count(), has_fields: has_message && 2 * fields >= lines().count() }
    }

    /// The line without what stands around it; `None` if it has nothing of the log.
    pub(super) fn opened(self, line: &str) -> Option<&str> {
        if self.has_fields {
            if let Some(message) = message(line) {
                return Some(message);
            }
            // A blank line ends a record.
            if line.trim().is_empty() || is_field(line) || is_record_head(line) {
                return None;
            }
        }
        let Some((before, message)) = head(line) else { return Some(line) };
        // A serial console prints the prompt for a name first.
        if self.is_headed || before.ends_with("login: ") {
            return Some(if before.contains('"') { message.trim_end_matches(['"', ',']) } else { message });
        }
        Some(line)
    }
}

/// The value of journald's field of the message.
fn message(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("MESSAGE=")
}

/// Whether the line is a field of a record of the journal: `_TRANSPORT=kernel`.
fn is_field(line: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    line.trim_start().split_once('=').is_some_and(|(name, _)| !name.is_empty() && name.bytes().all(is_of_name))
}

/// Whether the line is the head of a record of `journalctl -o verbose`: the time and the cursor, `[s=…;i=…;b=…;…]`.
fn is_record_head(line: &str) -> bool {
    line.trim_end().ends_with(']') && line.contains("[s=") && line.contains(";i=")
}

/// The text before the kernel's time, `[  123.456789]`, and the text from there.
fn head(line: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    while let Some(open) = line[from..].find('[').map(|at| from + at) {
        let inner = line[open + 1..].split(']').next().unwrap_or_default().trim_start();
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if let Some((seconds, fraction)) = inner.split_once('.')
            && digits(seconds)
            && digits(fraction)
            && fraction.len() == 6
        {
            return Some(line.split_at(open)).filter(|(before, _)| is_prefix(before));
        }
        from = open + 1;
    }
    None
}

/// Whether the text before `kernel:` can be the prefix of a log: a date, a host and numbers, but no sentence.
pub(super) fn is_prefix(before: &str) -> bool {
    before.len() <= 120
        && !before.contains("page allocation failure")
        && !before.contains("kB")
        && !before.contains("irqs/sec")
        // perf writes `2.02%  [kernel]`.
        && !before.contains('%')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(text: &str) -> Vec<Option<&str>> {
        let envelope = Envelope::of(text);
        text.lines().map(|line| envelope.opened(line)).collect()
    }

    #[test]
    fn text_before_the_kernels_time_goes() {
        for before in
            ["console.db: ", "node-1  | ", "(XEN) ", "2026-11-28 10:01:02 192.0.2.7:6665 ", "11/28/2026 10:01 AM "]
        {
            let text = format!("{before}[    1.500000] Mem-Info:\n{before}[    1.500001] a [x] b\nother\n");
            let expected = ["[    1.500000] Mem-Info:", "[    1.500001] a [x] b", "other"].map(Some);
            assert_eq!(opened(&text), expected, "{before}");
        }
        let quoted = "    \"[    1.500000] a\",\n    \"[    1.500001] b\"\n";
        assert_eq!(opened(quoted), ["[    1.500000] a", "[    1.500001] b"].map(Some));
        assert_eq!(
            opened("db login: [    1.500000] a\n[    1.500001] b"),
            ["[    1.500000] a", "[    1.500001] b"].map(Some)
        );
    }

    /// A message that another one interrupts is no head, nor are most lines without one.
    #[test]
    fn messages_stay() {
        for text in [
            "[ 1.500000] a\n[ 1.500000] b\na: page allocation failure[    1.500001] c",
            "0*512kB [    1.500000] 0*1024kB\n0*512kB [    1.500000] 0*1024kB",
            "dd-193 [001] 435.725794: x\ndd-193 [001] 435.725794: x",
        ] {
            assert_eq!(opened(text), text.lines().map(Some).collect::<Vec<_>>());
        }
    }

    #[test]
    fn of_a_record_of_the_journal_the_message_counts() {
        let text = "__CURSOR=s=1\nPRIORITY=4\nMESSAGE=Mem-Info:\n\n_TRANSPORT=kernel\n    MESSAGE=a\n";
        assert_eq!(opened(text), [None, None, Some("Mem-Info:"), None, None, Some("a")]);
        let text = "Sat 2026-11-28 10:01:02.5 UTC [s=5d;i=1a2;b=9f;m=1;t=6;x=7]\n    PRIORITY=4\n    MESSAGE=a\nNormal free:1\n";
        assert_eq!(opened(text), [None, None, Some("a"), Some("Normal free:1")]);
    }

    /// One line that a program wrote in the form of a field makes no record of the others.
    #[test]
    fn one_message_of_the_journal_leaves_the_log() {
        let text = "[    1.500000] Mem-Info:\n[    1.500001] active_anon:1\nMESSAGE=b\n[    1.500002] c\n";
        assert_eq!(opened(text), text.lines().map(Some).collect::<Vec<_>>());
    }
}
