//! One verdict: `advise`, `report`, `replay` and `top` say the same of a recording.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{ends, fixture, json, trace};

/// Thirty recordings: those of the shipped folder, every sixth of the lab, and those of real programs where they are.
fn recordings() -> Vec<PathBuf> {
    let sorted = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        let mut files: Vec<PathBuf> =
            entries.filter(|path| path.extension().is_some_and(|ending| ending == "pstrace")).collect();
        files.sort();
        files
    };
    let lab = sorted(&trace("lab")).into_iter().step_by(6);
    let mut all: Vec<PathBuf> = ["sock-q1", "pf1-q1", "compile-q1"].into_iter().map(fixture).chain(lab).collect();
    all.push(trace("cargo-build.pstrace"));
    let real = sorted(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/real"));
    if real.is_empty() {
        println!("SKIPPED the recordings of real programs: there is no ../shared/traces/real");
    }
    all.extend(real);
    all
}

#[test]
fn all_commands_say_the_same_of_a_recording() {
    let all = recordings();
    assert!(all.len() >= 22, "{}", all.len());
    let mut bases = std::collections::BTreeSet::new();
    for path in &all {
        let name = path.display();
        let advice = json(&ends(0, &[&"advise", path, &"--json"]).0);
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let (basis, why) = (text(&advice["verdict"]["basis"]), text(&advice["verdict"]["why"]));
        let trust = text(&advice["sure"]["trust"]);
        let reasons: Vec<String> =
            advice["sure"]["reasons"].as_array().unwrap().iter().map(|reason| text(&reason["text"])).collect();
        let sysctl = ["high_fraction", "watermark_scale_factor"]
            .into_iter()
            .find_map(|member| Some((member, advice["verdict"][member].as_u64()?)));
        let is_none = ["control-failed", "events-lost", "empty"].contains(&basis.as_str());

        // The report has the verdict, the trust and its reasons.
        let (report, _) = ends(0, &[&"report", &"--markdown", path, &"-o", &"-"]);
        let said = report.split("**").nth(1).unwrap();
        match (is_none, sysctl) {
            (true, _) => assert_eq!(said, "No verdict.", "{name}: {basis}"),
            (_, None) => assert_eq!(said, "Change nothing.", "{name}: {basis}"),
            (_, Some((_, value))) => assert!(said.ends_with(&format!(" = {value}.")), "{name}: {said}"),
        }
        assert!(report.to_lowercase().contains(&why.to_lowercase()), "{name}: {why}");
        let of_trust = report.split_once("\nTrust: ").unwrap().1;
        assert!(of_trust.starts_with(&format!("{trust}\n")), "{name}: {of_trust}");
        for reason in &reasons {
            assert!(of_trust.contains(&format!("\n- {reason}\n")), "{name}: {reason}");
        }

        // The first line of a replay.
        let (replay, _) = ends(0, &[&"replay", path, &"--lossy"]);
        let first = replay.lines().next().unwrap();
        assert_eq!(first.contains("no verdict: "), is_none, "{name}: {first}");
        assert_eq!(first.contains("change nothing: "), basis == "not-felt", "{name}: {first}");
        assert!(!(is_none || basis == "not-felt") || first.contains(&why), "{name}: {first}");
        if sysctl.is_none_or(|(member, _)| member == "high_fraction") {
            assert!(first.contains(&format!("; trust {trust}")), "{name}: {first}");
        }

        // `top` names a setting or asks for advice where advice has a value to set, and never where locks are rare.
        let (top, _) = ends(0, &[&"top", &"--once", &"--from", path]);
        let first = top.lines().next().unwrap();
        let asks = first.contains("pageset advise") || first.contains("; set vm.");
        assert!((asks || basis != "gain") && (!asks || basis != "not-felt"), "{name}: {top}");

        // The remedy was not used already.
        let info = json(&ends(0, &[&"trace", &"info", path, &"--json"]).0);
        let emptied = info["facts"]["lists_emptied"].as_bool().unwrap();
        assert!(!(emptied && why.contains("--empty-lists")), "{name}: {why}");
        bases.insert(basis);
    }
    assert!(bases.len() >= 2, "the recordings do not tell verdicts apart: {bases:?}");
}

/// The kernel itself refilled and drained twice a second: advice and report agree that locks are rare, and how sure that is.
#[test]
fn a_few_drains_do_not_hide_that_locks_are_rare() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/real/6.12-2cswap.sqlite.pstrace");
    if !path.exists() {
        return println!("SKIPPED: there is no {}", path.display());
    }
    let advice = json(&ends(0, &[&"advise", &path, &"--json"]).0);
    assert_eq!((&advice["verdict"]["basis"], &advice["sure"]["trust"]), (&"not-felt".into(), &"high".into()));
    let (report, _) = ends(0, &[&"report", &"--markdown", &path, &"-o", &"-"]);
    assert!(report.contains("**Change nothing.**") && report.contains("\nTrust: high\n"), "{report}");
}
