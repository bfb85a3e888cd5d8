//! Replays of recordings by the command `pageset`, and the part of its JSON that the lab stores.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::limits::{Amounts, out_of_limits};
use crate::tool::{at, run, write_whole};

/// The levels in the order of the tables: the predicting level comes first.
pub const LEVELS: [&str; 2] = ["input", "reconstructed"];

/// The result of one recording. Stored next to the recording as `NAME.replay.json`.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Outcome {
    pub kernel: Amounts,
    /// The preset of the recorded kernel.
    pub rules: String,
    pub events: u64,
    pub levels: BTreeMap<String, Level>,
    /// Why there is no replay.
    pub error: Option<String>,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Level {
    pub replay: Amounts,
    /// Presets of other kernels that are within limits too. `others_out` lists those that are not.
    pub others_within: Vec<String>,
    pub others_out: Vec<String>,
    pub warnings: Vec<String>,
}

impl Outcome {
    /// The quantities out of limits at a level, or `None` without a replay.
    pub fn out_of_limits(&self, level: &str) -> Option<Vec<(usize, u64, u64)>> {
        self.levels.get(level).map(|found| out_of_limits(self.kernel, found.replay))
    }
}

/// The fields of `pageset replay --json` that the lab reads. It ignores other fields.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Document {
    kernel: Kernel,
    rules: Vec<Row>,
    trace: Trace,
}
#[derive(Deserialize, Default)]
#[serde(default)]
struct Kernel {
    rules: String,
    #[serde(flatten)]
    amounts: Amounts,
}
#[derive(Deserialize, Default)]
#[serde(default)]
struct Trace {
    events: u64,
}
#[derive(Deserialize, Default)]
#[serde(default)]
struct Row {
    name: String,
    level: String,
    /// Whether these rules are those of the recorded kernel, under any name.
    is_kernel: bool,
    #[serde(flatten)]
    amounts: Amounts,
    warnings: Vec<String>,
}

/// Adds the result of one document at a level.
fn add(outcome: &mut Outcome, level: &str, json: &str) -> Result<(), String> {
    let document: Document = serde_json::from_str(json).map_err(|e| format!("cannot read the replay's JSON: {e}"))?;
    let rows = || document.rules.iter().filter(|row| row.level == level);
    let own = rows()
        .find(|row| row.is_kernel && row.name == document.kernel.rules)
        .or_else(|| rows().find(|row| row.is_kernel));
    let own = own.ok_or_else(|| format!("the replay's JSON has no row of the kernel's rules at level {level}"))?;
    let others = rows().filter(|row| !row.is_kernel && row.name.starts_with("linux-"));
    let (within, out) =
        others.partition::<Vec<&Row>, _>(|row| out_of_limits(document.kernel.amounts, row.amounts).is_empty());
    let names = |rows: Vec<&Row>| rows.iter().map(|row| row.name.clone()).collect();
    let found = Level {
        replay: own.amounts,
        others_within: names(within),
        others_out: names(out),
        warnings: own.warnings.clone(),
    };
    (outcome.kernel, outcome.rules, outcome.events) =
        (document.kernel.amounts, document.kernel.rules, document.trace.events);
    outcome.levels.insert(level.into(), found);
    Ok(())
}

/// The path of a recording's result.
pub fn kept(recording: &Path) -> PathBuf {
    recording.with_extension("replay.json")
}

/// Whether a result exists that is newer than the recording and the command.
pub fn is_kept(recording: &Path, pageset: &Path) -> bool {
    let time = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    let result = time(&kept(recording));
    result.is_some() && result > time(recording) && result > time(pageset)
}

/// Replays a recording at both levels and stores the result.
pub fn replay(recording: &Path, pageset: &Path) -> Result<Outcome, String> {
    let mut outcome = Outcome::default();
    for level in LEVELS {
        let path = recording.to_string_lossy();
        let json = run(
            &pageset.to_string_lossy(),
            ["replay", &path, "--rules", "kernel,all", "--level", level, "--json", "-"],
        );
        if let Err(error) = json.and_then(|json| add(&mut outcome, level, &json)) {
            outcome.error =
                Some(error.replace(&*path, "the recording").replace(&*pageset.to_string_lossy(), "pageset"));
        }
    }
    write_whole(&kept(recording), serde_json::to_vec_pretty(&outcome).map_err(|e| e.to_string())?)?;
    Ok(outcome)
}

/// Reads the stored result of a recording.
pub fn read(recording: &Path) -> Result<Outcome, String> {
    let path = kept(recording);
    serde_json::from_str(&at(&path, fs::read_to_string(&path))?).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"schema": "pageset.replay/2", "trace": {"events": 9, "new": [1]},
        "kernel": {"rules": "linux-6.18", "refills": 100, "refill_pages": 5000, "drains": 295, "drain_pages": 9000},
        "rules": [
            {"name": "linux-6.16", "is_kernel": true, "level": "input", "refills": 1},
            {"name": "linux-6.18", "is_kernel": true, "level": "input", "refills": 101, "refill_pages": 5000,
             "drains": 613, "drain_pages": 9000, "warnings": ["w"]},
            {"name": "linux-6.15", "level": "input", "refills": 100, "refill_pages": 5000, "drains": 295, "drain_pages": 9000},
            {"name": "linux-5.10", "level": "input", "refills": 7},
            {"name": "series-1", "level": "input", "refills": 7},
            {"name": "linux-6.18", "is_kernel": true, "level": "reconstructed"}]}"#;

    #[test]
    fn what_is_kept_of_the_json() {
        let mut outcome = Outcome::default();
        add(&mut outcome, "input", JSON).unwrap();
        assert_eq!((outcome.rules.as_str(), outcome.events, outcome.kernel.drains), ("linux-6.18", 9, 295));
        assert_eq!(outcome.out_of_limits("input").unwrap(), [(3, 295, 613)]);
        assert!(outcome.out_of_limits("reconstructed").is_none());
        let level = &outcome.levels["input"];
        assert_eq!(
            (&level.others_within[..], &level.others_out[..]),
            (&["linux-6.15".into()][..], &["linux-5.10".into()][..])
        );
        assert_eq!(level.warnings, ["w"]);
    }

    #[test]
    fn json_without_the_kernels_rules() {
        let error = add(&mut Outcome::default(), "input", "{}").unwrap_err();
        assert_eq!(error, "the replay's JSON has no row of the kernel's rules at level input");
        assert!(add(&mut Outcome::default(), "input", "no").unwrap_err().starts_with("cannot read the replay's JSON"));
    }

    #[test]
    fn a_recording_that_does_not_replay() {
        let dir = tempfile::tempdir().unwrap();
        let recording = dir.path().join("k.m.w.pstrace");
        fs::write(&recording, "x").unwrap();
        let outcome = replay(&recording, Path::new("false")).unwrap();
        assert_eq!(outcome.error.as_deref(), Some("`pageset` failed: it wrote no error"));
        assert_eq!(read(&recording).unwrap().error, outcome.error);
        assert!(!is_kept(dir.path().join("other.pstrace").as_path(), Path::new("false")));
    }
}
