//! `pageset replay`, as a user runs it.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Small, command, ends, fixture, json, json_to};
use serde_json::Value;

/// The recorded kernel's rules pass the limits, the rules of 5.18 do not: the check can fail.
fn check_tells_the_rules_apart(name: &str, near: &[&dyn AsRef<Path>]) {
    let file = fixture(name);
    let arguments: Vec<&dyn AsRef<Path>> =
        [&"replay" as &dyn AsRef<Path>, &file, &"--check"].into_iter().chain(near.iter().copied()).collect();
    let (text, error) = ends(0, &arguments);
    assert!(text.contains("check of linux-6.18, reconstructed: pass\n"), "{text}");
    assert_eq!(error, "", "standard error is not empty in a pipe");
    let (text, error) = ends(1, &[&"replay", &file, &"--check", &"--rules", &"linux-5.18"]);
    assert!(text.contains("check of linux-5.18, reconstructed: FAIL\n"), "{text}");
    assert!(error.contains(&format!("check failed: {name}, linux-5.18: refills +")), "{error}");
}

#[test]
fn page_faults_pass_and_fail() {
    check_tells_the_rules_apart("pf1-q1", &[&"--near", &"95"]);
}

#[test]
fn sockets_pass_and_fail() {
    check_tells_the_rules_apart("sock-q1", &[&"--near", &"95"]);
}

#[test]
fn a_compile_passes_and_fails() {
    check_tells_the_rules_apart("compile-q1", &[]);
}

#[test]
fn a_row_for_each_set_of_rules() {
    let file = fixture("sock-q1");
    let (text, _) = ends(0, &[&"replay", &file, &"--rules", &"kernel,linux-5.18,linux-4.19", &"--cpu"]);
    assert!(text.lines().all(|line| line.trim_end() == line), "spaces at the ends of lines");
    insta::assert_snapshot!(text);
}

#[test]
fn json_has_the_documented_members() {
    let small = Small::new();
    let file = small.at("out.json");
    let rules = "linux-5.18,kernel";
    let (text, _) = ends(0, &[&"replay", &small.events(), &"--rules", &rules, &json_to(&file)]);
    assert!(text.contains("kernel, as recorded"));
    let json = json(&fs::read_to_string(&file).unwrap());
    assert_eq!((&json["schema"], &json["level"]), (&"pageset.replay/1".into(), &"reconstructed".into()));
    assert_eq!((&json["trace"]["name"], &json["kernel"]["rules"]), (&"small".into(), &"linux-6.18".into()));
    assert_eq!(json["check"], Value::Null);
    for field in ["events", "duration_ns", "operations"] {
        assert!(json["trace"][field].as_u64().unwrap() > 0, "{field}");
    }
    let named: Vec<_> = json["rules"].as_array().unwrap().iter().map(|r| (&r["name"], &r["level"])).collect();
    let named: Vec<_> = named.into_iter().map(|(a, b)| (a.as_str().unwrap(), b.as_str().unwrap())).collect();
    // The kernel's rules at level `input` come last, so that a name's first entry has the requested level.
    assert_eq!(named, [("linux-5.18", "reconstructed"), ("linux-6.18", "reconstructed"), ("linux-6.18", "input")]);
    for amounts in json["rules"].as_array().unwrap().iter().chain([&json["kernel"]]) {
        let sums = ["refills", "refill_pages", "drains", "drain_pages"];
        for field in sums {
            let parts = amounts["pagesets"].as_array().unwrap().iter().map(|part| part[field].as_u64().unwrap());
            assert_eq!(amounts[field], parts.sum::<u64>(), "{field}");
        }
    }
    for rules in json["rules"].as_array().unwrap() {
        for field in ["zone_lock_acquisitions", "zone_lock_lines", "longest_hold_lines", "held_pages_max", "operations"]
        {
            assert!(rules[field].as_u64().unwrap() > 0, "{field}");
        }
        assert!(rules["refills_near_pct"].as_f64().is_some() && rules["drains_near_pct"].as_f64().is_some());
        assert!(
            rules["warnings"].as_array().unwrap().iter().any(|w| w["text"].as_str().unwrap().contains("its kernel"))
        );
        assert_eq!(rules["tuning"]["batch_cap_kib"], 1024);
    }
    assert_eq!(
        (&json["rules"][0]["tuning"]["auto_high"], &json["rules"][1]["tuning"]["auto_high"]),
        (&false.into(), &true.into())
    );
    // The result is the only new file, and a second run writes the same bytes.
    let first = fs::read(&file).unwrap();
    ends(0, &[&"replay", &small.events(), &"--rules", &rules, &json_to(&file)]);
    assert!(first == fs::read(&file).unwrap());
    assert_eq!(fs::read_dir(small.0.path()).unwrap().count(), 3);
}

/// One recording under three sets of rules. 6.19 moves the same pages in shorter holds; depots move them without touching them.
#[test]
fn the_work_under_zone_locks_is_counted() {
    let rules = "linux-6.18,linux-6.19,pageset";
    let text = ends(0, &[&"replay", &fixture("sock-q1"), &"--level", &"input", &"--rules", &rules, &"--json"]).0;
    let json = json(&text);
    let value = |row: usize, field: &str| json["rules"][row][field].as_u64().unwrap();
    let (lines, longest): (Vec<_>, Vec<_>) =
        (0..3).map(|row| (value(row, "zone_lock_lines"), value(row, "longest_hold_lines"))).unzip();
    assert!(lines[0] > value(0, "refill_pages") / 2, "a hold touches what it moves: {lines:?}");
    assert!(lines.iter().zip(&longest).all(|(lines, longest)| longest < lines), "{lines:?}, {longest:?}");
    assert!(longest[1] < longest[0] && 2 * longest[2] < longest[0] && lines[2] < lines[0], "{lines:?}, {longest:?}");
    assert_eq!([value(0, "depot_pages"), value(1, "depot_pages")], [0, 0]);
    assert!((1..value(2, "drain_pages")).contains(&value(2, "depot_pages")));
}

#[test]
fn json_on_standard_output_replaces_the_table() {
    let small = Small::new();
    let (text, _) = ends(0, &[&"replay", &small.events(), &"--level", &"input", &"--json"]);
    let one = json(&text);
    assert_eq!((&one["level"], one["rules"].as_array().unwrap().len()), (&"input".into(), 1));
    let (text, _) = ends(0, &[&"replay", &small.events(), &small.events(), &"--level", &"input", &"--json"]);
    assert_eq!(json(&text), Value::Array(vec![one.clone(), one]));
}

#[test]
fn every_form_gives_the_same_result() {
    let small = Small::new();
    let own = small.at("small.pstrace");
    ends(0, &[&"trace", &"import", &small.events(), &"-o", &own]);
    let result = |file: &Path| {
        let mut json = json(&ends(0, &[&"replay", &file, &"--json"]).0);
        assert!(json["trace"].as_object_mut().unwrap().remove("form").is_some());
        json
    };
    assert_eq!(result(&small.events()), result(&own));
    // The same through a pipe.
    let piped = command(&[&"replay", &"-"]).stdin(fs::File::open(&own).unwrap()).output().unwrap();
    let (direct, _) = ends(0, &[&"replay", &own]);
    let rows = |text: &str| text.splitn(3, "\n\n").nth(2).unwrap().to_owned();
    assert_eq!(rows(&String::from_utf8(piped.stdout).unwrap()), rows(&direct));
}

#[test]
fn several_recordings_have_one_result_each() {
    let small = Small::new();
    fs::copy(small.events(), small.at("other.events")).unwrap();
    fs::copy(small.at("small.snap"), small.at("other.snap")).unwrap();
    let (text, _) = ends(0, &[&"replay", &small.events(), &small.at("other.events"), &"--level", &"input"]);
    let heads: Vec<_> = text.lines().filter(|line| line.starts_with(" recording")).collect();
    assert_eq!(heads, [" recording   small (text)", " recording   other (text)"]);
}

#[test]
fn changed_rules_have_their_own_rows() {
    let small = Small::new();
    let run = |rules: &str, settings: &[&str]| {
        let mut arguments: Vec<&dyn AsRef<Path>> = vec![&"replay", &"--json", &"--rules", &rules];
        for setting in settings {
            arguments.extend([&"--set" as &dyn AsRef<Path>, setting]);
        }
        let events = small.events();
        arguments.push(&events);
        json(&ends(0, &arguments).0)["rules"].clone()
    };
    let plain = run("kernel,linux-6.18", &[]);
    assert_eq!(plain.as_array().unwrap().len(), 2, "the same rules twice give more than one row");
    let changed = run("kernel,linux-4.19", &["batch=10", "high=40"]);
    assert_eq!(changed[0]["name"], "linux-6.18 batch=10 high=40");
    assert_eq!(changed[1]["name"], "linux-4.19 batch=10 high=40");
    assert_eq!((&changed[0]["is_kernel"], &changed[2]["is_kernel"]), (&false.into(), &true.into()));
    assert_eq!(changed[1]["tuning"]["high_max"], 40);
    // Each refill takes ten single pages.
    assert_eq!(changed[1]["refill_pages"].as_u64().unwrap(), 10 * changed[1]["refills"].as_u64().unwrap());
    assert!(changed[1]["refills"].as_u64() > run("linux-4.19", &[])[0]["refills"].as_u64());
}

#[test]
fn wrong_usage_ends_with_exit_code_2() {
    let small = Small::new();
    let file = small.events();
    for (arguments, part) in [
        (&["--rules", "none-such"][..], "unknown rules `none-such`; the closest are "),
        (&["--rules", "linux6.18"], "unknown rules `linux6.18`; the closest are linux-6.18, "),
        (&["--set", "bath=3"], "unknown rule `bath`; the closest are batch, "),
        (&["--set", "batch=0"], "--set batch=0: allowed: 1 to 65536 pages"),
        (&["--set", "high_fraction=3"], "--set high_fraction=3: allowed: 0 for none, or 8 to"),
        (&["--set", "alloc_factor=off"], "linux-6.18 alloc_factor=off: the rule auto_high needs alloc_factor"),
        (&["--rules", "all", "--set", "below_high=on"], "linux-4.16 below_high=on: the rule below_high needs"),
        (&["--level", "guessed"], "reconstructed"),
        (&["--check", "--near", "101"], "allowed: 0 to 100 percent"),
        (&["--near", "95"], "--check"),
    ] {
        let mut all: Vec<&dyn AsRef<Path>> = vec![&"replay", &file];
        all.extend(arguments.iter().map(|argument| argument as &dyn AsRef<Path>));
        let (text, error) = ends(2, &all);
        assert!(error.contains(part) && text.is_empty(), "{arguments:?}: {error}{text}");
    }
    ends(2, &[&"replay"]);
}

#[test]
fn unreadable_input_ends_with_exit_code_4() {
    let small = Small::new();
    let at = |name: &str| small.at(name);
    fs::copy(small.events(), at("alone.events")).unwrap();
    fs::write(at("text.pstrace"), "hello\n").unwrap();
    ends(0, &[&"trace", &"import", &small.events(), &"-o", &at("own.pstrace")]);
    let whole = fs::read(at("own.pstrace")).unwrap();
    fs::write(at("short.pstrace"), &whole[..whole.len() / 2]).unwrap();
    let text = fs::read_to_string(small.events()).unwrap();
    fs::write(at("cut.events"), &text[..text.len() / 2]).unwrap();
    fs::write(at("wrong.events"), text.replacen("\n0 0 ", "\n0 x ", 1)).unwrap();
    for name in ["cut", "wrong"] {
        fs::copy(at("small.snap"), at(&format!("{name}.snap"))).unwrap();
    }
    for (name, part) in [
        ("none.events", "No such file"),
        ("text.pstrace", "this is not a recording"),
        ("alone.events", "alone.snap.zst"),
        ("short.pstrace", "ends too early"),
        ("cut.events", "line "),
        ("wrong.events", "line 3: "),
    ] {
        let out = at("out.json");
        let code = if name == "none.events" { 5 } else { 4 };
        let (text, error) = ends(code, &[&"replay", &at(name), &"--check", &json_to(&out)]);
        assert!(error.contains(&format!("{name}: ")) && error.contains(part), "{name}: {error}");
        assert!(text.is_empty() && !out.exists(), "{name}: {text}");
    }
    // A second file that cannot be opened is reported before the first is replayed.
    let (text, _) = ends(5, &[&"replay", &small.events(), &at("none.events")]);
    assert!(text.is_empty());
}

#[test]
fn lost_events_are_refused_or_reported() {
    let small = Small::with(|_| {}, |snap| *snap = snap.replacen("\noverrun: 0", "\noverrun: 1234", 1));
    let (_, error) = ends(4, &[&"replay", &small.events()]);
    assert!(error.contains("events were lost on CPU 0") && error.contains("--lossy"), "{error}");
    let (text, _) = ends(0, &[&"replay", &small.events(), &"--lossy", &"--wide"]);
    assert!(text.contains("warning: events were lost on CPU 0 (1,234 counted"), "{text}");
    let (text, _) = ends(0, &[&"replay", &small.events(), &"--lossy", &"--json"]);
    assert!(json(&text)["rules"][0]["warnings"][0]["text"].as_str().unwrap().starts_with("events were lost"));
}

#[test]
fn weaknesses_of_a_recording_are_reported() {
    let says = |small: &Small, parts: &[&str]| {
        let (text, _) = ends(0, &[&"replay", &small.events(), &"--wide"]);
        for part in parts {
            let said = text.lines().filter(|line| line.starts_with("warning: ") && line.contains(part)).count();
            assert_eq!(said, 1, "{part:?} in\n{text}");
        }
    };
    says(&Small::new(), &["does not name its kernel", "drained only 16 times"]);
    // Reclaim, and events that contradict the lists.
    let reclaim = |events: &mut String| {
        let line = events.match_indices('\n').nth(20_000).unwrap().0 + 1;
        events.insert_str(line, "0 0 1p K\n0 0 1p R\n0 0 1p A ffffffff 0 1 cc0\n0 0 1p F ffffffff 0\n");
    };
    says(&Small::with(reclaim, |_| {}), &["events of reclaim: 2;", "pages outside all zones of the snapshots: "]);
    // One zoneinfo whose high watermark is above all memory, without migratetypes and without loss counts.
    let bare = |snap: &mut String| {
        let begin = snap.find("=== init2").unwrap();
        let end = snap.find("=== mid0").unwrap();
        *snap = snap[begin..end].to_owned();
        let zone = snap.find("zone   Normal").unwrap();
        let high = zone + snap[zone..].find("high ").unwrap();
        let line = high + snap[high..].find('\n').unwrap();
        snap.replace_range(high..line, "high     2000000");
    };
    let parts = ["only one zoneinfo", "no pagetypeinfo", "nothing tells whether events were lost", "1 of 1 snapshots"];
    says(&Small::with(|_| {}, bare), &parts);
    let unmarked = |events: &mut String| {
        *events = events.lines().filter(|line| !line.contains(" M ")).map(|line| format!("{line}\n")).collect();
    };
    says(&Small::with(unmarked, |_| {}), &["no marker says"]);
}

#[test]
fn ctrl_c_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.json");
    let mut child = command(&[&"replay", &"-", &json_to(&out)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // More data than a pipe holds: when the write returns, the command has begun to read.
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&vec![b'x'; 1 << 20]).unwrap();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    assert_eq!(output.status.code(), Some(130));
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// The first line says who wins and whether to trust it; the warnings are counted by name.
#[test]
fn a_replay_begins_with_its_answer() {
    let (text, _) = ends(0, &[&"replay", &"demo", &"--rules", &"linux-5.18,kernel"]);
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("linux-6.18 takes the zone lock least, 53.0 times in 1,000"), "{first}");
    assert!(first.contains("linux-5.18 takes it 6.6 times as often"), "{first}");
    let felt =
        "change nothing: no CPU takes a zone lock more than 256 times a second; below 1000 no setting can be felt";
    assert!(first.ends_with(&format!("; {felt}; trust high")), "{first}");
    let (one, _) = ends(0, &[&"replay", &"demo"]);
    assert!(one.starts_with("linux-6.18 takes the zone lock 53.0 times"), "{one}");
    // The rules of another kernel only: the control row at the input level still checks them.
    let small = Small::new();
    let (text, _) = ends(0, &[&"replay", &small.events()]);
    let last = text.lines().rfind(|line| line.contains(" warning")).unwrap();
    assert!(last.contains("kernel-unknown") && last.contains("pageset explain NAME"), "{text}");
    assert!(!text.contains("warning: "), "{text}");
}
