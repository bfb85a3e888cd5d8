//! `pageset top --from`: saved looks and recordings.

use std::fs;

use crate::made_up;
use crate::support::{ends, json, trace};

/// Looks that are printed again are the same, byte for byte.
#[test]
fn saved_looks_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("looks.json");
    let text = made_up::json("12x2", 5);
    fs::write(&file, &text).unwrap();
    assert_eq!(ends(0, &[&"top", &"--from", &file, &"--json"]).0, text);
    assert_eq!(text.lines().count(), 5);
    let (once, _) = ends(0, &[&"top", &"--from", &file, &"--json", &"--once"]);
    assert_eq!(once.lines().collect::<Vec<_>>(), text.lines().skip(4).collect::<Vec<_>>());
    let (plain, _) = ends(0, &[&"top", &"--from", &file, &file, &"--plain"]);
    assert_eq!(plain.lines().filter(|line| line.starts_with("made up, 12 CPUs: ")).count(), 10, "{plain}");
    // This machine's looks, too.
    let (text, _) = ends(0, &[&"top", &"--json", &"-n", &"2", &"-i", &"0.1"]);
    fs::write(&file, &text).unwrap();
    assert_eq!(ends(0, &[&"top", &"--from", &file, &"--json"]).0, text);
    // What belongs to no process and to no call site is played back.
    let mut look = json(text.lines().next().unwrap());
    look["processes_lost"] = serde_json::json!({ "pages": 12_345, "zone_lock_wait_ns": 1_500_000 });
    look["call_sites_lost"] = serde_json::json!({ "pages": 54_321, "zone_lock_wait_ns": null });
    fs::write(&file, look.to_string()).unwrap();
    let played = json(&ends(0, &[&"top", &"--from", &file, &"--json"]).0);
    for member in ["processes_lost", "call_sites_lost"] {
        assert_eq!(played[member], look[member]);
    }
    // Looks of earlier versions have no durations of waits, no nodes, and no numbers of what belongs to no process or
    // call site.
    for member in ["zone_lock_wait_times", "cpu_nodes", "processes_lost", "call_sites_lost"] {
        look.as_object_mut().unwrap().remove(member);
    }
    fs::write(&file, look.to_string()).unwrap();
    ends(0, &[&"top", &"--from", &file]);
}

/// A line that is no look is named.
#[test]
fn a_wrong_line_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("looks.json");
    let look = made_up::json("2", 1);
    for (line, part) in [
        ("{\"schema\": \"pageset.top/1\"}".to_owned(), "not a look: missing field"),
        (look.replace("pageset.top/1", "pageset.top/9"), "the schema is `pageset.top/9`; allowed: pageset.top/1"),
        (look[..200].to_owned(), "not a look: EOF"),
    ] {
        fs::write(&file, format!("{look}\n{line}\n")).unwrap();
        let (out, error) = ends(4, &[&"top", &"--from", &file, &"--json"]);
        assert!(error.contains("looks.json: line 3: ") && error.contains(part), "{error}");
        assert!(out.is_empty() && error.contains("\nhelp: use the output of `pageset top --json`"), "{error}");
    }
    // Bytes that are no text, of a look and of a zoneinfo.
    for (bytes, help) in
        [(&b"{\xff\xfe"[..], "the output of `pageset top --json`"), (b"\xff\xfe", "copies of /proc/zoneinfo")]
    {
        fs::write(&file, bytes).unwrap();
        let (_, error) = ends(4, &[&"top", &"--once", &"--from", &file]);
        assert!(error.contains("looks.json: this is no text") && error.contains(help), "{error}");
    }
}

/// A look at each snapshot of a recording, with the pages that moved until then.
#[test]
fn a_recording_is_a_row_of_looks() {
    let recording = trace("lab/6.18-amd64.4cpu.unix1.pstrace");
    let (text, _) = ends(0, &[&"top", &"--from", &recording, &"--json"]);
    let looks: Vec<_> = text.lines().map(json).collect();
    assert!(looks.len() > 2, "{} looks", looks.len());
    let (events, _) = ends(0, &[&"trace", &"export", &recording]);
    let last = events.lines().enumerate().filter(|(_, line)| line.contains(" M ZE ")).last().unwrap().0;
    let of = |letter: &str| -> u64 {
        let words = events.lines().take(last).filter(|line| !line.starts_with('#')).map(|line| line.split(' '));
        let words = words.map(Iterator::collect::<Vec<_>>).filter(|words| words[3] == letter);
        words
            .map(|words| words[5].parse::<u32>().unwrap())
            .filter(|order| [0, 1, 2, 3, 9].contains(order))
            .map(|o| 1 << o)
            .sum()
    };
    let counted = |name: &str| -> u64 {
        looks.last().unwrap()["traffic"].as_array().unwrap().iter().map(|cpu| cpu[name].as_u64().unwrap()).sum()
    };
    assert!(of("Z") > 1000 && of("D") > 1000, "{} {}", of("Z"), of("D"));
    assert_eq!((counted("refill_pages"), counted("drain_pages")), (of("Z"), of("D")));
    let kernel = &looks[0]["kernel"];
    assert!(kernel["release"].as_str().unwrap().starts_with("6.18"), "{kernel}");
    // The built-in recording is one too.
    let (demo, _) = ends(0, &[&"top", &"--from", &"demo", &"--json"]);
    assert!(demo.lines().count() > 2, "{demo}");
    // With an interval there are fewer looks, at least so far apart.
    let (fewer, _) = ends(0, &[&"top", &"--from", &recording, &"--json", &"-i", &"0.3"]);
    let elapsed: Vec<u64> = fewer.lines().filter_map(|line| json(line)["elapsed_ns"].as_u64()).collect();
    assert!(elapsed.len() + 1 < looks.len() && elapsed.iter().all(|ns| *ns >= 300_000_000), "{elapsed:?}");
}

/// From 5.18 to 6.15 frees of orders 1 to 3 drain a few pages at a time: each drain holds the lock, however few pages it moves.
#[test]
fn small_drains_count_as_moves() {
    let recording = trace("lab/6.1-amd64.2node.unixfar.pstrace");
    let (text, _) = ends(0, &[&"top", &"--once", &"--from", &recording]);
    assert!(text.starts_with("CPU 2 takes zone locks 2,0") && text.contains(" times a second, limit 1,000;"), "{text}");
}

/// `ci/pictures.sh` shows these looks: PAGESET_LOOKS is CPUS, or CPUSxNODES, and PAGESET_LOOKS_FILE the file.
#[test]
#[ignore = "writes a file for pictures"]
fn looks_for_pictures() {
    let set = |name| std::env::var(name).unwrap();
    fs::write(set("PAGESET_LOOKS_FILE"), made_up::json(&set("PAGESET_LOOKS"), 67)).unwrap();
}

#[test]
fn made_up_looks_repeat_and_counters_grow() {
    let looks = || {
        let mut machine = made_up::MadeUp::new(made_up::Size::of("192x2"), std::time::Duration::from_secs(1));
        [(); 2].map(|()| machine.look().unwrap_or_else(|_| panic!("no look")))
    };
    let ([first, second], [again, _]) = (looks(), looks());
    assert_eq!(first.zoneinfo, again.zoneinfo);
    assert_eq!(first.traffic, again.traffic);
    assert_eq!(second.zoneinfo.zones.len(), 4);
    assert_eq!(second.zoneinfo.cpus(), 192);
    let (first, second) = (first.traffic.unwrap(), second.traffic.unwrap());
    assert!(first.iter().zip(&second).all(|(then, now)| then.refill_pages <= now.refill_pages));
}
