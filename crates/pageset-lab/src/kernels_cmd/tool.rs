//! Commands of the host.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a command and returns its standard output. If it fails, the error is the last line of its standard error.
pub(super) fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let got = command.stdin(Stdio::null()).output().map_err(|e| format!("cannot run `{name}`: {e}"))?;
    if got.status.success() {
        return Ok(String::from_utf8_lossy(&got.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&got.stderr).into_owned();
    let last = errors.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it wrote no error");
    Err(format!("`{name}` failed: {last}"))
}

pub(super) fn run<S: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = S>) -> Result<String, String> {
    output(Command::new(program).args(arguments))
}

/// Adds the path to an I/O error.
pub(super) fn at<T>(path: &Path, result: std::io::Result<T>) -> Result<T, String> {
    result.map_err(|e| format!("{}: {e}", path.display()))
}

/// Writes a file atomically: it appears only when it is complete.
pub(super) fn write_whole(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), String> {
    let part = path.with_extension("part");
    at(&part, std::fs::write(&part, bytes))?;
    at(path, std::fs::rename(&part, path))
}
