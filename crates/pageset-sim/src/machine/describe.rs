//! The text of a new description: given values, and those of a shipped machine for all other keys.

use super::SHIPPED;

/// The contents of a new description.
#[derive(Clone, PartialEq, Debug)]
pub struct Values {
    /// Comment lines at the start.
    pub head: String,
    /// The name.
    pub name: String,
    /// What the machine is.
    pub about: String,
    /// The shipped machine that all other values come from.
    pub like: &'static str,
    /// The values. For a key that occurs twice, the later value.
    pub values: Vec<Value>,
}

/// A value of a description.
#[derive(Clone, PartialEq, Debug)]
pub struct Value {
    /// The key.
    pub key: &'static str,
    /// The value; `None` for that of the shipped machine.
    pub value: Option<f64>,
    /// Where the value comes from, as a comment; may be empty.
    pub note: String,
}

impl Value {
    /// A number that Linux tells.
    pub(super) fn of_linux(key: &'static str, value: u64) -> Value {
        Value { key, value: Some(value as f64), note: "this host".to_owned() }
    }

    /// The line of this value in place of `line`.
    fn line(&self, line: &str) -> String {
        let code = match self.value {
            Some(value) => format!("{} = {}", self.key, rounded(self.key, value)),
            None => line.to_owned(),
        };
        if self.note.is_empty() { code } else { format!("{code} # {}", self.note) }
    }
}

/// The text of the description. Values have at most one decimal, except below 10, where they have two, and the pace, which has
/// four. A comment at each value says whose it is, but for guesses, which are those of every machine.
pub fn describe(values: &Values) -> String {
    let Values { head, name, about, like, values } = values;
    let text = SHIPPED.iter().find(|(name, _)| name == like).map_or("", |(_, text)| text);
    let mut out =
        format!("{head}name = \"{name}\"\nabout = \"{about}\"\nmicroarchitecture = \"unknown (like {like})\"\n");
    // The first paragraph has the names.
    for paragraph in text.split("\n\n").skip(1) {
        let of_head = paragraph.lines().take_while(|line| line.starts_with('#')).count();
        let table = paragraph.lines().nth(of_head).unwrap_or_default();
        // Where the shipped machine's facts and its pace come from is said in its own description.
        let cuts_sources = ["[cited]", "[derived]"].contains(&table);
        out.push('\n');
        match table {
            "[cited]" => {
                out += &format!("# Facts. `pageset-lab machine show {like}` has the sources of its numbers.\n")
            }
            "[fitted]" => out += "# The only number that a fit determines.\n",
            _ => out.extend(paragraph.lines().take(of_head).map(|line| format!("{line}\n"))),
        }
        for line in paragraph.lines().skip(of_head) {
            match key(line) {
                Some(key) => match values.iter().rfind(|value| value.key == key) {
                    Some(value) => out += &value.line(line),
                    None if table == "[guessed]" => out += line,
                    None => out += &format!("{line} # {like}"),
                },
                None if cuts_sources && line.starts_with('#') => out += &without_source(line),
                None => out += line,
            }
            out.push('\n');
            if line == "[cited]" {
                // Facts that the shipped machine leaves at their defaults.
                for value in values.iter().filter(|value| value.value.is_some() && !has_key(text, value.key)) {
                    out += &value.line("");
                    out.push('\n');
                }
            }
        }
    }
    out
}

/// The first sentence of a comment, which says what a number is, without published values. Sources follow it.
fn without_source(comment: &str) -> String {
    let sentence = comment.split_once(". ").map_or(comment, |(sentence, _)| sentence);
    let what = sentence.split_once(": published").map_or(sentence, |(what, _)| what);
    format!("{}.", what.trim_end_matches('.'))
}

/// A number with as many digits as a measurement has. A pace is rounded as a fit rounds it.
fn rounded(key: &str, value: f64) -> f64 {
    let digits = match key {
        "pace" => 10_000.0,
        _ if value < 10.0 => 100.0,
        _ => 10.0,
    };
    (value * digits).round() / digits
}

/// The key that a line assigns.
fn key(line: &str) -> Option<&str> {
    line.split_once(" =").map(|(key, _)| key).filter(|key| !key.starts_with('#'))
}

fn has_key(text: &str, wanted: &str) -> bool {
    text.lines().any(|line| key(line) == Some(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    fn value(key: &'static str, value: Option<f64>, note: &str) -> Value {
        Value { key, value, note: note.to_owned() }
    }

    #[test]
    fn values_replace_those_of_the_shipped_machine() {
        let values = Values {
            head: "# Mine.\n".to_owned(),
            name: "mine".to_owned(),
            about: "a test".to_owned(),
            like: "lkp-sb02",
            values: vec![
                value("l1_ns", Some(1.987), "measured: median of 9, spread 2 %"),
                value("memory_ns", Some(123.456), ""),
                value("remote_memory_ns", None, "not measured: one socket; the value of lkp-sb02"),
                value("turbo", Some(1.25), "measured: x"),
                value("pace", Some(0.5), "first"),
                value("pace", Some(0.61234), "fitted"),
            ],
        };
        let text = describe(&values);
        assert!(
            text.starts_with(
                "# Mine.\nname = \"mine\"\nabout = \"a test\"\nmicroarchitecture = \"unknown (like lkp-sb02)\"\n"
            ),
            "{text}"
        );
        for line in [
            "l1_ns = 1.99 # measured: median of 9, spread 2 %",
            "memory_ns = 123.5",
            "turbo = 1.25 # measured: x",
            "pace = 0.6123 # fitted",
            "l2_kib = 256 # lkp-sb02",
            "# Base clock in GHz.",
            "# Cache sizes in KiB: first-level data cache and second level of a core, last level of a socket.",
            "# Atomic operation on a line in the own cache, in cycles.",
            "smt_slowdown = 1.6",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        let machine = Machine::parse("mine.toml", &text).unwrap();
        let like = crate::machine::find("lkp-sb02").unwrap().unwrap();
        assert_eq!(machine.cited.l1_ns.get(), 1.99);
        assert_eq!(machine.cited.turbo.get(), 1.25);
        assert_eq!(machine.cited.remote_memory_ns, like.cited.remote_memory_ns);
        assert_eq!(machine.fitted.pace.get(), 0.6123);
        assert_eq!((machine.guessed, machine.shared, machine.derived), (like.guessed, like.shared, like.derived));
        assert_eq!(machine.cited.sockets, like.cited.sockets);
        let note = "# not measured: one socket; the value of lkp-sb02";
        assert!(text.lines().any(|line| line.starts_with("remote_memory_ns = ") && line.ends_with(note)), "{text}");
    }

    #[test]
    fn every_shipped_machine_can_be_the_model_of_a_description() {
        for (like, _) in SHIPPED {
            let values = Values {
                head: String::new(),
                name: "x".to_owned(),
                about: "x".to_owned(),
                like,
                values: vec![value("turbo", Some(1.5), "")],
            };
            let machine = Machine::parse("x.toml", &describe(&values)).unwrap();
            assert_eq!(machine.cited.turbo.get(), 1.5, "{like}");
            // Sources of the shipped machine's values would be wrong here.
            let text = describe(&values);
            for source in
                ["data sheet", "Source 1", "From memory", "not checked", "DDR", "published instruction", "Fitted to"]
            {
                assert!(!text.contains(source), "{source}: {text}");
            }
            assert!(text.contains("\n\n# Guesses, the same for all machines") && !text.contains("\n\n\n"), "{text}");
        }
    }
}
