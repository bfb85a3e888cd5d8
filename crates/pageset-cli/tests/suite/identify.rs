//! `pageset replay --identify`, as a user runs it.

use std::path::Path;

use crate::support::{ends, json};

fn corpus(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/lab").join(format!("{name}.pstrace"))
}

#[test]
fn a_stable_kernel_is_distinguished_from_its_mainline_release() {
    let file = corpus("6.1-amd64.4cpu.thp");
    let (text, error) = ends(0, &[&"replay", &file, &"--identify"]);
    assert!(text.starts_with("6.1-amd64.4cpu.thp: linux-6.1.104, confidence high\n"), "{text}");
    assert_eq!(error, "");
    let first = text.lines().nth(4).unwrap();
    assert!(first.starts_with(" linux-6.1.104") && first.ends_with("yes"), "{text}");
    let json = json(&ends(0, &[&"replay", &file, &"--identify", &"--json"]).0);
    assert_eq!((&json["schema"], &json["choice"]), (&"pageset.identify/1".into(), &"linux-6.1.104".into()));
    assert_eq!((&json["confidence"], &json["alike"]), (&"high".into(), &1.into()));
}

/// A recording of a kernel whose rules are newer than its release.
fn with_release(folder: &Path, name: &str, from: [&str; 2], to: [&str; 2]) -> std::path::PathBuf {
    let (events, snapshots) = (folder.join("other.events"), folder.join("other.snap"));
    ends(0, &[&"trace", &"export", &corpus(name), &"-o", &events, &"--snapshots-to", &snapshots]);
    let text = std::fs::read_to_string(&snapshots).unwrap();
    assert!(from.iter().all(|part| text.contains(part)));
    std::fs::write(&snapshots, text.replace(from[0], to[0]).replace(from[1], to[1])).unwrap();
    events
}

#[test]
fn the_traffic_overrides_the_release() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (["6.1.0-56-amd64", "6.1.192"], ["5.10.0-46-amd64", "5.10.223"]);
    let file = with_release(folder.path(), "6.1-amd64.4cpu.thp", from, to);
    let said =
        "the traffic agrees with linux-6.1.104 (confidence high) and not with linux-5.10, which its release names";
    let (advice, _) = ends(0, &[&"advise", &file]);
    assert!(advice.contains(said) && advice.contains("rules linux-6.1.104"), "{advice}");
    let (replay, _) = ends(0, &[&"replay", &file, &"--wide"]);
    assert!(replay.contains(said) && replay.contains("rules linux-6.1.104"), "{replay}");
    ends(1, &[&"replay", &file, &"--check"]);
    let (advice, _) = ends(0, &[&"advise", &corpus("6.1-amd64.4cpu.thp")]);
    assert!(!advice.contains("the traffic agrees"), "{advice}");
}

/// The rules of 6.6 with auto-tuning have a name, although other rules explain this traffic as well.
#[test]
fn a_6_6_that_tunes_its_lists_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (["6.12.117+deb13-amd64", "6.12.117-1"], ["6.6.87-1.vendor", "6.6.87-1"]);
    let file = with_release(folder.path(), "6.12-amd64.4cpu.thp", from, to);
    let said =
        "the traffic agrees with linux-6.6-tuned (confidence fair) and not with linux-6.6.37, which its release names";
    let (advice, _) = ends(0, &[&"advise", &file]);
    assert!(advice.contains(said) && advice.contains("rules linux-6.6-tuned"), "{advice}");
    let (text, _) = ends(0, &[&"replay", &file, &"--identify"]);
    assert!(
        text.starts_with("other: linux-6.6-tuned, confidence fair") && text.contains("= linux-6.6-tuned "),
        "{text}"
    );
    ends(0, &[&"replay", &file, &"--rules", &"linux-6.6-tuned"]);
    let (explained, _) = ends(0, &[&"explain", &"linux-6.6-tuned"]);
    assert!(explained.contains("6.6 with the series of 6.7"), "{explained}");
}

#[test]
fn rules_that_traffic_cannot_distinguish_are_listed() {
    let (text, _) = ends(0, &[&"replay", &corpus("5.10-amd64.4cpu.thp"), &"--identify"]);
    let first = text.lines().next().unwrap();
    assert!(first.contains(": linux-5.10, confidence fair; this traffic does not distinguish: "), "{text}");
    assert!(first.contains("linux-5.9") && !first.contains("linux-5.14"), "{text}");
}

/// The sums over CPUs are the totals.
#[test]
fn refills_are_counted_by_cpu() {
    let file = corpus("6.18-amd64.4cpu.unix1");
    let counted = |only: &[&str]| {
        let mut words: Vec<&dyn AsRef<Path>> = vec![&"replay", &file, &"--json"];
        only.iter().for_each(|condition| words.extend([&"--only" as &dyn AsRef<_>, condition]));
        let json = json(&ends(0, &words).0);
        let number = |value: &serde_json::Value| value.as_u64().unwrap();
        let sum = |of: &serde_json::Value| ["refills", "drains"].map(|name| number(&of[name])).iter().sum::<u64>();
        (sum(&json["kernel"]), sum(&json["rules"][0]), json["only"].clone())
    };
    let (kernel, replay, only) = counted(&[]);
    assert!(kernel > 20 && only.is_null(), "{kernel} {only}");
    let parts = [0, 1, 2, 3].map(|cpu| counted(&[&format!("cpu={cpu}")]));
    assert_eq!(parts.iter().map(|part| part.0).sum::<u64>(), kernel);
    assert_eq!(parts.iter().map(|part| part.1).sum::<u64>(), replay);
    let (two, ..) = counted(&["cpu=0-1"]);
    assert_eq!(two, parts[0].0 + parts[1].0);
    let error = ends(4, &[&"replay", &file, &"--only", &"process=nobody"]).1;
    assert!(error.contains("the recording has no table of its processes"), "{error}");
    let error = ends(2, &[&"replay", &file, &"--only", &"node=0"]).1;
    assert!(error.contains("allowed: cpu=0-3,8 process=NAME process=NUMBER cgroup=PATH"), "{error}");
    let error = ends(4, &[&"replay", &file, &"--only", &"process=4000000000"]).1;
    assert!(error.contains("no process of the recording meets process=4000000000; allowed: "), "{error}");
    let error = ends(4, &[&"replay", &file, &"--only", &"cpu=2,4-9"]).1;
    assert!(error.contains("no CPU of the recording meets cpu=4-9; allowed: cpu=0-3"), "{error}");
    // The verdict is on the whole machine, whatever part of it is counted.
    let first = |words: &[&dyn AsRef<Path>]| ends(0, words).0.lines().next().unwrap().to_owned();
    let whole = first(&[&"replay", &file]);
    for condition in ["cpu=0-1", "cpu=0"] {
        assert_eq!(first(&[&"replay", &file, &"--only", &condition]), whole, "{condition}");
    }
}

/// Child processes that end before the command count as the command's.
#[test]
fn operations_are_counted_by_process() {
    let file = corpus("6.18-amd64.4cpu.fork");
    let selected = |condition: &str| {
        let json = json(&ends(0, &[&"replay", &file, &"--json", &"--only", &condition]).0);
        let number = |name: &str| json["only"][name].as_u64().unwrap();
        (number("selected_operations"), number("unlisted_operations"), json["trace"]["operations"].as_u64().unwrap())
    };
    let (operations, unlisted, all) = selected("process=wl");
    assert!(operations * 100 > all * 95 && operations <= all, "{operations} of {all}");
    assert!(unlisted * 100 < all, "{unlisted} of {all}");
    let (others, ..) = selected("process=pageset");
    assert!(others < all - operations, "{others}");
    let error = ends(4, &[&"replay", &file, &"--only", &"process=nobody"]).1;
    assert!(error.contains("no process of the recording meets process=nobody; allowed: "), "{error}");
}

#[test]
fn an_input_that_is_not_a_recording_is_an_error() {
    let (text, error) = ends(4, &[&"replay", &"Cargo.toml", &"--identify"]);
    assert!(text.is_empty() && error.contains("this is not a recording"), "{error}");
    ends(2, &[&"replay", &"--identify"]);
    let error = ends(2, &[&"identify", &"my.pstrace"]).1;
    assert!(error.contains("pageset replay FILE --identify"), "{error}");
    let error = ends(2, &[&"replay", &"demo", &"--identify", &"--rules", &"linux-5.18"]).1;
    assert!(error.contains("give --rules all"), "{error}");
}
