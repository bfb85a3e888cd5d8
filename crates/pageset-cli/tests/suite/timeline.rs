//! `pageset replay --timeline`, read by an independent reader of the form.

use std::collections::{HashMap, HashSet};
use std::fs;

use crate::support::{Small, ends, json, json_to};
use serde_json::Value;

#[test]
fn slices_nest_and_add_up_to_the_table() {
    let small = Small::new();
    let (file, result) = (small.at("timeline.json"), small.at("replay.json"));
    ends(0, &[&"replay", &small.events(), &"--rules", &"kernel,linux-5.18", &"--timeline", &file, &json_to(&result)]);
    let result = json(&fs::read_to_string(result).unwrap());
    let timeline = json(&fs::read_to_string(file).unwrap());
    let events = timeline["traceEvents"].as_array().unwrap();
    let of = |phase: &'static str| events.iter().filter(move |event| event["ph"] == phase);
    let processes: HashMap<&str, &Value> = of("M")
        .filter(|event| event["name"] == "process_name")
        .map(|event| (event["args"]["name"].as_str().unwrap(), &event["pid"]))
        .collect();
    let pages = |process: &Value, name: &str| -> (u64, u64) {
        let slices = of("X").filter(|event| event["pid"] == *process && event["name"] == name);
        slices.fold((0, 0), |(count, pages), event| (count + 1, pages + event["args"]["pages"].as_u64().unwrap()))
    };
    let row = |row: &Value, what: &str| {
        (row[what].as_u64().unwrap(), row[&format!("{}_pages", &what[..what.len() - 1])].as_u64().unwrap())
    };
    let kernel = processes["kernel, as recorded"];
    assert_eq!(pages(kernel, "refill"), row(&result["kernel"], "refills"));
    assert_eq!(pages(kernel, "drain"), row(&result["kernel"], "drains"));
    for rules in result["rules"].as_array().unwrap() {
        let name = format!("{}, {}", rules["name"].as_str().unwrap(), rules["level"].as_str().unwrap());
        assert_eq!(pages(processes[name.as_str()], "refill"), row(rules, "refills"), "{name}");
        assert_eq!(pages(processes[name.as_str()], "drain"), row(rules, "drains"), "{name}");
    }
    // Perfetto takes thread 0, and a thread with the number of its process, for the main thread; `ci/perfetto.sh` tests
    // it.
    let is_process = |tid: &Value| *tid == 0 || processes.values().any(|pid| *pid == tid);
    assert!(events.iter().all(|event| !is_process(&event["tid"])));
    let owners: HashSet<_> = of("X").map(|event| (event["tid"].as_u64(), event["pid"].as_u64())).collect();
    assert_eq!(
        owners.len(),
        owners.iter().map(|(tid, _)| tid).collect::<HashSet<_>>().len(),
        "a thread of two processes"
    );
    // Slices of one track are nested or disjoint; some of the kernel's slices have a duration.
    let mut tracks: HashMap<(u64, u64), Vec<(f64, f64)>> = HashMap::new();
    for event in of("X") {
        let number = |name: &str| event[name].as_f64().unwrap();
        let track = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        tracks.entry(track).or_default().push((number("ts"), number("ts") + number("dur")));
    }
    for (track, slices) in &mut tracks {
        slices.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut open: Vec<f64> = Vec::new();
        for &mut (begin, end) in slices {
            open.retain(|until| *until > begin);
            assert!(
                open.iter().all(|until| end <= *until),
                "{track:?}: a slice from {begin} to {end} straddles another"
            );
            open.push(end);
        }
    }
    let lasting = of("X").filter(|event| event["pid"] == *kernel && event["dur"].as_f64().unwrap() > 0.0).count();
    assert!(lasting > 100, "{lasting}");
    assert!(of("C").any(|event| event["args"]["count"].is_u64() && event["args"]["high"].is_u64()));
}

#[test]
fn a_timeline_takes_one_recording() {
    let small = Small::new();
    let (events, file) = (small.events(), small.at("timeline.json"));
    let (_, error) = ends(2, &[&"replay", &events, &events, &"--timeline", &file]);
    assert!(error.contains("--timeline takes one recording"), "{error}");
    assert!(!file.exists());
}
