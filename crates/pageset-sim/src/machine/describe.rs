//! The text of a new description: given lines, and those of a shipped machine for all other keys.

use super::SHIPPED;

/// The text of the description `name` of `about`. `lines` replace those of the shipped machine `like`. A comment at each value
/// says whose it is, but for guesses, which are those of every machine.
pub(super) fn describe(name: &str, about: &str, like: &str, lines: &[(&str, String)]) -> String {
    let text = SHIPPED.iter().find(|(name, _)| *name == like).map_or("", |(_, text)| text);
    let mut out = format!(
        "# This host: counts, memory and caches, as Linux tells them.\n\
         # Another machine, {like}: latencies and costs. They were not measured here.\n\
         name = \"{name}\"\nabout = \"{about}\"\nmicroarchitecture = \"unknown (like {like})\"\n"
    );
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
                Some(key) => match lines.iter().find(|(given, _)| *given == key) {
                    Some((_, given)) => out += given,
                    None if table == "[guessed]" => out += line,
                    None => out += &format!("{line} # {like}"),
                },
                None if cuts_sources && line.starts_with('#') => out += &without_source(line),
                None => out += line,
            }
            out.push('\n');
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

fn key(line: &str) -> Option<&str> {
    line.split_once(" =").map(|(key, _)| key).filter(|key| !key.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn every_shipped_machine_can_be_the_model_of_a_description() {
        for (like, shipped) in SHIPPED {
            let text = describe("x", "a test", like, &[("l1_ns", "l1_ns = 1.5 # given".to_owned())]);
            assert!(text.lines().any(|line| line == "l1_ns = 1.5 # given"), "{text}");
            let machine = Machine::parse("x.toml", &text).unwrap();
            assert_eq!(machine.cited.l1_ns.get(), 1.5, "{like}");
            let shipped = Machine::parse(like, shipped).unwrap();
            assert_eq!(machine.cited.remote_memory_ns, shipped.cited.remote_memory_ns);
            assert_eq!(
                (machine.guessed, machine.shared, machine.derived),
                (shipped.guessed, shipped.shared, shipped.derived)
            );
            // Sources of the shipped machine's values would be wrong here.
            for source in
                ["data sheet", "Source 1", "From memory", "not checked", "DDR", "published instruction", "Fitted to"]
            {
                assert!(!text.contains(source), "{source}: {text}");
            }
            assert!(text.contains("\n\n# Guesses, the same for all machines") && !text.contains("\n\n\n"), "{text}");
        }
        let text = describe("x", "a test", "lkp-sb02", &[]);
        for line in [
            "l2_kib = 256 # lkp-sb02",
            "# Base clock in GHz.",
            "# Cache sizes in KiB: first-level data cache and second level of a core, last level of a socket.",
            "# Atomic operation on a line in the own cache, in cycles.",
            "smt_slowdown = 1.6",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}
