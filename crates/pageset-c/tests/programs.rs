//! C and C++ programs built with the compilers of this machine, against the shared and the static library, and run.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where cargo puts the libraries of this build: the folder above that of this test.
fn libraries() -> PathBuf {
    let exe = env::current_exe().expect("this test");
    exe.parent().expect("deps").to_owned()
}

fn run(command: &mut Command) -> Output {
    let out = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(out.status.success(), "{command:?}: {}\n{}{}", out.status, text(&out.stdout), text(&out.stderr));
    out
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success())
}

/// The library by this ending in the folder of this build's dependencies.
fn library(ending: &str) -> PathBuf {
    let found = libraries().join(format!("libpageset_c.{ending}"));
    assert!(found.exists(), "{} was not built", found.display());
    found
}

struct Build<'b> {
    compiler: &'b str,
    source: &'b str,
    ending: &'b str,
    flags: &'b [&'b str],
}

/// Builds a program and returns what is to be run.
fn build(folder: &Path, how: &Build<'_>) -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join("program");
    let library = library(how.ending);
    let mut command = Command::new(how.compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-g"]).args(how.flags);
    command.arg("-I").arg(crate_folder.join("include")).arg(crate_folder.join(how.source));
    command.arg("-o").arg(&program).arg(&library).args(["-lpthread", "-ldl", "-lm"]);
    command.arg(format!("-Wl,-rpath,{}", library.parent().expect("a folder").display()));
    run(&mut command);
    program
}

fn output(how: &Build<'_>) -> Option<String> {
    if !is_there(how.compiler) {
        println!("SKIPPED {}: no {}", how.source, how.compiler);
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path(), how);
    Some(String::from_utf8_lossy(&run(&mut Command::new(program)).stdout).into_owned())
}

const STRICT_C: &[&str] = &["-std=c11", "-D_POSIX_C_SOURCE=200809L"];

#[test]
fn the_c_example_with_both_libraries() {
    for ending in ["so", "a"] {
        let how = Build { compiler: "cc", source: "examples/buffers.c", ending, flags: STRICT_C };
        let Some(text) = output(&how) else { return };
        assert_eq!(
            text, "order 2 and 300 pages: 1245184 bytes in use\n0 bytes in use, some went back to the system\n",
            "{ending}"
        );
    }
}

#[test]
fn the_cpp_example_with_both_libraries() {
    for ending in ["so", "a"] {
        let how = Build { compiler: "c++", source: "examples/buffers.cpp", ending, flags: &["-std=c++17"] };
        let Some(text) = output(&how) else { return };
        assert!(text.starts_with("0 bytes in use\na pool of 0 bytes cannot be had; allowed: 1 to "), "{text}");
    }
}

/// What `install.sh` installs, found by pkg-config.
#[test]
fn an_installed_library_is_found_by_pkg_config() {
    if !is_there("pkg-config") || !is_there("cc") {
        return println!("SKIPPED an_installed_library_is_found_by_pkg_config: no pkg-config, or no cc");
    }
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path();
    for name in ["lib/pkgconfig", "include"] {
        fs::create_dir_all(prefix.join(name)).expect("a folder");
    }
    fs::copy(library("so"), prefix.join("lib/libpageset_c.so")).expect("a copy");
    fs::copy(crate_folder.join("include/pageset.h"), prefix.join("include/pageset.h")).expect("a copy");
    let file = fs::read_to_string(crate_folder.join("pageset.pc.in")).expect("pageset.pc.in");
    let file = file.replace("@prefix@", &prefix.display().to_string()).replace("@version@", env!("CARGO_PKG_VERSION"));
    fs::write(prefix.join("lib/pkgconfig/pageset.pc"), file).expect("a file");
    let ask = |what: &[&str]| {
        let mut command = Command::new("pkg-config");
        let out = run(command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(what).arg("pageset"));
        String::from_utf8_lossy(&out.stdout).trim().to_owned()
    };
    assert_eq!(ask(&["--modversion"]), env!("CARGO_PKG_VERSION"));
    let flags = ask(&["--cflags", "--libs"]);
    let program = prefix.join("program");
    let mut command = Command::new("cc");
    command.arg(crate_folder.join("examples/buffers.c")).args(flags.split_whitespace()).arg("-o").arg(&program);
    run(&mut command);
    let out = run(Command::new(program).env("LD_LIBRARY_PATH", prefix.join("lib")));
    assert!(String::from_utf8_lossy(&out.stdout).starts_with("order 2 and 300 pages"), "{out:?}");
}

#[test]
fn bad_use_from_c_is_refused() {
    let how = Build { compiler: "cc", source: "tests/bad_use.c", ending: "so", flags: STRICT_C };
    let Some(text) = output(&how) else { return };
    assert_eq!(text, "all refused as documented\n");
}

#[test]
fn bad_use_from_c_under_address_sanitizer() {
    let flags = [STRICT_C, &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]].concat();
    let how = Build { compiler: "cc", source: "tests/bad_use.c", ending: "a", flags: &flags };
    let Some(text) = output(&how) else { return };
    assert_eq!(text, "all refused as documented\n");
}

#[test]
fn bad_use_and_the_example_under_valgrind() {
    if !is_there("valgrind") || !is_there("cc") {
        return println!("SKIPPED bad_use_and_the_example_under_valgrind: no valgrind, or no cc");
    }
    for source in ["tests/bad_use.c", "examples/buffers.c"] {
        let folder = tempfile::tempdir().expect("a folder");
        let program = build(folder.path(), &Build { compiler: "cc", source, ending: "so", flags: STRICT_C });
        let mut command = Command::new("valgrind");
        command.args(["--error-exitcode=3", "--quiet", "--leak-check=full"]).arg(program);
        run(&mut command);
    }
}
