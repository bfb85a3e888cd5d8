//! `pageset trace`, as a user runs it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces").join(name)
}

fn pageset(arguments: &[&dyn AsRef<Path>], stdin: &[u8]) -> Output {
    let mut child = Command::new(crate::PROGRAM)
        .args(arguments.iter().map(|argument| argument.as_ref()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let bytes = stdin.to_vec();
    // A command that fails early may close its input.
    let writer = std::thread::spawn(move || drop(input.write_all(&bytes)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_recording_survives_every_conversion() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let shipped = fixture("sock-q1.events.zst");
    done(&pageset(&[&"trace", &"import", &shipped, &"-o", &at("a.pstrace")], b""));
    done(&pageset(&[&"trace", &"export", &at("a.pstrace"), &"-o", &at("a.events.zst")], b""));
    // The snapshots are in a second file, and both files together are a recording.
    done(&pageset(&[&"trace", &"import", &at("a.events.zst"), &"-o", &at("b.pstrace")], b""));
    assert!(fs::read(at("a.pstrace")).unwrap() == fs::read(at("b.pstrace")).unwrap());

    let text = pageset(&[&"trace", &"export", &at("a.pstrace")], b"");
    assert!(done(&text).starts_with("#pcptrace 1\n#t0 2993923372027\n0 0 20295p M ZB init0\n"));
    let own = pageset(&[&"trace", &"import", &at("a.pstrace"), &"-o", &"-"], b"").stdout;
    assert!(own == fs::read(at("a.pstrace")).unwrap());
    let info = pageset(&[&"trace", &"info", &"-"], &own);
    assert!(done(&info).contains("events     324,698"), "{}", done(&info));

    // The results are the only new files.
    let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.events.zst", "a.pstrace", "a.snap.zst", "b.pstrace"]);
}

/// An export of any name is a complete recording.
#[test]
fn an_export_of_any_name_is_imported_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    done(&pageset(&[&"trace", &"import", &fixture("sock-q1.events.zst"), &"-o", &at("a.pstrace")], b""));
    for name in ["a.txt", "a", "a.zst", "a.events"] {
        done(&pageset(&[&"trace", &"export", &at("a.pstrace"), &"-o", &at(name)], b""));
        done(&pageset(&[&"trace", &"import", &at(name), &"-o", &at("b.pstrace")], b""));
        assert!(fs::read(at("a.pstrace")).unwrap() == fs::read(at("b.pstrace")).unwrap(), "{name}");
    }
    // A device gets no companion.
    done(&pageset(&[&"trace", &"export", &at("a.pstrace"), &"-o", &"/dev/null"], b""));
    assert!(!Path::new("/dev/null.snap").exists());
}

/// The first line of `trace info` names what limits a replay.
#[test]
fn info_names_the_limits_of_a_replay() {
    let at = |name: &str| fixture("../crates/pageset-trace/tests/data/formats").join(name);
    for (file, limits) in [
        ("ftrace.txt.zst", "events-missing; the warning below says how"),
        ("counter.txt.zst", "events-missing, other-clock; the warnings below say how"),
    ] {
        let text = done(&pageset(&[&"trace", &"info", &at(file), &"--zoneinfo", &at("ftrace.zoneinfo")], b""));
        assert!(text.starts_with(&format!("Limits of a replay: {limits}.\n\n")), "{text}");
    }
}

/// A form has one name, wherever it is shown.
#[test]
fn a_form_has_one_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let text = fixture("pf1-q1.events.zst");
    done(&pageset(&[&"trace", &"import", &text, &"-o", &at("a.pstrace")], b""));
    for (file, form) in [(at("a.pstrace"), "pstrace"), (text, "text")] {
        let info: serde_json::Value =
            serde_json::from_str(&done(&pageset(&[&"trace", &"info", &file, &"--json"], b""))).unwrap();
        let replayed = done(&pageset(&[&"replay", &file, &"--json"], b""));
        let replayed: serde_json::Value = serde_json::from_str(&replayed).unwrap();
        assert_eq!((info["form"].as_str(), replayed["trace"]["form"].as_str()), (Some(form), Some(form)));
    }
}

#[test]
fn info_shows_the_recording() {
    let text = done(&pageset(&[&"trace", &"info", &fixture("pf1-q1.events.zst")], b""));
    assert!(text.starts_with("Complete: the recording has what a replay needs.\n\n"), "{text}");
    for part in [
        "recording  pf1-q1 (text)",
        "2 CPUs, 1 node, pages of 4096 bytes, pageblocks of order 9",
        "duration   1.367 s",
        "losses     none",
        "all  280,875       0  79,575   78,831      279,718  56,448        0      3        0      32     0             0     0  775,482",
        "0  Normal  init2  1,638,400  963,861  11,461  14,326  17,191     63     7,163   102,400     502",
        "0  Normal  fini0  1,638,400  741,465  11,461  14,326  17,191     63     7,163   102,400  21,333",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert!(text.lines().all(|line| line.trim_end() == line), "spaces at the ends of lines");

    let json = done(&pageset(&[&"trace", &"info", &"--json", &fixture("pf1-q1.events.zst")], b""));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "pageset.trace-info/1");
    assert_eq!((&json["events"], &json["duration_ns"]), (&775_482.into(), &1_367_037_721.into()));
    assert_eq!((&json["counts"]["1"]["drain"], &json["zones"][5]["held"]), (&56_448.into(), &21_333.into()));
}

#[test]
fn damage_ends_with_exit_code_4_and_leaves_the_old_result() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let own = at("good.pstrace");
    done(&pageset(&[&"trace", &"import", &fixture("sock-q1.events.zst"), &"-o", &own], b""));
    let mut bytes = fs::read(&own).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(at("bad.pstrace"), &bytes).unwrap();
    fs::write(at("old.pstrace"), "old").unwrap();
    let output = pageset(&[&"trace", &"import", &at("bad.pstrace"), &"-o", &at("old.pstrace")], b"");
    assert_eq!(output.status.code(), Some(4));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("bad.pstrace: section ") && message.contains("checksum"), "{message}");
    assert_eq!(fs::read_to_string(at("old.pstrace")).unwrap(), "old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);

    for (input, what) in [(&b""[..], "empty"), (b"hello\n", "not a recording"), (&bytes[..1000], "ends too early")] {
        let output = pageset(&[&"trace", &"info", &"-"], input);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{message}");
        assert!(message.contains(what), "{message}");
    }
    // `info` shows a recording that cannot be replayed; `import` refuses it.
    fs::copy(fixture("sock-q1.events.zst"), at("alone.events.zst")).unwrap();
    let text = done(&pageset(&[&"trace", &"info", &at("alone.events.zst")], b""));
    assert!(text.contains("warning: no zoneinfo"), "{text}");
    assert!(text.starts_with("No replay is possible: the recording has no copy of /proc/zoneinfo; "), "{text}");
    let output = pageset(&[&"trace", &"import", &at("alone.events.zst"), &"-o", &"-"], b"");
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("alone.snap.zst"));
    assert_eq!(pageset(&[&"trace", &"info"], b"").status.code(), Some(2));
}

/// A recording cannot send escape sequences to the terminal of its reader, nor add lines to a table.
#[test]
fn names_of_a_recording_are_printable() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pstrace");
    let command = vec!["\u{1b}]0;title\u{7}".to_owned(), "two\nlines".to_owned()];
    let facts = pageset_trace::Facts { command, ..pageset_trace::Facts::default() };
    let writer = pageset_trace::file::Writer::create(Vec::new(), &facts).unwrap();
    fs::write(&file, writer.finish().unwrap()).unwrap();
    let text = done(&pageset(&[&"trace", &"info", &file], b""));
    assert!(text.lines().any(|line| line.ends_with(r"\u{1b}]0;title\u{7} two\nlines")), "{text:?}");
}
