//! Recordings of other tools in every command, and an export for other tools.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{ends, fixture, json};

/// The file of a tool with its zoneinfo beside it.
fn placed(folder: &Path, name: &str) -> PathBuf {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pageset-trace/tests/data/formats");
    let packed = fs::File::open(data.join(format!("{name}.zst"))).unwrap();
    let file = folder.join(name);
    fs::write(&file, zstd::decode_all(packed).unwrap()).unwrap();
    fs::copy(data.join("ftrace.zoneinfo"), folder.join(format!("{name}.zoneinfo"))).unwrap();
    file
}

#[test]
fn every_command_takes_the_files_of_other_tools() {
    let folder = tempfile::tempdir().unwrap();
    for (name, form) in [
        ("v6.dat", "trace.dat"),
        ("script.data", "perf.data"),
        ("script.txt", "perf script"),
        ("v6.report.txt", "ftrace text"),
        ("ftrace.txt", "ftrace text"),
    ] {
        let file = placed(folder.path(), name);
        let (text, _) = ends(0, &[&"trace", &"info", &file]);
        assert!(text.contains(&format!("({form})")), "{name}: {text}");
        let info = json(&ends(0, &[&"trace", &"info", &file, &"--json"]).0);
        let warnings = info["results"].as_array().map_or(&info, |all| &all[0])["warnings"].as_array().unwrap();
        let names: Vec<_> = warnings.iter().map(|warning| warning["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"events-missing"), "{name}: {names:?}");
        let (text, _) = ends(0, &[&"replay", &file]);
        assert!(text.contains("events-missing"), "{name}: {text}");
        ends(0, &[&"advise", &file]);
        ends(0, &[&"report", &file, &"-o", &folder.path().join("page.html")]);
        let own = folder.path().join("own.pstrace");
        ends(0, &[&"trace", &"import", &file, &"-o", &own]);
        let events = |file: &Path| ends(0, &[&"trace", &"export", &file]).0;
        assert_eq!(events(&own), events(&file), "{name}");
        let (again, _) = ends(0, &[&"trace", &"info", &own]);
        assert!(again.contains("[events-missing]"), "an import keeps what the recipe lacks: {again}");
    }
}

/// The exported text is a recording with the same events, from the first zoneinfo on.
#[test]
fn an_export_for_perf_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let shipped = fixture("sock-q1");
    ends(0, &[&"trace", &"export", &shipped, &"--to", &"perf-script", &"-o", &at("perf.txt")]);
    assert!(at("perf.txt.zoneinfo").exists());
    let events = |file: &Path| ends(0, &[&"trace", &"export", &file]).0;
    let (text, again) = (events(&shipped), events(&at("perf.txt")));
    // The text has no contexts and no markers.
    let start = text.lines().position(|line| line.ends_with("M ZE init2")).unwrap();
    let without = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        words[2].pop();
        words[1..].join(" ")
    };
    let wanted: Vec<_> =
        text.lines().skip(start).filter(|line| !line.contains(" M ") && !line.contains(" U ")).map(without).collect();
    let found: Vec<_> = again.lines().skip(2).map(without).collect();
    assert_eq!(found.len(), wanted.len());
    assert!(found == wanted);
    let (table, _) = ends(0, &[&"replay", &at("perf.txt")]);
    assert!(table.contains("(perf script)"), "{table}");
}
