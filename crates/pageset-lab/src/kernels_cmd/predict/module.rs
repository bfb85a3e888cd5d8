//! `pageset_settings.ko`, built for a kernel of the lab.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::initramfs::repository;
use super::super::tool::{at, run, write_whole};

/// Builds the module in a root file system that has the kernel's headers.
pub(super) fn build(root: &Path, headers: &str) -> Result<PathBuf, String> {
    let folder = root.join("module");
    at(&folder, fs::create_dir_all(&folder))?;
    let source = repository().join("linux/module/settings.c");
    write_whole(&folder.join("pageset_settings.c"), at(&source, fs::read(&source))?)?;
    write_whole(&folder.join("Kbuild"), "obj-m := pageset_settings.o\n")?;
    // Tools of the build read /proc. The mount is in a namespace of its own, and ends with make.
    let mut make = Command::new("unshare");
    make.args(["--mount", "--pid", "--fork", "--mount-proc", "--root"]).arg(root);
    make.args(["make", "-s", "modules", "-C", headers, "M=/module"]).stdin(Stdio::null());
    let made = make.output().map_err(|error| format!("cannot run `unshare`: {error}"))?;
    if !made.status.success() {
        let said = String::from_utf8_lossy(&made.stderr);
        return Err(format!("the module does not build: {}", first_error(&said)));
    }
    let built = folder.join("pageset_settings.ko");
    run("strip", ["--strip-debug", &built.to_string_lossy()])?;
    Ok(built)
}

/// The line of make's errors that tells the cause: the last lines only name what was not made.
fn first_error(said: &str) -> &str {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    lines().find(|line| line.contains("error:")).or_else(|| lines().next()).unwrap_or("it wrote no error")
}

#[cfg(test)]
mod tests {
    use super::first_error;

    #[test]
    fn the_cause_of_a_failed_build() {
        let said = "\nwarning: the compiler differs\nIn file included from x.c:9:\n/module/x.c:1:1: error: unknown type\nmake[1]: *** [x.o] Error 1\n";
        assert_eq!(first_error(said), "/module/x.c:1:1: error: unknown type");
        assert_eq!(first_error("\n"), "it wrote no error");
    }
}
