//! Sets `PAGESET_VERSION`: the version, and the commit if one is known.
//!
//! The commit comes from the variable `PAGESET_COMMIT`, from the file that `cargo package` adds, or from git. A source
//! archive without any of these builds without a commit.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Digits of a commit in the version. git's own default for repositories of this size is 7. A guess: 10 stay unique.
const DIGITS: usize = 10;

/// The file that `cargo package` adds to a package. It contains `"sha1": "COMMIT"`.
const OF_PACKAGE: &str = ".cargo_vcs_info.json";

/// The place of this crate in the repository. A package that is unpacked inside another repository has another place.
const PLACE: &str = "crates/pageset-report/";

fn main() {
    println!("cargo::rerun-if-env-changed=PAGESET_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = env::var("PAGESET_COMMIT").ok().or_else(of_package).or_else(of_git);
    let commit = commit.filter(|commit| is_commit(commit));
    let version = match commit {
        Some(commit) => format!("{version} ({})", &commit[..DIGITS]),
        None => version,
    };
    println!("cargo::rustc-env=PAGESET_VERSION={version}");
}

fn is_commit(text: &str) -> bool {
    text.len() >= DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn of_package() -> Option<String> {
    let text = fs::read_to_string(OF_PACKAGE).ok()?;
    let (_, after) = text.split_once("\"sha1\"")?;
    after.split('"').find(|word| is_commit(word)).map(str::to_owned)
}

fn of_git() -> Option<String> {
    if git(&["rev-parse", "--show-prefix"])? != PLACE {
        return None;
    }
    // A commit, a checkout or a reset adds a line to this log.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "HEAD"])
}

/// The first line of the output of git; `None` without git, or if git fails.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.lines().next()?.to_owned())
}
