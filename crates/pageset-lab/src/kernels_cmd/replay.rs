//! Replays of recordings, and what the lab stores of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pageset_rules::Chosen;
use pageset_trace::Trace;
use pageset_trace::measure::{How, Measured, ReplayResult, Replayed};
use pageset_trace::replay::agreement::{Deviation, deviations};
use pageset_trace::replay::{self, Totals};
use serde::{Deserialize, Serialize};

use super::tool::{at, write_whole};

/// The levels in the order of the tables: the predicting level comes first.
pub(super) const LEVELS: [&str; 2] = ["input", "reconstructed"];

/// The result of one recording. Stored next to the recording as `NAME.replay.json`.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
pub(super) struct Outcome {
    pub(super) kernel: Totals,
    /// The preset of the recorded kernel.
    pub(super) rules: String,
    pub(super) events: u64,
    pub(super) levels: BTreeMap<String, Level>,
    /// Why there is no replay.
    pub(super) error: Option<String>,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
pub(super) struct Level {
    pub(super) replay: Totals,
    /// Presets of other kernels that are within limits too. `others_out` lists those that are not.
    pub(super) others_within: Vec<String>,
    pub(super) others_out: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl Outcome {
    /// The quantities out of limits at a level, or `None` without a replay.
    pub(super) fn out_of_limits(&self, level: &str) -> Option<Vec<Deviation>> {
        let all = deviations(&self.kernel, &self.levels.get(level)?.replay);
        Some(all.into_iter().filter(|deviation| !deviation.is_within()).collect())
    }
}

fn add(outcome: &mut Outcome, level: replay::Level, result: &ReplayResult) -> Result<(), String> {
    let rows = || result.rules.iter().filter(|row| row.level == level);
    let own = rows()
        .find(|row| row.is_kernel && row.name == result.kernel.rules)
        .or_else(|| rows().find(|row| row.is_kernel));
    let own = own.ok_or_else(|| format!("the replay has no row of the kernel's rules at level {}", level.name()))?;
    let others = rows().filter(|row| !row.is_kernel && row.name.starts_with("linux-"));
    let (within, out) = others.partition::<Vec<_>, _>(|row| row.agrees);
    let names = |rows: Vec<&Replayed>| rows.iter().map(|row| row.name.clone()).collect();
    let found = Level {
        replay: own.totals,
        others_within: names(within),
        others_out: names(out),
        warnings: own.warnings.iter().map(ToString::to_string).collect(),
    };
    (outcome.kernel, outcome.rules, outcome.events) =
        (result.kernel.totals, result.kernel.rules.clone(), result.trace.events);
    outcome.levels.insert(level.name().into(), found);
    Ok(())
}

/// The path of a recording's result.
pub(super) fn kept(recording: &Path) -> PathBuf {
    recording.with_extension("replay.json")
}

/// Whether a result exists that is newer than the recording and this program.
pub(super) fn is_kept(recording: &Path) -> bool {
    let time = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    let result = time(&kept(recording));
    let program = std::env::current_exe().ok().and_then(|program| time(&program));
    result.is_some() && result > time(recording) && result > program
}

/// Replays a recording at both levels and stores the result.
pub(super) fn replay(recording: &Path) -> Result<Outcome, String> {
    let mut outcome = Outcome::default();
    for level in [replay::Level::Input, replay::Level::Reconstructed] {
        if let Err(error) = at_level(recording, level, &mut outcome) {
            outcome.error = Some(error.replace(&*recording.to_string_lossy(), "the recording"));
        }
    }
    write_whole(&kept(recording), serde_json::to_vec_pretty(&outcome).map_err(|e| e.to_string())?)?;
    Ok(outcome)
}

fn at_level(recording: &Path, level: replay::Level, outcome: &mut Outcome) -> Result<(), String> {
    let trace = Trace::open(recording).map_err(|error| error.to_string())?;
    let names = ["kernel", "all"].map(str::to_owned);
    let chosen = Chosen::parse(&names, &[], true).map_err(|error| error.to_string())?;
    let how = How { level, only: Vec::new() };
    let measured = Measured::new(&trace, &chosen, &how, &mut |_| {}).map_err(|error| error.to_string())?;
    add(outcome, level, &measured.result)
}

pub(super) fn read(recording: &Path) -> Result<Outcome, String> {
    let path = kept(recording);
    serde_json::from_str(&at(&path, fs::read_to_string(&path))?).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_replay() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/lab/6.18-amd64.4cpu.unix1.pstrace");
        let trace = Trace::open(&path).unwrap();
        let names = ["kernel", "linux-5.10"].map(str::to_owned);
        let chosen = Chosen::parse(&names, &[], true).unwrap();
        let how = How { level: replay::Level::Input, only: Vec::new() };
        let mut result = Measured::new(&trace, &chosen, &how, &mut |_| {}).unwrap().result;
        let mut outcome = Outcome::default();
        add(&mut outcome, replay::Level::Input, &result).unwrap();
        assert_eq!((outcome.rules.as_str(), outcome.events), ("linux-6.18", result.trace.events));
        assert_eq!(outcome.out_of_limits("input").unwrap(), []);
        assert!(outcome.out_of_limits("reconstructed").is_none());
        let level = &outcome.levels["input"];
        assert_eq!((&level.others_within[..], &level.others_out[..]), (&[][..], &["linux-5.10".to_owned()][..]));
        let warnings = result.rules[0].warnings.iter().map(ToString::to_string);
        assert_eq!(level.warnings, warnings.collect::<Vec<_>>());
        result.rules[0].totals.drains += 1000;
        add(&mut outcome, replay::Level::Input, &result).unwrap();
        let drains = result.kernel.totals.drains;
        let out = outcome.out_of_limits("input").unwrap();
        let out: Vec<_> = out.iter().map(|off| (off.limit.quantity.name(), off.kernel, off.replay)).collect();
        assert_eq!(out, [("drains", drains, result.rules[0].totals.drains)]);
        result.rules.retain(|row| !row.is_kernel);
        let error = add(&mut outcome, replay::Level::Input, &result).unwrap_err();
        assert_eq!(error, "the replay has no row of the kernel's rules at level input");
    }

    #[test]
    fn a_recording_that_does_not_replay() {
        let dir = tempfile::tempdir().unwrap();
        let recording = dir.path().join("k.m.w.pstrace");
        fs::write(&recording, "x").unwrap();
        let outcome = replay(&recording).unwrap();
        assert!(outcome.error.as_deref().is_some_and(|error| error.contains("the recording")), "{:?}", outcome.error);
        assert_eq!(read(&recording).unwrap().error, outcome.error);
        assert!(!is_kept(&dir.path().join("other.pstrace")));
    }
}
