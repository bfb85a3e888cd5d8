//! Rule files and lists of rules for `pageset replay`.

use std::fs;
use std::path::Path;

use crate::support::{Small, ends, json, trace};
use pageset::policy::PRESETS;
use serde_json::Value;

/// The rows of named sets at level `input`; the kernel's own rules come last.
fn rows(small: &Small, arguments: &[&dyn AsRef<Path>]) -> Vec<Value> {
    let file = small.events();
    let mut all: Vec<&dyn AsRef<Path>> = vec![&"replay", &file, &"--level", &"input", &"--json"];
    all.extend(arguments);
    json(&ends(0, &all).0)["rules"].as_array().unwrap().clone()
}

fn names(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["name"].as_str().unwrap()).collect()
}

#[test]
fn a_rule_file_does_what_set_does() {
    let small = Small::new();
    let path = small.at("small-lists.toml");
    let text = "base = \"linux-4.19\"\nname = \"small lists\"\nabout = \"as --set does\"\nbatch = 10\nhigh = 40\n";
    fs::write(&path, text).unwrap();
    let of_file = rows(&small, &[&"--rules", &path]);
    let mut by_set = rows(&small, &[&"--rules", &"linux-4.19", &"--set", &"batch=10", &"--set", &"high=40"]);
    assert_eq!(by_set[0]["name"], "linux-4.19 batch=10 high=40");
    by_set[0]["name"] = "small lists".into();
    assert_eq!(of_file[0], by_set[0]);
    assert_eq!(of_file[0]["tuning"]["batch"], 10);
    // --set also changes the rules of a file, and a file can be compared with presets.
    let changed = rows(&small, &[&"--rules", &"linux-4.19", &"--rules", &path, &"--set", &"batch=11"]);
    assert_eq!(names(&changed), ["linux-4.19 batch=11", "small lists batch=11"]);
    assert_eq!((&changed[1]["tuning"]["batch"], &changed[1]["tuning"]["high_max"]), (&11.into(), &40.into()));
}

/// A release without a preset of its own has its own name; one that nobody compared is unknown.
#[test]
fn releases_have_their_own_names() {
    let small = Small::new();
    let file = small.events();
    let arguments: [&dyn AsRef<Path>; 4] = [&"replay", &file, &"--rules", &"linux-7.3,linux-6.19"];
    let (text, notes) = ends(0, &arguments);
    assert!(notes.contains("note: linux-7.3 has the same rules as linux-6.19\n"), "{notes}");
    let row = |name: &str| {
        let row = text.lines().find(|line| line.starts_with(&format!(" {name} "))).unwrap_or_else(|| panic!("{text}"));
        row.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("linux-7.3"), row("linux-6.19"));
    for (name, closest) in [("linux-12.0", "linux-6.19"), ("linux-9.9", "linux-6.19"), ("linux-2.6", "linux-4.16")] {
        let (_, error) = ends(2, &[&"replay", &file, &"--rules", &name]);
        assert!(error.contains(&format!("unknown rules `{name}`; the closest are {closest}")), "{error}");
    }
}

#[test]
fn sets_of_one_name_are_one_set_or_an_error() {
    let small = Small::new();
    let (one, same, other) = (small.at("one.toml"), small.at("same.toml"), small.at("other.toml"));
    fs::write(&one, "name = 'mine'\nbatch = 10").unwrap();
    fs::write(&same, "base = 'pageset'\nname = 'mine'\nbatch = 10").unwrap();
    fs::write(&other, "name = 'mine'\nbatch = 11").unwrap();
    let both = rows(&small, &[&"--rules", &one, &"--rules", &same, &"--rules", &one]);
    assert_eq!(names(&both), ["mine"]);
    let file = small.events();
    let (text, error) = ends(2, &[&"replay", &file, &"--rules", &one, &"--rules", &other]);
    let message =
        format!("two different sets of rules have the name mine: {} and {}\n", one.display(), other.display());
    assert!(text.is_empty() && error.contains(&message), "{error}");
}

#[test]
fn errors_of_a_rule_file_are_reported_first() {
    let small = Small::new();
    let write = |name: &str, bytes: &[u8]| fs::write(small.at(name), bytes).unwrap();
    write("key.toml", b"base = 'linux-5.18'\n\n  prev_high_ordr = true\n");
    write("latin.toml", b"# one\nname = 'caf\xe9'\n");
    write("large.toml", &vec![b'#'; (1 << 17) + 1]);
    write("torn.toml", b"batch = \n");
    fs::create_dir(small.at("folder.toml")).unwrap();
    for (exit, name, message) in [
        (
            2,
            "key.toml",
            ":3:3: prev_high_ordr = true: unknown rule `prev_high_ordr`; the closest are prev_high_order, ",
        ),
        (2, "latin.toml", ":2:12: the text is not UTF-8"),
        (2, "large.toml", ": the file is too large; allowed: 131072 bytes"),
        (2, "torn.toml", ":1:"),
        (5, "folder.toml", ": Is a directory"),
        (5, "none.toml", ": No such file or directory"),
    ] {
        // The recording does not exist either, but it is not opened.
        let (text, error) = ends(exit, &[&"replay", &small.at("none.events"), &"--rules", &small.at(name)]);
        let start = format!("error: {}{message}", small.at(name).display());
        assert!(text.is_empty() && error.starts_with(&start), "{error}");
    }
}

#[test]
fn all_presets_are_compared() {
    let small = Small::new();
    let rows = rows(&small, &[&"--rules", &"all"]);
    assert_eq!(names(&rows), PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>());
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    let number = |name: &str, field: &str| row(name)[field].as_u64().unwrap();
    for name in names(&rows) {
        assert_eq!(number(name, "operations"), number("linux-6.18", "operations"), "{name}");
        assert_eq!(number(name, "failed"), 0, "{name}");
        assert!(number(name, "refills") > 0 && number(name, "zone_lock_acquisitions") > 0, "{name}");
    }
    // Before 5.14 all refills are whole batches of single pages.
    for (name, batch) in [("linux-4.16", 31), ("linux-4.17", 31), ("linux-4.19", 63), ("linux-5.10", 63)] {
        assert_eq!(number(name, "refill_pages"), batch * number(name, "refills"), "{name}");
    }
    // The same rules under two names.
    let mut other_name = row("linux-6.16").clone();
    other_name["name"] = "linux-6.18".into();
    assert_eq!(&other_name, row("linux-6.18"));
    // The purpose of each rule, on a stream of blocks of orders 0 to 3.
    assert!(number("linux-5.14", "zone_lock_acquisitions") < number("linux-4.19", "zone_lock_acquisitions"));
    assert!(number("linux-5.18", "drains") > 10 * number("linux-5.14", "drains"));
    assert!(number("linux-6.16", "drains") < number("linux-6.15", "drains") / 10);
    assert!(number("linux-6.19", "zone_lock_acquisitions") > number("linux-6.18", "zone_lock_acquisitions"));
}

#[test]
fn the_list_has_files_after_the_presets() {
    let small = Small::new();
    let (plain, near) = (small.at("plain.toml"), small.at("near.toml"));
    fs::write(&plain, "").unwrap();
    fs::write(&near, "base = 'series-8'\nname = 'near'\nabout = 'almost 6.7'\nfree_count = true\nhigh_fraction = 8")
        .unwrap();
    let (text, _) = ends(0, &[&"replay", &"--list-rules", &"--rules", &plain, &"--rules", &near]);
    let (presets, _) = ends(0, &[&"replay", &"--list-rules"]);
    for list in [&text, &presets] {
        assert!(list.lines().all(|line| line.chars().count() <= 120 && line.trim_end() == line), "{list}");
    }
    let words = |name: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.split("  ").filter(|word| !word.is_empty()).map(|word| word.trim().to_owned()).collect()
    };
    assert_eq!(words("near ")[2..], ["linux-6.7", "high_fraction=8"]);
    assert_eq!(words("plain ")[2..], ["pageset", "nothing"]);
    assert!(!presets.contains("plain"));
    for preset in PRESETS {
        assert!(presets.contains(&format!("\n {} ", preset.name)), "{}", preset.name);
    }
    ends(2, &[&"replay", &"--list-rules", &"--set", &"batch=1"]);
    ends(2, &[&"replay", &"--list-rules", &small.events()]);
}

#[test]
fn a_rule_can_set_an_unrecorded_cache() {
    let small = Small::new();
    let told = |arguments: &[&str]| {
        let file = small.events();
        let mut all: Vec<&dyn AsRef<Path>> = vec![&"replay", &file, &"--rules", &"linux-6.7,kernel", &"--json"];
        all.extend(arguments.iter().map(|argument| argument as &dyn AsRef<Path>));
        json(&ends(0, &all).0)
    };
    let warned = |json: &Value| {
        let warnings = json["warnings"].as_array().unwrap().iter().map(|warning| warning["text"].as_str().unwrap());
        warnings.filter(|warning| warning.contains("--set cache_slice_pages=N")).count()
    };
    let drains = |json: &Value| json["rules"][0]["drains"].as_u64().unwrap();
    let unknown = told(&[]);
    assert_eq!((warned(&unknown), &unknown["rules"][0]["cache_slice_pages"]), (1, &Value::Null));
    // A share of three batches counts as small; a larger share lets a batch stay. A share set by the user gives no
    // warning.
    let small_share = told(&["--set", "cache_slice_pages=189"]);
    assert_eq!((warned(&small_share), drains(&small_share)), (0, drains(&unknown)));
    let large_share = told(&["--set", "cache_slice_pages=190"]);
    assert!(drains(&large_share) < drains(&unknown) / 2, "{} of {}", drains(&large_share), drains(&unknown));
    // With the cache set, the kernel's rules are still the kernel's, and the control replay uses the same cache.
    let rows = large_share["rules"].as_array().unwrap();
    let name = |name: &str| format!("{name} cache_slice_pages=190");
    assert_eq!(names(rows), [name("linux-6.7"), name("linux-6.18"), name("linux-6.18")]);
    for (row, is_kernel) in rows.iter().zip([false, true, true]) {
        assert_eq!((&row["cache_slice_pages"], &row["is_kernel"]), (&190.into(), &is_kernel.into()));
    }
    // A share in a rule file belongs to that set only, so the control's share is still unknown.
    let path = small.at("cached.toml");
    fs::write(&path, "base = 'linux-6.7'\ncache_slice_pages = 190").unwrap();
    let file = small.events();
    let by_file = json(&ends(0, &[&"replay", &file, &"--rules", &path, &"--json"]).0);
    assert_eq!((warned(&by_file), drains(&by_file)), (1, drains(&large_share)));
    // No warning asks for a cache that no rule uses.
    let (text, _) = ends(0, &[&"replay", &file, &"--rules", &"linux-4.19", &"--level", &"input"]);
    assert!(!text.contains("cache sizes"), "{text}");
}

#[test]
fn another_cache_is_another_machine() {
    let file = trace("cargo-build.pstrace");
    let rules = "kernel";
    let arguments: &[&dyn AsRef<Path>] = &[&"replay", &file, &"--rules", &rules, &"--level", &"input", &"--json"];
    let with = |set: &[&dyn AsRef<Path>]| json(&ends(0, &[arguments, set].concat()).0);
    let recorded = with(&[]);
    let cache = &recorded["trace"]["facts"]["caches"][0];
    let slice = cache["bytes"].as_u64().unwrap() / cache["sharers"].as_u64().unwrap() / 4096;
    assert_eq!(
        (&recorded["rules"][0]["cache_slice_pages"], &recorded["rules"][0]["is_kernel"]),
        (&slice.into(), &true.into())
    );
    assert!(
        recorded["warnings"].as_array().unwrap().iter().all(|w| !w["text"].as_str().unwrap().contains("cache sizes"))
    );
    for (pages, is_kernel) in [(slice, true), (slice + 1, false)] {
        let changed = with(&[&"--set", &format!("cache_slice_pages={pages}")]);
        assert_eq!(
            (&changed["rules"][0]["cache_slice_pages"], &changed["rules"][0]["is_kernel"]),
            (&pages.into(), &is_kernel.into())
        );
    }
}
