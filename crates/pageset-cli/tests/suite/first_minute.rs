//! What a user sees first: `pageset` without arguments, `pageset demo`, and the version.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{command, ends, json};
use serde_json::Value;

/// A command that must succeed in this folder; its standard output.
fn runs_in(folder: &Path, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let words: Vec<&dyn AsRef<Path>> = words.iter().map(|word| word as &dyn AsRef<Path>).collect();
    let output = command(&words).current_dir(folder).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), error.as_str()), (Some(0), ""), "{line}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn without_arguments_the_command_says_what_works_here() {
    let folder = tempfile::tempdir().unwrap();
    let text = runs_in(folder.path(), "");
    assert!(text.starts_with("pageset ") && text.contains("this folder has no recording"), "{text}");
    let status = json(&runs_in(folder.path(), "--json"));
    let schema = json(&ends(0, &[&"explain", &"--schema", &"status"]).0);
    let schema = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = schema.iter_errors(&status).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    // Each ability has a command; one that does not work has a reason.
    for ability in status["abilities"].as_array().unwrap() {
        let command = ability["command"].as_str().unwrap();
        assert!(command.trim_start_matches("sudo ").starts_with("pageset"), "{command}");
        assert!(ability["works"] == true || !ability["note"].as_str().unwrap().is_empty(), "{ability}");
        assert!(text.contains(command), "{command} is not in\n{text}");
    }
    runs_in(folder.path(), "--json=status.json");
    let saved = json(&fs::read_to_string(folder.path().join("status.json")).unwrap());
    assert_eq!(saved["schema"], status["schema"]);
}

/// The tour needs no root and nothing of this machine. Every command that it shows can be repeated, and prints what the
/// tour printed.
#[test]
fn the_demo_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let tour = runs_in(folder.path(), "demo");
    assert_eq!(tour, runs_in(folder.path(), "demo"), "a second tour");
    let lines: Vec<&str> = tour.lines().filter_map(|line| line.strip_prefix("$ pageset ")).collect();
    assert_eq!(lines.len(), 3, "{tour}");
    for line in lines {
        let printed = runs_in(folder.path(), line);
        assert!(tour.contains(&printed), "{line} prints\n{printed}");
    }
    let page = fs::read_to_string(folder.path().join("pageset-demo/demo.html")).unwrap();
    assert!(page.contains("<svg"), "the report has charts");
    // The recording is now the latest one here.
    let there = folder.path().join("pageset-demo");
    assert!(runs_in(&there, "").contains("pageset advise demo.pstrace"));
    let (_, error) = ends(6, &[&"demo", &"-o", &"/dev/null/demo"]);
    assert!(error.contains("cannot make the folder /dev/null/demo") && error.contains("help: "), "{error}");
}

/// What the build script prints as the version, in a folder with this file or without.
fn version_of(file: Option<&str>) -> String {
    let folder = tempfile::tempdir().unwrap();
    if let Some(text) = file {
        fs::write(folder.path().join(".cargo_vcs_info.json"), text).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pageset-report/build.rs");
    let program = folder.path().join("build");
    let built = Command::new("rustc").args(["--edition", "2024", "-o"]).arg(&program).arg(&script).status().unwrap();
    assert!(built.success());
    let mut command = Command::new(&program);
    command.current_dir(folder.path()).env_remove("PAGESET_COMMIT").env("CARGO_PKG_VERSION", "1.2.3");
    // Folders above have no repository either.
    command.env("GIT_CEILING_DIRECTORIES", "/");
    let output = command.output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("cargo::rustc-env=PAGESET_VERSION="));
    line.unwrap().to_owned()
}

#[test]
fn the_version_names_the_commit_if_there_is_one() {
    let (version, _) = ends(0, &[&"--version"]);
    let head = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    match head {
        Ok(head) if head.status.success() => {
            let head = String::from_utf8(head.stdout).unwrap();
            assert_eq!(version, format!("pageset {} ({})\n", env!("CARGO_PKG_VERSION"), &head[..10]));
        }
        _ => println!("SKIPPED the_version_names_the_commit_if_there_is_one: no git, or no repository"),
    }
    // A source archive, and a package of cargo.
    assert_eq!(version_of(None), "1.2.3");
    let commit = "0123456789abcdef0123456789abcdef01234567";
    assert_eq!(version_of(Some(&format!("{{\"git\": {{\"sha1\": \"{commit}\"}}}}"))), "1.2.3 (0123456789)");
    assert_eq!(version_of(Some("{\"git\": {\"sha1\": \"no commit\"}}")), "1.2.3");
}

/// A member of the JSON that `pageset explain` does not know would be a riddle.
#[test]
fn every_member_of_the_status_is_explained() {
    let status: Value = json(&ends(0, &[&"--json"]).0);
    let ability = status["abilities"][0].as_object().unwrap();
    for member in status.as_object().unwrap().keys().chain(ability.keys()) {
        if member != "schema" {
            ends(0, &[&"explain", member]);
        }
    }
}
