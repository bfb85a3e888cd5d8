//! `pageset advise`, as a user runs it.

use std::fs;

use crate::support::{Small, ends, json, json_to};

#[test]
fn no_setting_helps_a_stream_between_cpus() {
    let small = Small::new();
    let file = small.at("advice.json");
    let (text, error) = ends(0, &[&"advise", &small.events(), &json_to(&file)]);
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
    // The setting in force has the same result as `pageset replay`.
    let (replayed, _) = ends(0, &[&"replay", &small.events(), &"--json"]);
    let replayed = &json(&replayed)["rules"][0];
    assert_eq!(settings[0]["zone_lock_acquisitions"], replayed["zone_lock_acquisitions"]);
    let number = |of: &serde_json::Value, name: &str| of[name].as_u64().unwrap();
    let moved = number(replayed, "refill_pages") + number(replayed, "drain_pages");
    assert_eq!(number(&settings[0], "moved_pages"), moved);
    let longest = number(&settings[0], "longest_hold_pages");
    assert!(
        (moved / (number(replayed, "refills") + number(replayed, "drains"))..=4032).contains(&longest),
        "{longest}"
    );
    // The text has the same values, and locks per second.
    let per_s = number(&settings[0], "zone_lock_acquisitions") as f64 / (number(&advice, "duration_ns") as f64 / 1e9);
    let row: Vec<&str> = line("0 *").split_ascii_whitespace().collect();
    let shown: Vec<u64> = row[1..4].iter().map(|word| word.replace(',', "").parse().unwrap()).collect();
    assert_eq!(shown, [per_s.round() as u64, longest, moved]);
    let others: Vec<&str> =
        advice["other_kernels"].as_array().unwrap().iter().map(|row| row["setting"].as_str().unwrap()).collect();
    assert_eq!(others, ["linux-4.19", "linux-5.18", "linux-6.7"]);
    // For a stream the verdict does not follow from rare locks, so its confidence depends on the replay.
    assert_eq!((&advice["verdict"]["basis"], &advice["sure"]["trust"]), (&"no-gain".into(), &"fair".into()));
    let reasons = advice["sure"]["reasons"].as_array().unwrap();
    let names: Vec<&str> = reasons.iter().map(|reason| reason["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["kernel-unknown", "short-recording", "control-follows"],
        "reasons for low confidence come first"
    );
    assert!(reasons[2]["text"].as_str().unwrap().starts_with("but "), "{reasons:?}");
    // Before 6.16 such traffic took the lock ten times as often, and the table shows it.
    let locks = |row: &serde_json::Value| row["zone_lock_acquisitions"].as_u64().unwrap();
    assert!(locks(&advice["other_kernels"][1]) > 5 * locks(&settings[0]), "{advice}");
}

/// Room for huge pages under each setting, if the recording has the orders of free blocks.
#[test]
fn high_orders_are_counted_if_recorded() {
    let column = |small: &Small| -> (String, Vec<serde_json::Value>, serde_json::Value) {
        let file = small.at("advice.json");
        let (text, _) = ends(0, &[&"advise", &small.events(), &json_to(&file)]);
        let advice = json(&fs::read_to_string(&file).unwrap());
        let rows = advice["settings"].as_array().unwrap().iter().map(|row| row["high_order_pages_min"].clone());
        (text, rows.collect(), advice["high_orders"].clone())
    };
    let (text, rows, all) = column(&Small::new());
    assert!(text.contains("huge pages free"), "{text}");
    let pages = |value: &serde_json::Value| value.as_u64().unwrap();
    let begin = pages(&all["begin_pages"]);
    assert!(rows.iter().all(|row| pages(row) <= begin && pages(row).is_multiple_of(512)), "{begin}: {rows:?}");
    // The kernel's own value: orders 9 and 10 in the last buddyinfo.
    let snapshots = crate::support::unpacked(&crate::support::trace("sock-q1.snap.zst"));
    let last = snapshots.split("=== ").find(|section| section.starts_with("buddyinfo.1")).unwrap();
    let counts = last.lines().skip(1).filter(|line| line.starts_with("Node"));
    let high = |line: &str| -> u64 {
        let words: Vec<u64> = line.split_ascii_whitespace().skip(4).map(|word| word.parse().unwrap()).collect();
        512 * words[9] + 1024 * words[10]
    };
    assert_eq!(pages(&all["kernel_end_pages"]), counts.map(high).sum::<u64>());
    // A replay under the setting in force has about as many.
    let (kernel, replay) = (pages(&all["kernel_end_pages"]) as f64, pages(&all["replay_end_pages"]) as f64);
    assert!((replay / kernel - 1.0).abs() < 0.05, "{replay} pages, the kernel {kernel}");
    // Without pagetypeinfo the values are unknown.
    let without = |text: &mut String| *text = text.replace("=== pagetypeinfo", "=== other");
    let (text, rows, all) = column(&Small::with(|_| {}, without));
    assert!(rows.iter().all(serde_json::Value::is_null) && all["begin_pages"].is_null(), "{rows:?} {all}");
    assert!(text.lines().any(|line| line.trim().starts_with("0 *") && line.ends_with('-')), "{text}");
}

/// 5.10 has another sysctl for pagesets: the advice says that it is not replayed, and replays the setting in force only.
#[test]
fn a_kernel_without_the_sysctl_gets_no_such_advice() {
    let small = Small::new();
    let recording = crate::support::trace("lab/5.10-amd64.4cpu.unix1.pstrace");
    let (text, _) = ends(0, &[&"advise", &recording, &json_to(&small.at("advice.json"))]);
    let said = text.contains("vm.percpu_pagelist_fraction, the setting of kernels before 5.14, is not replayed")
        && text.contains("as recorded *");
    assert!(said && !text.contains("high_fraction"), "{text}");
    let advice = json(&fs::read_to_string(small.at("advice.json")).unwrap());
    let settings = advice["settings"].as_array().unwrap();
    assert_eq!((settings.len(), &settings[0]["in_force"]), (1, &true.into()));
    assert!(settings[0]["high_fraction"].is_null() && advice["verdict"]["high_fraction"].is_null(), "{advice}");
    assert_eq!(advice["verdict"]["basis"], "no-setting");
}

/// The replay of the setting in force does not follow the kernel: no verdict, and no trust.
#[test]
fn no_verdict_when_the_control_fails() {
    // A recording of a kernel that never drained: no replay does that.
    let no_drains = |text: &mut String| {
        *text = text.lines().filter(|line| !line.contains(" D ")).map(|line| format!("{line}\n")).collect();
    };
    let small = Small::with(no_drains, |_| {});
    let (text, _) = ends(0, &[&"advise", &small.events(), &json_to(&small.at("advice.json"))]);
    let advice = json(&fs::read_to_string(small.at("advice.json")).unwrap());
    let verdict = &advice["verdict"];
    assert_eq!((&verdict["basis"], &verdict["high_fraction"]), (&"control-failed".into(), &serde_json::Value::Null));
    assert_eq!(advice["sure"]["trust"], "low");
    let line = |head: &str| text.lines().find_map(|line| line.trim().strip_prefix(head)).map(str::trim).unwrap();
    assert_eq!(line("verdict"), "no verdict");
    assert!(line("why").starts_with("cannot judge: under the setting in force the replay"), "{text}");
}

/// If locks are rarely taken, the kernel's own events say so.
#[test]
fn rare_locks_give_high_confidence() {
    let (text, _) = ends(0, &[&"advise", &crate::support::fixture("compile-q1"), &"--json"]);
    let advice = json(&text);
    assert_eq!((&advice["verdict"]["basis"], &advice["sure"]["trust"]), (&"not-felt".into(), &"high".into()));
    assert!(advice["gain"].is_null() && advice["price"].is_null(), "{advice}");
    assert_eq!(advice["sure"]["reasons"][0]["name"], "counted");
    let why = advice["verdict"]["why"].as_str().unwrap();
    assert!(why.starts_with("no CPU takes a zone lock more than "), "{why}");
}

/// The knobs of an advice by name.
fn knob<'a>(advice: &'a serde_json::Value, name: &str) -> Option<&'a serde_json::Value> {
    advice["knobs"].as_array().unwrap().iter().find(|knob| knob["knob"] == name)
}

/// A stream that pagesets serve badly: other watermarks do not help, one CPU for both ends does.
#[test]
fn other_knobs_are_replayed() {
    let small = Small::new();
    let file = small.at("advice.json");
    let (text, _) = ends(0, &[&"advise", &small.events(), &json_to(&file)]);
    let advice = json(&fs::read_to_string(&file).unwrap());
    let number = |row: &serde_json::Value, name: &str| row[name].as_u64().unwrap();
    let locks = |row: &serde_json::Value| number(row, "zone_lock_acquisitions");
    let scales = knob(&advice, "watermark-scale-factor").unwrap();
    let rows = scales["settings"].as_array().unwrap();
    let values: Vec<u64> = rows.iter().map(|row| number(row, "watermark_scale_factor")).collect();
    assert_eq!(values, [10, 50, 200, 1000]);
    assert!(rows.iter().all(|row| row["high_fraction"].is_null()), "{rows:?}");
    assert!(rows.is_sorted_by_key(|row| number(row, "low_watermark_pages")), "{rows:?}");
    // The row in force is that of the other sysctl. Larger watermarks let pagesets hold more.
    let now = &advice["settings"][0];
    assert_eq!((&rows[0]["in_force"], locks(&rows[0])), (&true.into(), locks(now)));
    assert!(number(&rows[3], "held_pages_max") > number(&rows[0], "held_pages_max"), "{rows:?}");
    let affinity = knob(&advice, "affinity").unwrap()["settings"].as_array().unwrap();
    assert_eq!((affinity.len(), locks(&affinity[0])), (2, locks(now)));
    assert!(10 * locks(&affinity[1]) < locks(now), "{affinity:?}");
    assert!(text.starts_with(" verdict "), "{text}");
    assert!(text.lines().any(|line| line.starts_with(" affinity  ")), "{text}");
    assert!(text.contains("a replay does not tell when kswapd wakes"), "{text}");
    assert_eq!((&advice["verdict"]["basis"], knob(&advice, "huge-pages")), (&"no-gain".into(), None));
}

/// What a replay cannot tell is marked, with the reason.
#[test]
fn knobs_that_cannot_be_replayed_are_marked() {
    let of = |name: &str| {
        let (text, _) = ends(0, &[&"advise", &crate::support::trace(&format!("lab/{name}.pstrace")), &"--json=-"]);
        let advice = json(&text);
        let (shown, _) = ends(0, &[&"advise", &crate::support::trace(&format!("lab/{name}.pstrace"))]);
        (shown, advice)
    };
    // A machine with little free memory, and requests for huge pages.
    let (text, advice) = of("6.18-amd64.4cpu-full.press");
    let scales = knob(&advice, "watermark-scale-factor").unwrap();
    // 50 gives the watermarks of 10.
    let rows = scales["settings"].as_array().unwrap().iter().map(|row| row["setting"].as_str().unwrap());
    assert_eq!(
        (rows.collect::<Vec<_>>(), &scales["not_replayable"][0]["setting"]),
        (vec!["10", "200"], &"1000".into())
    );
    assert!(text.contains(" 1000 not replayable: zone DMA32 of node 0 would have less free memory"), "{text}");
    let huge = &knob(&advice, "huge-pages").unwrap()["not_replayable"][0];
    assert!(huge["setting"].is_null() && huge["why"].as_str().unwrap().contains("pageset diff"), "{huge}");
    assert!(text.contains("\n not replayable: a recording fixes the orders of requests"), "{text}");
    assert_eq!(knob(&advice, "affinity"), None);
    for (name, why) in [
        ("5.10-amd64.4cpu.unix1", "before 5.14, pagesets do not depend on watermarks"),
        (
            "6.18-amd64.4cpu.hf100",
            "vm.percpu_pagelist_high_fraction sets the size of pagesets, whatever the watermarks are",
        ),
    ] {
        let (text, advice) = of(name);
        let scales = knob(&advice, "watermark-scale-factor").unwrap();
        assert_eq!((&scales["settings"], &scales["not_replayable"][0]["why"]), (&json("[]"), &why.into()), "{name}");
        assert!(text.contains(&format!("\n not replayable: {why}\n")), "{text}");
    }
}

#[test]
fn inputs_that_are_not_recordings_are_refused() {
    let small = Small::new();
    fs::write(small.at("other"), "nothing of the kind\n").unwrap();
    ends(4, &[&"advise", &small.at("other")]);
    ends(2, &[&"advise"]);
    ends(2, &[&"advise", &small.events(), &"--live", &"1"]);
    ends(2, &[&"advise", &"--live", &"0"]);
}

/// Several recordings get one verdict; a recording whose control fails has no part in it.
#[test]
fn several_recordings_get_one_verdict() {
    let of = |name: &str| crate::support::trace(&format!("lab/6.18-amd64.{name}.pstrace"));
    let small = Small::new();
    let file = format!("--json={}", small.at("set.json").display());
    let (text, _) = ends(0, &[&"advise", &of("4cpu.unix1"), &of("6g.unix1"), &file]);
    // The verdict of all comes first, then that of each.
    let verdicts: Vec<&str> = text.lines().map(str::trim).filter(|line| line.starts_with("verdict ")).collect();
    assert_eq!(text.lines().next().map(str::trim), Some("verdict         change nothing"), "{text}");
    assert_eq!((verdicts.len(), text.contains("\n all recordings  2\n")), (3, true), "{text}");
    let set = json(&fs::read_to_string(small.at("set.json")).unwrap());
    let (_, schema) = pageset_trace::schemas().into_iter().find(|(of, _)| *of == "pageset.advise-set/1").unwrap();
    crate::support::strict(schema.as_value()).validate(&set).unwrap();
    assert_eq!(set["recordings"].as_array().unwrap().len(), 2);
    // Each recording alone has the same advice as in the set.
    let alone = json(&ends(0, &[&"advise", &of("6g.unix1"), &"--json"]).0);
    assert_eq!(set["recordings"][1], alone);
    // Another setting in force.
    let (text, _) = ends(0, &[&"advise", &of("4cpu.unix1"), &of("4cpu.hf100")]);
    assert!(text.contains("was recorded under another setting"), "{text}");
    for member in ["left_out", "recordings"] {
        ends(0, &[&"explain", &member]);
    }
}

/// Recordings of one name in two folders: the verdict uses the one that is not left out, and each has its path.
#[test]
fn recordings_of_one_name_are_told_apart() {
    let no_drains = |text: &mut String| {
        *text = text.lines().filter(|line| !line.contains(" D ")).map(|line| format!("{line}\n")).collect();
    };
    let (good, bad) = (Small::new(), Small::with(no_drains, |_| {}));
    let (file, page) = (good.at("set.json"), good.at("report.html"));
    let (text, _) = ends(0, &[&"advise", &good.events(), &bad.events(), &format!("--json={}", file.display())]);
    let set = json(&fs::read_to_string(&file).unwrap());
    let name = |small: &Small| serde_json::Value::from(small.events().display().to_string());
    assert_eq!((&set["recordings"][0]["trace"], &set["recordings"][1]["trace"]), (&name(&good), &name(&bad)));
    assert_eq!(set["left_out"], serde_json::json!([name(&bad)]));
    assert!(text.contains(&format!("left out        {}: ", bad.events().display())), "{text}");
    // A set of an earlier version has the same name for both.
    let mut older = set.clone();
    for recording in older["recordings"].as_array_mut().unwrap() {
        recording["trace"] = "events".into();
    }
    older["left_out"] = serde_json::json!(["events"]);
    for member in ["gain", "price"] {
        older.as_object_mut().unwrap().remove(member);
    }
    for set in [set, older] {
        fs::write(&file, set.to_string()).unwrap();
        ends(0, &[&"report", &file, &"-o", &page]);
        let html = fs::read_to_string(&page).unwrap();
        assert!(html.contains("<span class=\"number\">1</span> <span class=\"unit\">recordings</span>"), "{html}");
    }
}

/// Seconds without their option are no recording: the message names the option.
#[test]
fn seconds_without_their_option() {
    for seconds in ["5", "2.5s"] {
        let (_, error) = ends(5, &[&"advise", &seconds]);
        let help = format!("\nhelp: `pageset advise --live {seconds}` records this machine for that time\n");
        assert!(
            error.starts_with(&format!("error: {seconds}: cannot be opened: ")) && error.ends_with(&help),
            "{error}"
        );
    }
    let (_, error) = ends(5, &[&"advise", &"no-such-file"]);
    assert!(!error.contains("--live"), "{error}");
}
