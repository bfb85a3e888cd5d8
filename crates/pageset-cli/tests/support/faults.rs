//! The table of exit codes, and what commands do with files that they cannot read or write. For both programs.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::Stdio;

use super::{command, ends, pageset};

/// The exit codes of a page of the manual, each with its meaning; `None` if it has no table.
fn table(page: &str) -> Option<BTreeMap<i32, String>> {
    let section = page.split(".SH ").find(|section| section.starts_with("\"EXIT STATUS\""))?;
    let rows = section.split(".TP\n").skip(1).map(|row| {
        let (code, meaning) = row.split_once('\n').unwrap();
        let digits: String = code.chars().filter(char::is_ascii_digit).collect();
        (digits.parse().unwrap(), meaning.lines().next().unwrap_or_default().to_owned())
    });
    Some(rows.collect())
}

/// The table of the manual: of one page, which all others name.
fn documented() -> BTreeMap<i32, String> {
    let folder = tempfile::tempdir().unwrap();
    ends(0, &[&"generate", &"man", &folder.path()]);
    let pages = fs::read_dir(folder.path()).unwrap().map(|page| fs::read_to_string(page.unwrap().path()).unwrap());
    let pages: Vec<String> = pages.collect();
    let mut tables: Vec<BTreeMap<i32, String>> = pages.iter().filter_map(|page| table(page)).collect();
    assert!(pages.len() > 12 && tables.len() == 1, "{} tables on {} pages", tables.len(), pages.len());
    tables.remove(0)
}

/// The page of the program, and the help, have the same table.
pub(crate) fn the_manual_and_the_help_have_the_same_table() {
    let table = documented();
    let (help, _) = ends(0, &[&"--help"]);
    for (code, meaning) in &table {
        let row = format!("{code:>3}  {}", meaning.replace("\\-", "-"));
        assert!(help.replace("\n       ", " ").contains(&row), "{row:?} is not in the help:\n{help}");
    }
    assert_eq!(table.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 129, 130, 143]);
}

/// Each command line ends with its exit code, which the manual has, and with one message.
pub(crate) fn have_their_exit_codes(cases: &[(i32, Vec<String>)]) {
    let table = documented();
    let mut wrong = Vec::new();
    for (code, line) in cases {
        assert!(table.contains_key(code), "exit code {code} is not in the manual");
        let line: Vec<&dyn AsRef<Path>> = line.iter().map(|word| word as &dyn AsRef<Path>).collect();
        let output = pageset(&line);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() != Some(*code) || !error.starts_with("error: ") || error.contains("no-folder/.tmp") {
            let shown: Vec<String> = line.iter().map(|word| word.as_ref().display().to_string()).collect();
            wrong.push(format!("{}: {}, not {code}: {error}", shown.join(" "), output.status));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The words of a line, with a file for `FILE`.
pub(crate) fn words(line: &str, file: &str) -> Vec<String> {
    line.split(' ').map(|word| word.replace("FILE", file)).collect()
}

/// A result that cannot be written to one of these files is reported before the work: nothing else is printed.
pub(crate) fn refuse_before_the_work(lines: &[String], files: [&str; 2]) {
    for (line, file) in lines.iter().flat_map(|line| files.map(|file| (line, file))) {
        let words = words(line, file);
        let words: Vec<&dyn AsRef<Path>> = words.iter().map(|word| word as &dyn AsRef<Path>).collect();
        let (out, error) = ends(6, &words);
        assert_eq!(out, "", "{line}");
        // A remedy may follow.
        let is_other = |line: &&str| line.starts_with("note: external allocators") || line.starts_with("help: ");
        let lines: Vec<&str> = error.lines().filter(|line| !is_other(line)).collect();
        assert!(lines.len() == 1 && lines[0].starts_with(&format!("error: cannot write {file}: ")), "{line}: {error}");
    }
}

/// Standard output on a full device: one exit code for all commands, and no panic.
pub(crate) fn a_full_device_has_its_exit_code(lines: &[&str]) {
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let words: Vec<&dyn AsRef<Path>> = words.iter().map(|word| word as &dyn AsRef<Path>).collect();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command(&words).stdout(full).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let output = output.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(6), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A reader that takes one line and goes is no fault.
pub(crate) fn a_closed_pipe_is_no_fault(lines: &[&str]) {
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let words: Vec<&dyn AsRef<Path>> = words.iter().map(|word| word as &dyn AsRef<Path>).collect();
        let mut child = command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), error.as_str()), (Some(0), ""), "{line}");
    }
}
