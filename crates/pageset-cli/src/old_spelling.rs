//! Spellings of earlier versions that still work.

use std::ffi::OsString;

/// The subcommands whose `--json` took its file as a word of its own.
const JSON_AS_WORD: [&str; 3] = ["replay", "identify", "advise"];

/// Joins `--json FILE` to `--json=FILE` where FILE is `-` or ends in `.json`. Another word after `--json` is an input: the
/// command must not overwrite a recording.
pub(crate) fn modern(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut modern: Vec<OsString> = Vec::new();
    for word in words {
        let is_old = modern.get(1).is_some_and(|command| JSON_AS_WORD.iter().any(|name| command == name));
        let is_file = word == "-" || word.to_string_lossy().ends_with(".json");
        let ended = modern.iter().any(|word| word == "--");
        match modern.last_mut() {
            Some(last) if last == "--json" && is_old && is_file && !ended => {
                last.push("=");
                last.push(word);
            }
            _ => modern.push(word),
        }
    }
    modern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_after_json_is_its_value() {
        for (old, new) in [
            ("pageset replay a --json -", "pageset replay a --json=-"),
            ("pageset replay a --json b.json", "pageset replay a --json=b.json"),
            ("pageset replay w --json --wide", "pageset replay w --json --wide"),
            // A recording is never a destination.
            ("pageset replay --json a.pstrace", "pageset replay --json a.pstrace"),
            // Inputs of these commands end in .json.
            ("pageset diff --json a.json b.json", "pageset diff --json a.json b.json"),
            ("pageset report --json a.json", "pageset report --json a.json"),
            ("pageset replay -- --json b.json", "pageset replay -- --json b.json"),
            ("pageset --json", "pageset --json"),
        ] {
            let joined = modern(old.split(' ').map(OsString::from));
            let joined: Vec<&str> = joined.iter().map(|word| word.to_str().unwrap()).collect();
            assert_eq!(joined.join(" "), new);
        }
    }
}
