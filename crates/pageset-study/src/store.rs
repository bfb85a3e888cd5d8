//! The folder of results: one file per finished cell.
//!
//! | path | contents |
//! | --- | --- |
//! | `cells/AB/ADDRESS.jsonl` | a finished cell in three lines: description, outcome, checksum. `AB`: the first two digits of the address |
//! | `cells/AB/ADDRESS.failed` | the message of a failed cell |
//! | `tmp` | files being written |
//!
//! A file gets its name when it is complete and on disk, so a kill loses at most the cell being written. Two workers
//! with the same cell write the same outcome; the later one replaces the file of the earlier one.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cell::{address, sha256};
use crate::error::StoreError;

/// The age from which a temporary file is garbage. A write takes milliseconds.
const STALE: Duration = Duration::from_secs(3600);

/// A folder of results.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The results in `folder`.
    #[must_use]
    pub fn new(folder: &Path) -> Store {
        Store { folder: folder.to_owned() }
    }

    /// Creates the folder and checks that files can be written there. Removes what killed workers left.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn prepare(&self) -> Result<(), StoreError> {
        let tmp = self.tmp();
        fs::create_dir_all(&tmp).map_err(StoreError::io("create", &tmp))?;
        // Another worker may remove the same files.
        for entry in fs::read_dir(&tmp).into_iter().flatten().flatten() {
            let age = entry.metadata().ok().and_then(|found| found.modified().ok()?.elapsed().ok());
            if age.is_some_and(|age| age > STALE) {
                let _ = fs::remove_file(entry.path());
            }
        }
        let probe = tempfile::NamedTempFile::new_in(&tmp).map_err(StoreError::io("write in", &tmp))?;
        // A full disk may still create empty files.
        probe.as_file().write_all(&[0]).map_err(StoreError::io("write in", &tmp))
    }

    fn tmp(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    /// The path of a cell's file.
    fn path(&self, description: &str, extension: &str) -> PathBuf {
        let address = address(description);
        self.folder.join("cells").join(&address[..2]).join(address).with_extension(extension)
    }

    /// The outcome of the cell with this description; `None` if it is not finished.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn load(&self, description: &str) -> Result<Option<Value>, StoreError> {
        let path = self.path(description, "jsonl");
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(StoreError::io("read", &path))?,
        };
        let damaged = |what: &str| StoreError::damaged(&path, format!("damaged: {what}"));
        let text = str::from_utf8(&text).map_err(|_| damaged("not UTF-8"))?;
        let sum = text.lines().nth(2).and_then(|sum| serde_json::from_str::<Value>(sum).ok());
        let sum = sum.as_ref().and_then(|sum| sum["sha256"].as_str()).ok_or_else(|| damaged("no checksum"))?;
        let end = text.match_indices('\n').nth(1).map_or(text.len(), |(at, _)| at + 1);
        if sum != sha256(&text.as_bytes()[..end]) {
            return Err(damaged("the checksum differs"));
        }
        let mut lines = text.lines();
        if lines.next() != Some(description) {
            return Err(damaged("the file describes another cell"));
        }
        let outcome = serde_json::from_str(lines.next().unwrap_or_default());
        outcome.map(Some).map_err(|error| damaged(&error.to_string()))
    }

    /// Stores the outcome of a cell. On return it is on disk.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, description: &str, outcome: &Value) -> Result<(), StoreError> {
        let mut text = format!("{description}\n{outcome}\n");
        let sum = json!({ "sha256": sha256(text.as_bytes()) });
        text.push_str(&format!("{sum}\n"));
        self.write(&self.path(description, "jsonl"), &text)?;
        // An earlier try may have failed.
        let _ = fs::remove_file(self.path(description, "failed"));
        Ok(())
    }

    /// Stores why a cell failed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save_failure(&self, description: &str, message: &str) -> Result<(), StoreError> {
        self.write(&self.path(description, "failed"), message)
    }

    /// Why a cell failed, if it has.
    #[must_use]
    pub fn failure(&self, description: &str) -> Option<String> {
        fs::read_to_string(self.path(description, "failed")).ok()
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), StoreError> {
        let cannot = || StoreError::io("write", path);
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).map_err(cannot())?;
        let mut builder = tempfile::Builder::new();
        // The usual mode of an output file: rw-rw-rw- reduced by the umask.
        builder.permissions(Permissions::from_mode(0o666));
        let mut file = builder.tempfile_in(self.tmp()).map_err(cannot())?;
        file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(cannot())?;
        file.persist(path).map_err(|error| cannot()(error.error))?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(cannot())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_read_as_written_and_damage_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        store.prepare().unwrap();
        let (cell, outcome) = ("{\"seed\":1}", json!({ "score": 0.1, "operations": u64::MAX }));
        assert_eq!(store.load(cell).unwrap(), None);
        store.save_failure(cell, "too few").unwrap();
        assert_eq!(store.failure(cell).as_deref(), Some("too few"));
        store.save(cell, &outcome).unwrap();
        assert_eq!((store.load(cell).unwrap(), store.failure(cell)), (Some(outcome), None));
        assert_eq!(fs::read_dir(folder.path().join("tmp")).unwrap().count(), 0);

        let path = store.path(cell, "jsonl");
        let whole = fs::read_to_string(&path).unwrap();
        for (from, to, what) in [
            ("0.1", "0.2", "the checksum differs"),
            ("seed", "sEed", "the checksum differs"),
            ("sha256", "sha255", "no checksum"),
        ] {
            fs::write(&path, whole.replacen(from, to, 1)).unwrap();
            let error = store.load(cell).unwrap_err().to_string();
            assert_eq!(error, format!("{}: damaged: {what}", path.display()));
        }
        for length in 0..whole.len() - 1 {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(store.load(cell).is_err(), "{length} bytes");
        }
        let other = whole.replacen("1}", "2}", 1);
        let end = other.match_indices('\n').nth(1).unwrap().0 + 1;
        fs::write(&path, format!("{}{}\n", &other[..end], json!({ "sha256": sha256(&other.as_bytes()[..end]) })))
            .unwrap();
        assert!(store.load(cell).unwrap_err().to_string().ends_with("describes another cell"));
    }
}
