//! Passes the linker script to the linker, and finds the source of Asterinas' tests in cargo's cache.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The file with the tests that need nothing but the trait, in the crate of that version.
const TESTS: &str = "osdk-frame-allocator-0.19.0/src/test.rs";

fn main() {
    let folder = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo:rustc-link-arg-bins=-T{folder}/link.ld");
    println!("cargo:rerun-if-changed=link.ld");
    println!("cargo:rerun-if-changed=build.rs");

    let cargo = env::var("CARGO").expect("cargo sets it");
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--filter-platform",
            "x86_64-unknown-none",
            "--format-version",
            "1",
            "--all-features",
            "--locked",
        ])
        .current_dir(&folder)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata fails: {}", String::from_utf8_lossy(&output.stderr));
    let metadata = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let manifest = TESTS.replace("src/test.rs", "Cargo.toml");
    let end = metadata.find(&manifest).unwrap_or_else(|| panic!("cargo metadata names no {manifest}"));
    let start = metadata[..end].rfind('"').expect("a path is a string") + 1;
    let path = format!("{}{TESTS}", &metadata[start..end]);
    assert!(Path::new(&path).exists(), "there is no {path}");
    let module = format!("#[path = {path:?}]\nmod test;\n");
    let out = env::var("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("asterinas_tests.rs"), module).expect("the folder can be written");
}
