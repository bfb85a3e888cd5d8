//! `pageset advise`, as a user runs it.

mod support;

use std::fs;

use support::{Small, ends, json};

#[test]
fn a_stream_between_cpus_is_told_that_nothing_helps() {
    let small = Small::new();
    let file = small.at("advice.json");
    let (text, error) = ends(0, &[&"advise", &small.events(), &"--json", &file]);
    assert_eq!(error, "");
    let line = |head: &str| text.lines().find_map(|line| line.trim().strip_prefix(head)).map(str::trim).unwrap();
    assert_eq!(line("verdict"), "change nothing");
    assert!(text.contains("[travelling-pages]") && text.contains("[high-order-churn]"), "{text}");
    assert!(!text.contains("[exit-bursts]"), "{text}");
    let advice = json(&fs::read_to_string(&file).unwrap());
    assert_eq!(
        (&advice["schema"], &advice["verdict"]["high_fraction"]),
        (&"pageset.advise/1".into(), &serde_json::Value::Null)
    );
    let settings = advice["settings"].as_array().unwrap();
    let fractions: Vec<u64> = settings.iter().map(|row| row["high_fraction"].as_u64().unwrap()).collect();
    assert_eq!(fractions, [0, 8, 12, 16, 25, 50, 100]);
    let in_force: Vec<bool> = settings.iter().map(|row| row["in_force"].as_bool().unwrap()).collect();
    assert_eq!(in_force.iter().position(|now| *now), Some(0));
    assert_eq!(in_force.iter().filter(|now| **now).count(), 1);
    // What was in force is replayed as `pageset replay` does it.
    let (replayed, _) = ends(0, &[&"replay", &small.events(), &"--json", &"-"]);
    let replayed = &json(&replayed)["rules"][0]["zone_lock_acquisitions"];
    assert_eq!(&settings[0]["zone_lock_acquisitions"], replayed);
    let others: Vec<&str> =
        advice["other_kernels"].as_array().unwrap().iter().map(|row| row["setting"].as_str().unwrap()).collect();
    assert_eq!(others, ["linux-4.19", "linux-5.18", "linux-6.7"]);
    // Before 6.16 such traffic took the lock ten times as often, and that can be seen.
    let locks = |row: &serde_json::Value| row["zone_lock_acquisitions"].as_u64().unwrap();
    assert!(locks(&advice["other_kernels"][1]) > 5 * locks(&settings[0]), "{advice}");
}

#[test]
fn what_is_no_recording_is_refused() {
    let small = Small::new();
    fs::write(small.at("other"), "nothing of the kind\n").unwrap();
    ends(4, &[&"advise", &small.at("other")]);
    ends(2, &[&"advise"]);
    ends(2, &[&"advise", &small.events(), &"--live", &"1"]);
    ends(2, &[&"advise", &"--live", &"0"]);
}
