//! `pageset diff`, as a user runs it.

use std::fs;
use std::path::Path;

use crate::support::{Small, ends, trace};

#[test]
fn recordings_of_two_kernels() {
    let of = |machine: &str| trace(&format!("lab/{machine}.unix1.pstrace"));
    let (text, _) = ends(0, &[&"diff", &of("6.12-amd64.4cpu"), &of("6.18-amd64.4cpu")]);
    let answer = "Cannot tell a change from noise: a side has one file or sample. The largest change is ";
    assert!(text.starts_with(answer), "{text}");
    assert!(text.contains(" kernel  linux-6.12.29 in A, linux-6.18 in B\n"), "{text}");
    assert!(text.contains("the noise of 6 of 8 rows is unknown"), "{text}");
    let (other, _) = ends(0, &[&"diff", &of("6.18-amd64.4cpu"), &trace("cargo-build.pstrace")]);
    assert!(other.starts_with("A and B have different loads, so a change tells little. Cannot tell"), "{other}");
    // Several on each side, in all forms: their noise is known.
    let lists = ["6.18-amd64.4cpu", "6.18-amd64.6g", "7.0-amd64.4cpu", "7.1-amd64.4cpu"]
        .map(|machine| of(machine).display().to_string());
    let (a, b) = (format!("{},{}", lists[0], lists[1]), format!("{},{}", lists[2], lists[3]));
    let (by_comma, _) = ends(0, &[&"diff", &a, &b]);
    let (by_dashes, _) = ends(0, &[&"diff", &lists[0], &lists[1], &"--", &lists[2], &lists[3]]);
    assert_eq!(by_comma, by_dashes);
    assert!(!by_comma.contains("noise unknown"), "{by_comma}");
    let folder = tempfile::tempdir().unwrap();
    for (side, files) in [("a", &lists[..2]), ("b", &lists[2..])] {
        fs::create_dir(folder.path().join(side)).unwrap();
        for file in files {
            fs::copy(file, folder.path().join(side).join(Path::new(file).file_name().unwrap())).unwrap();
        }
    }
    fs::write(folder.path().join("a/notes.txt"), "not compared").unwrap();
    let (by_folder, _) = ends(0, &[&"diff", &folder.path().join("a"), &folder.path().join("b")]);
    // Two lines name the files.
    let rest = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with(" A   ") && !line.starts_with(" B   "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(rest(&by_folder), rest(&by_comma));
    assert!(by_comma.starts_with("No change is more than noise, in 8 rows.\n\n"), "{by_comma}");
}

#[test]
fn replays_of_one_recording_under_two_rules() {
    let small = Small::new();
    for (rules, file) in [("linux-5.18", "old.json"), ("linux-6.18", "new.json")] {
        let json = format!("--json={}", small.at(file).display());
        ends(0, &[&"replay", &small.events(), &"--rules", &rules, &json]);
    }
    let (text, _) = ends(0, &[&"diff", &small.at("old.json"), &small.at("new.json"), &"--metric", &"locks/1000 ops"]);
    assert!(text.contains("linux-5.18 in A, linux-6.18 in B"), "{text}");
    assert!(text.contains("1 rows: 1 of unknown noise"), "{text}");
    let (_, error) = ends(2, &[&"diff", &small.at("old.json"), &small.at("new.json"), &"--metric", &"speed"]);
    assert!(error.contains("unknown metric `speed`; allowed: locks/1000 ops, "), "{error}");
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let small = Small::new();
    let (damaged, empty, other) = (small.at("damaged.json"), small.at("empty"), small.at("other.json"));
    fs::write(&damaged, "{\"schema\": ").unwrap();
    fs::write(&other, "{\"schema\": \"pageset.top/1\"}").unwrap();
    fs::create_dir(&empty).unwrap();
    let missing = small.at("missing");
    for (code, file, message) in [
        (5, &missing, "cannot read "),
        (4, &damaged, "EOF"),
        (4, &other, "results of the schema `pageset.top/1` are not compared"),
        (4, &empty, "the folder has no recording and no result"),
    ] {
        let (_, error) = ends(code, &[&"diff", &small.events(), file]);
        assert!(error.contains(message), "{error}");
    }
    let (_, error) = ends(2, &[&"diff", &small.events()]);
    assert!(error.contains("1 input given; allowed: two"), "{error}");
    let replay = small.at("replay.json");
    ends(0, &[&"replay", &small.events(), &"--rules", &"linux-6.18", &format!("--json={}", replay.display())]);
    let (_, error) = ends(2, &[&"diff", &small.events(), &replay]);
    let [trace, replay] = [small.events(), replay].map(|path| path.display().to_string());
    let message = format!(
        "error: cannot compare inputs of different kinds: in A, {trace} is a recording; in B, {replay} is a result of replay\n\
         help: compare recordings with recordings, "
    );
    assert!(error.starts_with(&message), "{error}");
    // What the laboratory compares: the message names its command.
    fs::write(&other, "{\"schema\": \"pageset.run/1\"}").unwrap();
    let (_, error) = ends(4, &[&"diff", &small.events(), &other]);
    assert!(error.contains("`pageset-lab diff` reads it"), "{error}");
    fs::write(&other, "PAR1").unwrap();
    let (_, error) = ends(4, &[&"diff", &small.events(), &other]);
    assert!(error.contains("the table of a study\nhelp: `pageset-lab diff` reads it"), "{error}");
    let (_, error) = ends(2, &[&"diff", &small.events(), &small.events(), &"--fail-above", &"much"]);
    assert!(error.contains("allowed: a percentage, such as 5%"), "{error}");
}
