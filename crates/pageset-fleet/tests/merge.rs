//! Lines of made-up machines, merged.

use std::time::{Duration, Instant};

use pageset_fleet::{Fleet, Line, Merge, Recorded};

const AGENTS: &str = include_str!("inputs/agents.ndjson");

fn lines() -> Vec<Line> {
    AGENTS.lines().map(|text| Line::parse(text.as_bytes()).unwrap()).collect()
}

fn merged(text: &[u8]) -> Fleet {
    let mut merge = Merge::default();
    merge.read("agents", text).unwrap();
    merge.finish()
}

fn json(line: &Line) -> String {
    serde_json::to_string(line).unwrap() + "\n"
}

/// Each part is a file.
fn of<const N: usize>(files: [String; N]) -> Fleet {
    let mut merge = Merge::default();
    files.iter().for_each(|file| merge.read("agents", file.as_bytes()).unwrap());
    merge.finish()
}

#[test]
fn machines_are_ranked_by_the_time_to_be_won() {
    let fleet = merged(AGENTS.as_bytes());
    assert_eq!((fleet.machines, fleet.lines, fleet.wrong_lines), (14, 15, 0));
    let row = |place: usize| {
        let group = &fleet.groups[place];
        (group.verdict.as_str(), group.machines, group.set.as_deref(), group.hosts[0].as_str())
    };
    assert_eq!(row(0), ("tuning-off", 4, Some("vm.percpu_pagelist_high_fraction=0"), "web-3"));
    assert_eq!(row(1), ("lists-too-small", 2, Some("vm.percpu_pagelist_high_fraction=8"), "build-1"));
    assert_eq!(row(2), ("zone-lock-waits", 1, None, "queue-1"));
    let waits = fleet.groups[0].waiting_cpus.unwrap();
    assert!((waits - 3.74).abs() < 1e-9, "{waits}");
    assert!((fleet.groups[0].wait_pct.unwrap() - 100.0 * 3.74 / 64.0).abs() < 1e-9);
    // What was not measured is no zero.
    let unknown = fleet.groups.iter().find(|group| group.verdict == "not-counted").unwrap();
    assert_eq!((unknown.waiting_cpus, unknown.wait_pct), (None, None));
    assert_eq!(
        fleet.sentence,
        "7 of 14 machines wait for zone locks; set vm.percpu_pagelist_high_fraction=0 on 4 of them (web-3, web-1, web-2, …); run \
         `pageset advise --live 5` on build-1; 1 short of memory; 1 cannot tell: the agent there lacks \
         privileges"
    );
}

/// A recording that an agent has made is judged instead of another one.
#[test]
fn recordings_are_shown() {
    let mut all = lines();
    let file = "/var/lib/pageset/pageset-agent.pstrace";
    all.iter_mut().filter(|line| line.host == "build-2").for_each(|line| line.recording = Some(file.to_owned()));
    let fleet = of([all.iter().map(json).collect()]);
    assert!(fleet.sentence.contains(&format!("; run `pageset advise {file}` on build-2;")), "{}", fleet.sentence);
    let recordings: Vec<_> = fleet.groups.iter().flat_map(|group| &group.recordings).collect();
    assert_eq!(recordings, [&Recorded { host: "build-2".to_owned(), file: file.to_owned() }]);
    // A person follows the sentence.
    let wrong = Line { recording: Some("/tmp/a;reboot".to_owned()), ..all.swap_remove(0) };
    let fleet = of([json(&wrong)]);
    assert_eq!((fleet.lines, fleet.wrong_lines), (0, 1));
    assert!(fleet.first_wrong_lines[0].reason.contains("allowed: / and letters"), "{fleet:?}");
}

/// Of several files the latest line of a machine counts, in whatever order they are read. Of one file the last line counts: a clock that
/// has jumped back does not hold a verdict.
#[test]
fn a_machine_that_appears_twice_counts_once() {
    let healthy = lines().into_iter().next().unwrap();
    let waits = lines().into_iter().find(|line| line.host == "web-1" && line.verdict.key != "healthy").unwrap();
    for order in [[json(&healthy), json(&waits)], [json(&waits), json(&healthy)]] {
        let fleet = of(order);
        assert_eq!((fleet.machines, fleet.lines, fleet.groups[0].verdict.as_str()), (1, 2, "tuning-off"));
    }
    assert_eq!(of([json(&waits) + &json(&healthy)]).groups[0].verdict, "healthy");
    // Equally late: the last one.
    let same = Line { time_ns: waits.time_ns, ..healthy };
    assert_eq!(of([json(&waits), json(&same)]).groups[0].verdict, "healthy");
}

#[test]
fn wrong_lines_are_counted_and_named() {
    let good = AGENTS.lines().next().unwrap();
    let other = good.replace("pageset.agent/1", "pageset.agent/2");
    let cut = &good[..good.len() / 2];
    let nameless = good.replace("\"web-1\"", "\"\"");
    let idle = good.replace("\"cpus\":16", "\"cpus\":0");
    let long = "x".repeat(3 << 20);
    let text = format!("{good}\n\n{cut}\n{{}}\n{other}\n{nameless}\n{idle}\n{long}\n\u{1b}[31m\n{good}");
    let fleet = merged(&[text.as_bytes(), b"\n\xff\xfe\n"].concat());
    assert_eq!((fleet.machines, fleet.lines, fleet.wrong_lines), (1, 2, 8), "{fleet:#?}");
    let wrong: Vec<(u64, &str)> = fleet.first_wrong_lines.iter().map(|of| (of.line, of.reason.as_str())).collect();
    let at = |place: usize, line: u64, reason: &str| {
        assert!(wrong[place].0 == line && wrong[place].1.contains(reason), "{place}: {wrong:?}");
    };
    at(0, 3, "EOF while parsing");
    at(1, 4, "missing field `schema`");
    at(2, 5, "the schema is pageset.agent/2; allowed: pageset.agent/1");
    at(3, 6, "host is empty");
    at(4, 7, "cpus is 0");
    assert_eq!(wrong.len(), 5);
    // A line that is too long does not end the reading: two good lines were read.
    let line = lines().remove(0);
    // Names reach a terminal, and settings a person who follows them.
    let (host, kernel) = (Line { host: "a\nb".to_owned(), ..line.clone() }, Some("6.12\u{1b}[31m".to_owned()));
    let (mut key, mut set) = (line.clone(), line.clone());
    key.verdict.key = "on-fire".to_owned();
    set.verdict.set = Some("kernel.panic=1".to_owned());
    let forged = [host, Line { kernel, ..line.clone() }, key, set].map(|line| json(&line));
    let numbers = ["-1.0", "1e999"].map(|number| json(&line).replace("100000.0", number));
    for wrong in forged.into_iter().chain(numbers) {
        assert_ne!(wrong, json(&line));
        assert!(Line::parse(wrong.as_bytes()).is_err(), "{wrong}");
    }
}

#[test]
fn no_lines_are_no_machines() {
    for text in ["", "\n\n \n"] {
        let fleet = merged(text.as_bytes());
        assert_eq!((fleet.machines, fleet.lines, fleet.wrong_lines, fleet.groups.len()), (0, 0, 0, 0));
    }
}

/// The lines of 10,000 machines, of which each 20th waits, in less than a second.
#[test]
fn ten_thousand_machines_take_less_than_a_second() {
    let (healthy, waits) = (lines().remove(13), lines().remove(1));
    assert_eq!((healthy.verdict.key.as_str(), waits.verdict.key.as_str()), ("memory-short", "tuning-off"));
    let machine = |number: u64| {
        let of = if number.is_multiple_of(20) { &waits } else { &healthy };
        let kernel = Some(format!("6.{}.0", number % 7));
        let line = Line { host: format!("host-{number:05}"), kernel, ..of.clone() };
        serde_json::to_string(&line).unwrap() + "\n"
    };
    let text: String = (0..10_000).map(machine).collect();
    let begin = Instant::now();
    let fleet = merged(text.as_bytes());
    let time = begin.elapsed();
    assert_eq!((fleet.machines, fleet.lines, fleet.wrong_lines), (10_000, 10_000, 0));
    assert_eq!((fleet.groups[0].machines, fleet.groups[0].kernels.len(), fleet.groups[0].hosts.len()), (500, 7, 10));
    assert!(fleet.sentence.starts_with("500 of 10,000 machines wait for zone locks; set "), "{}", fleet.sentence);
    println!("10,000 machines, {} bytes, in {time:?}", text.len());
    assert!(time < Duration::from_secs(1), "{time:?}");
}
