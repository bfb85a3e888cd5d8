//! The command as a user runs it, and recordings to run it on.
#![allow(dead_code, reason = "each program uses a part")]

pub(crate) mod charts;
pub(crate) mod explained;
pub(crate) mod faults;
pub(crate) mod terminal;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A file of the folder `traces`.
pub(crate) fn trace(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces").join(file)
}

pub(crate) fn fixture(name: &str) -> PathBuf {
    trace(&format!("{name}.events.zst"))
}

pub(crate) fn command(arguments: &[&dyn AsRef<Path>]) -> Command {
    let mut command = Command::new(crate::PROGRAM);
    command.args(arguments.iter().map(|argument| argument.as_ref()));
    command
}

pub(crate) fn pageset(arguments: &[&dyn AsRef<Path>]) -> Output {
    command(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Standard output of a command that must end with `code`, and its standard error.
pub(crate) fn ends(code: i32, arguments: &[&dyn AsRef<Path>]) -> (String, String) {
    let output = pageset(arguments);
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}\n{err}");
    (out, err)
}

/// The option that writes JSON to a file.
pub(crate) fn json_to(file: &Path) -> String {
    format!("--json={}", file.display())
}

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A validator that refuses members that the schema does not name, so that a member missing from the schema is found.
pub(crate) fn strict(schema: &Value) -> jsonschema::Validator {
    fn close(schema: &mut Value) {
        match schema {
            Value::Object(object) => {
                object.values_mut().for_each(close);
                // Members of a choice are named in its alternatives.
                let is_choice = ["allOf", "anyOf", "oneOf"].iter().any(|word| object.contains_key(*word));
                if object.get("properties").is_some_and(Value::is_object) && !is_choice {
                    object.entry("additionalProperties").or_insert(false.into());
                }
            }
            Value::Array(all) => all.iter_mut().for_each(close),
            _ => {}
        }
    }
    let mut schema = schema.clone();
    close(&mut schema);
    jsonschema::validator_for(&schema).unwrap()
}

pub(crate) fn unpacked(path: &Path) -> String {
    String::from_utf8(zstd::decode_all(fs::File::open(path).unwrap()).unwrap()).unwrap()
}

/// A folder with `small.events` and `small.snap`: the beginning of a shipped recording, quick to replay.
pub(crate) struct Small(pub(crate) tempfile::TempDir);

impl Small {
    pub(crate) fn new() -> Self {
        Self::with(|_| {}, |_| {})
    }

    /// Like [`Small::new`], but `events` and `snapshots` first change the texts of the two files.
    pub(crate) fn with(events: impl FnOnce(&mut String), snapshots: impl FnOnce(&mut String)) -> Self {
        let path = fixture("sock-q1");
        // Keep all markers; markers of omitted events come last.
        let text = unpacked(&path);
        let (head, tail) = text.split_at(text.match_indices('\n').nth(40_000).unwrap().0 + 1);
        let markers = tail.lines().filter(|line| line.contains(" M ")).map(|line| format!("{line}\n"));
        let mut text = head.to_owned() + &markers.collect::<String>();
        let mut snap = unpacked(&path.with_file_name("sock-q1.snap.zst"));
        events(&mut text);
        snapshots(&mut snap);
        let small = Small(tempfile::tempdir().unwrap());
        fs::write(small.events(), text).unwrap();
        fs::write(small.at("small.snap"), snap).unwrap();
        small
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn events(&self) -> PathBuf {
        self.at("small.events")
    }
}
