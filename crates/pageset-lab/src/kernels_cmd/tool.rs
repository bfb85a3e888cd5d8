//! Commands of the host.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
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

/// Removes a folder in which a root file system was built; a missing one is no error. A build that was killed may have left mounts of the
/// machine's own `/dev` or `/proc` below it, and removing goes through mounts.
///
/// # Errors
/// If something is mounted at or below the folder: nothing is removed then. If a file cannot be removed.
pub(super) fn remove_tree(path: &Path) -> Result<(), String> {
    let whole = match std::fs::canonicalize(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => at(path, found)?,
    };
    let table = Path::new("/proc/self/mountinfo");
    if let Some(mount) = mounted_below(&whole, &at(table, std::fs::read(table))?) {
        let (path, mount) = (path.display(), mount.display());
        return Err(format!("cannot remove {path}: {mount} is mounted; try as root: umount --recursive '{mount}'"));
    }
    at(path, std::fs::remove_dir_all(path))
}

/// The first mount point at or below `path` in the lines of `/proc/PID/mountinfo`. `path` is absolute, without links.
fn mounted_below(path: &Path, mountinfo: &[u8]) -> Option<PathBuf> {
    let points = mountinfo.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    points.map(|point| PathBuf::from(unescaped(point))).find(|point| point.starts_with(path))
}

/// A path of mountinfo, in which three octal digits after a backslash are a byte.
fn unescaped(text: &[u8]) -> OsString {
    let digit = |byte: &u8| matches!(byte, b'0'..=b'7').then(|| u32::from(byte - b'0'));
    let mut bytes = Vec::new();
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let octal = if *first == b'\\' { after.get(..3) } else { None };
        let code = octal.and_then(|digits| digits.iter().try_fold(0, |code, byte| Some(8 * code + digit(byte)?)));
        let byte = code.and_then(|code| u8::try_from(code).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn mounts_below_a_folder() {
        let mountinfo = b"21 1 0:19 / /proc rw - proc proc rw\n\
            22 1 0:20 / /lab/root-2/dev rw - tmpfs none rw\n\
            23 1 0:21 / /lab/ro\\040ot/dev/shm rw shared:3 - tmpfs none rw\n\
            24 1 0:22 / /lab/a\\134b rw - tmpfs none rw\n";
        for (path, expected) in [
            ("/lab/root", None),
            ("/lab/root-2", Some("/lab/root-2/dev")),
            ("/lab/ro ot", Some("/lab/ro ot/dev/shm")),
            ("/lab/ro ot/dev/shm", Some("/lab/ro ot/dev/shm")),
            ("/lab/a\\b", Some("/lab/a\\b")),
            ("/lab/a", None),
        ] {
            assert_eq!(mounted_below(Path::new(path), mountinfo).as_deref(), expected.map(Path::new), "{path}");
        }
    }

    /// Unmounts at the end of a test, before the folder around it is removed.
    struct Mounted(PathBuf);

    impl Drop for Mounted {
        fn drop(&mut self) {
            let _ = run("umount", [&self.0]);
        }
    }

    /// A build that was killed leaves mounts; the next one removes what is left of it.
    #[test]
    fn nothing_is_removed_through_a_mount() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, shm) = (dir.path().join("root"), dir.path().join("root/dev/shm"));
        assert_eq!(remove_tree(&tree), Ok(()));
        fs::create_dir_all(&shm).unwrap();
        if let Err(reason) = run("mount", ["-t", "tmpfs", "none", &shm.to_string_lossy()]) {
            println!("SKIPPED nothing_is_removed_through_a_mount: {reason}");
            return;
        }
        let mounted = Mounted(shm.clone());
        fs::write(shm.join("of the machine"), "kept").unwrap();
        fs::write(tree.join("built"), "kept").unwrap();
        let error = remove_tree(&tree).unwrap_err();
        assert!(error.starts_with("cannot remove ") && error.contains("dev/shm is mounted; try as root: "), "{error}");
        // A link to the folder is the folder.
        std::os::unix::fs::symlink(&tree, dir.path().join("link")).unwrap();
        assert!(remove_tree(&dir.path().join("link/dev")).is_err());
        assert_eq!(fs::read_to_string(shm.join("of the machine")).unwrap(), "kept");
        assert_eq!(fs::read_to_string(tree.join("built")).unwrap(), "kept");
        drop(mounted);
        assert_eq!(remove_tree(&tree), Ok(()));
        assert!(!tree.exists());
    }
}
