//! `pageset identify`, as a user runs it.

mod support;

use std::path::Path;

use support::{ends, json};

fn corpus(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/lab").join(format!("{name}.pstrace"))
}

#[test]
fn a_stable_kernel_is_told_from_its_mainline_release() {
    let file = corpus("6.1-amd64.4cpu.thp");
    let (text, error) = ends(0, &[&"identify", &file]);
    assert!(text.ends_with("\nlinux-6.1.104, confidence high\n"), "{text}");
    assert_eq!(error, "");
    let first = text.lines().nth(3).unwrap();
    assert!(first.starts_with(" linux-6.1.104") && first.ends_with("yes"), "{text}");
    let json = json(&ends(0, &[&"identify", &file, &"--json", &"-"]).0);
    assert_eq!((&json["schema"], &json["choice"]), (&"pageset.identify/1".into(), &"linux-6.1.104".into()));
    assert_eq!((&json["confidence"], &json["alike"]), (&"high".into(), &1.into()));
}

#[test]
fn rules_that_traffic_cannot_tell_apart_are_listed() {
    let (text, _) = ends(0, &[&"identify", &corpus("5.10-amd64.4cpu.thp")]);
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("linux-5.10, confidence fair; not told apart on this traffic: "), "{text}");
    assert!(last.contains("linux-5.9") && !last.contains("linux-5.14"), "{text}");
}

#[test]
fn what_is_no_recording_is_an_error() {
    let (text, error) = ends(4, &[&"identify", &"Cargo.toml"]);
    assert!(text.is_empty() && error.contains("this is not a recording"), "{error}");
    ends(2, &[&"identify"]);
}
