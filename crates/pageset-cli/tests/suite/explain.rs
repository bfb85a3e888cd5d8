//! `pageset explain` and `pageset generate`, as a user runs them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::support::explained::{completions_offer, members, pages_and_completions_know_every_subcommand};
use crate::support::{Small, ends, json, json_to, strict};

#[test]
fn a_printed_warning_is_explained() {
    let small = Small::new();
    let (text, _) = ends(0, &[&"replay", &small.events(), &"--wide"]);
    let warnings: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("warning: ")).collect();
    assert!(!warnings.is_empty(), "{text}");
    for warning in warnings {
        let (said, _) = ends(0, &[&"explain", &warning]);
        assert!(said.contains(" (warning)\n") && said.contains("to do: "), "{warning}: {said}");
    }
}

/// Each member of the JSON of a replay, a check, a look and an advice has an entry.
#[test]
fn members_of_measured_results_are_explained() {
    let small = Small::new();
    let (events, replay, advice) = (small.events(), small.at("replay.json"), small.at("advice.json"));
    ends(0, &[&"replay", &events, &"--check", &json_to(&replay)]);
    ends(0, &[&"advise", &events, &json_to(&advice)]);
    let read = |file| json(&fs::read_to_string(file).unwrap());
    let (info, _) = ends(0, &[&"trace", &"info", &events, &"--json"]);
    let (looks, _) = ends(0, &[&"top", &"--once", &"--interval", &"0.1", &"--json"]);
    let look = json(looks.lines().next().unwrap());
    let mut names = Vec::new();
    [read(replay), read(advice), json(&info), look].iter().for_each(|value| members(value, &mut names));
    // The numbers of CPUs are also members.
    let names: BTreeSet<&String> = names.iter().filter(|name| name.parse::<u32>().is_err()).collect();
    assert!(names.len() > 150, "{} names only", names.len());
    for name in names {
        ends(0, &[&"explain", name]);
    }
}

#[test]
fn an_unknown_name_is_an_error_with_a_suggestion() {
    let (out, error) = ends(2, &[&"explain", &"most hled"]);
    assert_eq!(out, "");
    assert!(error.contains("unknown name `most hled`; the closest are most held, "), "{error}");
}

/// Looks match their schema: without and with a previous look.
#[test]
fn looks_match_their_schema() {
    let (text, _) = ends(0, &[&"explain", &"--schema", &"top"]);
    assert_eq!(text, ends(0, &[&"explain", &"--schema", &"pageset.top/1"]).0);
    let schema = strict(&json(&text));
    let looks = crate::made_up::json("8x2", 3);
    let (live, _) = ends(0, &[&"top", &"--json", &"-n", &"2", &"-i", &"0.1"]);
    for look in looks.lines().chain(live.lines()).map(json) {
        let errors: Vec<String> = schema.iter_errors(&look).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        for member in ["schema", "kernel", "zones", "missing"] {
            let mut without = look.clone();
            without.as_object_mut().unwrap().remove(member);
            assert!(!schema.is_valid(&without), "without {member}");
        }
    }
}

#[test]
fn completions_offer_names_and_files() {
    completions_offer(&[(&["pageset", "replay", "--rules"], "linux-6.18", true)]);
}

#[test]
fn man_pages_and_completions_know_every_subcommand() {
    pages_and_completions_know_every_subcommand("pageset", "replay");
}

#[test]
fn schemas_are_listed() {
    let (list, _) = ends(0, &[&"explain", &"--schema"]);
    assert_eq!(list, "status\nreplay\nidentify\nadvise\nadvise set\ntrace info\ndiff\ntop\nagent\nfleet\nexplain\n");
    let (_, error) = ends(2, &[&"explain", &"--schema", &"replays"]);
    let names = "unknown result `replays`; allowed: status, replay, identify, advise, advise set, trace info, diff, top, agent, fleet, explain";
    assert!(error.contains(names), "{error}");
}

/// A metric stands where it is declared and where it is computed: no output names it.
#[test]
fn a_metric_is_declared_once() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut folders, mut sources) = (vec![crates.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.strip_prefix(crates).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() && !name.contains("/tests") && !name.contains("/examples") {
                folders.push(path);
            } else if name.ends_with(".rs") {
                sources.push((name, fs::read_to_string(path).unwrap()));
            }
        }
    }
    let replay = ["pageset-trace/src/measure/", "pageset-trace/src/replay/"];
    let top = ["pageset-fleet/src/view/"; 2];
    for (name, allowed) in [
        ("zone_lock_lines", replay),
        ("unseen_allocs", replay),
        ("refused_frees", replay),
        ("pageset_zone_held_pages", top),
        ("pageset_fallback_blocks", top),
    ] {
        let files: Vec<&String> =
            sources.iter().filter(|(_, text)| text.contains(name)).map(|(file, _)| file).collect();
        assert!(!files.is_empty(), "{name}");
        assert!(files.iter().all(|file| allowed.iter().any(|folder| file.starts_with(folder))), "{name}: {files:?}");
    }
}

/// A file that people post, a name that the kernel prints, and what is neither.
#[test]
fn posted_texts_and_kernel_names_are_explained() {
    let inputs = concat!(env!("CARGO_MANIFEST_DIR"), "/../pageset-explain/tests/inputs/");
    let log = format!("{inputs}log-4.9-order10-only-cma.txt");
    let (text, _) = ends(0, &[&"explain", &log]);
    assert!(text.starts_with("An order-10 GFP_ATOMIC request of app failed because order 10"), "{text}");
    let (found, _) = ends(0, &[&"explain", &log, &format!("{inputs}zoneinfo-highs-differ.txt"), &"--json"]);
    let found = json(&found);
    assert_eq!((&found["schema"], &found["auto_tuning"]), (&"pageset.explain/1".into(), &"on".into()));
    let schema = strict(&json(&ends(0, &[&"explain", &"--schema", &"explain"]).0));
    let errors: Vec<String> = schema.iter_errors(&found).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");

    let (text, _) = ends(0, &[&"explain", &"[k] rmqueue_bulk"]);
    assert!(text.starts_with("rmqueue_bulk (function)\n"), "{text}");
    // A name of both vocabularies has both entries.
    let (text, _) = ends(0, &[&"explain", &"min"]);
    assert!(text.contains("min (field)\n") && text.contains("min (column)\n"), "{text}");

    let small = Small::new();
    let (hostile, other) = (small.at("hostile.log"), small.at("other.txt"));
    fs::write(&hostile, "\u{1b}]0;x\u{7}: page allocation failure: order:0, mode:0x20\n\u{1b}[2J?\n").unwrap();
    let (text, _) = ends(0, &[&"explain", &hostile]);
    assert!(!text.contains('\u{1b}') && text.contains(r"\u{1b}"), "{text}");
    fs::write(&other, "nothing of a known kind\n").unwrap();
    let (_, error) = ends(4, &[&"explain", &other]);
    assert!(error.contains("no line is of a kind that this command knows"), "{error}");
    fs::write(&other, "[    0.000000] Linux version 6.1\nkernel: [ 1234.567890] eth0: link up\nx\n").unwrap();
    let (text, _) = ends(0, &[&"explain", &other]);
    assert!(text.starts_with("Nothing found: 3 lines of a kernel's log, "), "{text}");
    assert!(text.ends_with("\n      $ sudo pageset top\n"), "{text}");
    // A folder is no name, and a release has the rules of its series.
    let (_, error) = ends(5, &[&"explain", &small.0.path()]);
    assert!(error.contains("Is a directory"), "{error}");
    ends(5, &[&"explain", &"."]);
    for name in ["linux-6.18.44-fc", "Linux 6.18.44", "6.18.44"] {
        let (text, _) = ends(0, &[&"explain", &name]);
        assert!(text.starts_with("Linux 6.18.44"), "{text}");
        assert!(text.contains(" has the rules linux-6.18.\n\nlinux-6.18 (preset)\n"), "{text}");
    }
    for name in ["linux-9.9", "freebsd-6.1", "linuxulator-6.1", "é-6.1"] {
        ends(2, &[&"explain", &name]);
    }
    let unknown = small.at("unknown.txt");
    fs::write(&unknown, "a [1.5] b\n").unwrap();
    ends(4, &[&"explain", &other, &unknown]);
    fs::write(&other, " \n").unwrap();
    let (_, error) = ends(4, &[&"explain", &other]);
    assert!(error.contains(&format!("cannot explain {}: it is empty", other.display())), "{error}");
    let (_, error) = ends(4, &[&"explain", &"-"]);
    assert!(error.contains("cannot explain standard input: it is empty"), "{error}");
    for name in ["", "  "] {
        let (_, error) = ends(2, &[&"explain", &name]);
        assert!(error.contains("cannot explain an empty name") && !error.contains("closest"), "{error}");
    }
}

/// A path is a file, also where a word of the kernel is in its name. Names of outputs may have a slash.
#[test]
fn a_missing_file_is_not_explained_as_a_word() {
    for name in ["oom-killer.log", "soft lockup.txt", "./kswapd", "logs/Mem-Info", "/no/such/zoneinfo"] {
        let (_, error) = ends(5, &[&"explain", &name]);
        assert!(error.contains(&format!("cannot read {name}: ")), "{error}");
    }
    for name in ["locks/1000 ops", "refill/s", "swapper/0: page allocation failure: order:0"] {
        assert!(!ends(0, &[&"explain", &name]).0.is_empty(), "{name}");
    }
    // The kernel's names are suggested too.
    let (_, error) = ends(2, &[&"explain", &"kswapdd"]);
    assert!(error.contains("the closest are kswapd"), "{error}");
}
