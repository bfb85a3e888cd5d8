//! What `explain` and `generate` of both programs are tested with.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::ends;

/// The names of all members, at any depth.
pub(crate) fn members(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                names.push(name.clone());
                members(value, names);
            }
        }
        Value::Array(all) => all.iter().for_each(|value| members(value, names)),
        _ => {}
    }
}

/// The column headings of the tables in a text. A heading is a line followed by a row, which has numbers.
pub(crate) fn headings(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    // Columns are separated by two spaces or more; a heading contains single spaces.
    let cells =
        |line: &str| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect();
    let table = |pair: &&[&str]| {
        let (head, row): (Vec<String>, Vec<String>) = (cells(pair[0]), cells(pair[1]));
        head.len() > 2
            && row.len() > 2
            && !head[1].starts_with(|c: char| c.is_ascii_digit())
            && row[1..].iter().any(|cell| cell.starts_with(|c: char| c.is_ascii_digit()))
    };
    let heads = lines.windows(2).filter(table).map(|pair| cells(pair[0])).collect::<Vec<Vec<String>>>();
    heads
        .into_iter()
        .filter(|head| head.iter().skip(1).all(|cell| !cell.starts_with(|c: char| c.is_ascii_digit())))
        .flatten()
        .collect()
}

/// What a shell offers for the last word.
pub(crate) fn offered(shell: &str, script: &Path, folder: &Path, words: &[&str]) -> Option<Vec<String>> {
    let script = script.display();
    let line = words.join(" ");
    let (program, name) = (words[0], words[0].replace('-', "__"));
    let mut command = Command::new(shell);
    match shell {
        "bash" => command.args(["--norc", "-c"]).arg(format!(
            "source {script}; COMP_WORDS=({line} ''); COMP_CWORD={}; _{name} {program} '' {}; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.len(),
            words[words.len() - 1]
        )),
        _ => command.args(["--no-config", "-c"]).arg(format!("source {script}; complete -C '{line} '")),
    };
    // fish completes commands that exist only.
    let own = Path::new(crate::PROGRAM).parent().unwrap().display();
    command.env("PATH", format!("{own}:{}", std::env::var("PATH").unwrap_or_default()));
    let output = match command.current_dir(folder).stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => {
            println!("SKIPPED offered: {shell}: {error}");
            return None;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
}

/// Where a .toml file is allowed, shells offer the names and such files.
pub(crate) fn completions_offer(cases: &[(&[&str], &str, bool)]) {
    let folder = tempfile::tempdir().unwrap();
    for file in ["mine.toml", "other.json"] {
        fs::write(folder.path().join(file), "").unwrap();
    }
    for shell in ["bash", "fish"] {
        let script = folder.path().join(shell);
        fs::write(&script, ends(0, &[&"generate", &"completions", &shell]).0).unwrap();
        for &(words, name, has_files) in cases {
            let Some(words_offered) = offered(shell, &script, folder.path(), words) else { continue };
            let has = |word: &str| words_offered.iter().any(|offered| offered == word);
            assert!(has(name), "{shell}: {words:?}: {words_offered:?}");
            assert_eq!(has("mine.toml"), has_files, "{shell}: {words:?}: {words_offered:?}");
            // fish offers other files after those with the ending.
            assert!(!has("other.json") || shell == "fish" && has_files, "{shell}: {words:?}: {words_offered:?}");
        }
    }
}

/// Every subcommand of the help has a page of the manual, and each shell completes it.
pub(crate) fn pages_and_completions_know_every_subcommand(program: &str, one: &str) {
    let (help, _) = ends(0, &[&"-h"]);
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty())
        .filter(|name| *name != "help")
        .collect();
    assert!(commands.contains(&one) && !commands.contains(&"generate"), "{help}");
    let folder = tempfile::tempdir().unwrap();
    ends(0, &[&"generate", &"man", &folder.path()]);
    for name in &commands {
        let page = fs::read_to_string(folder.path().join(format!("{program}-{name}.1"))).unwrap();
        let has = |section: &str| page.contains(&format!(".SH {section}"));
        assert!((has("OPTIONS") || has("SUBCOMMANDS")) && has("DESCRIPTION"), "{name}: {page}");
        let (help, _) = ends(0, &[name, &"--help"]);
        assert!(help.contains(&format!("Examples:\n  {program} {name}")), "{name}: {help}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let (script, _) = ends(0, &[&"generate", &"completions", &shell]);
        assert!(commands.iter().all(|name| script.contains(name)), "{shell}");
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (script, _) = ends(0, &[&"generate", &"completions", &shell]);
        assert!(!script.contains("@toml@"), "{shell}: a place for files is left");
    }
    // A folder that does not exist is made; a file is no folder.
    let made = folder.path().join("one/more");
    ends(0, &[&"generate", &"man", &made]);
    let page = made.join(format!("{program}.1"));
    assert!(page.exists());
    let (_, error) = ends(6, &[&"generate", &"man", &page]);
    assert!(error.contains("cannot write "), "{error}");
}
