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
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cell::{address, sha256};
use crate::error::StoreError;

/// The age from which a temporary file is garbage. A write takes milliseconds.
const STALE: Duration = Duration::from_secs(3600);

/// Tries of an access that fails for a reason that may pass: a file server that does not answer, or a file that another host
/// replaces meanwhile.
const TRIES: u32 = 3;
/// The pause between two tries. A guess.
const PAUSE: Duration = Duration::from_millis(200);

/// Calls `access` again where its error may pass.
fn patiently<T>(mut access: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    use io::ErrorKind::{
        IsADirectory, NotADirectory, NotFound, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    let stays =
        [IsADirectory, NotADirectory, NotFound, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull];
    let mut tries = 1;
    loop {
        match access() {
            Err(error) if tries < TRIES && !stays.contains(&error.kind()) => {
                tries += 1;
                thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}

/// A folder of results.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    build: String,
}

impl Store {
    /// The results in `folder`. `build` names the program that writes there: each cell has it next to its outcome, since the
    /// version in its description does not change with a commit.
    pub fn new(folder: &Path, build: &str) -> Store {
        Store { folder: folder.to_owned(), build: build.to_owned() }
    }

    /// Creates the folder and checks that files can be written there. Removes what killed workers left.
    pub fn prepare(&self) -> Result<(), StoreError> {
        let (tmp, cells) = (self.tmp(), self.folder.join("cells"));
        for folder in [&tmp, &cells] {
            fs::create_dir_all(folder).map_err(StoreError::io("create", folder))?;
        }
        // The names of the folders must be on disk, as those of the files in them. A file system without such a sync needs none.
        let parent =
            self.folder.parent().map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
        for folder in [Some(self.folder.as_path()), parent].into_iter().flatten() {
            let _ = File::open(folder).and_then(|folder| folder.sync_all());
        }
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
    pub fn load(&self, description: &str) -> Result<Option<Value>, StoreError> {
        let path = self.path(description, "jsonl");
        let text = match patiently(|| fs::read(&path)) {
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
    pub fn save(&self, description: &str, outcome: &Value) -> Result<(), StoreError> {
        let mut outcome = outcome.clone();
        outcome["build"] = json!(self.build);
        let mut text = format!("{description}\n{outcome}\n");
        let sum = json!({ "sha256": sha256(text.as_bytes()) });
        text.push_str(&format!("{sum}\n"));
        self.write(&self.path(description, "jsonl"), &text)?;
        // An earlier try may have failed.
        let _ = fs::remove_file(self.path(description, "failed"));
        Ok(())
    }

    /// Stores why a cell failed.
    pub fn save_failure(&self, description: &str, message: &str) -> Result<(), StoreError> {
        self.write(&self.path(description, "failed"), message)
    }

    /// Why a cell failed, if it has.
    pub fn failure(&self, description: &str) -> Option<String> {
        fs::read_to_string(self.path(description, "failed")).ok()
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), StoreError> {
        let folder = path.parent().unwrap_or(&self.folder);
        let sync = |folder: &Path| File::open(folder).and_then(|folder| folder.sync_all());
        patiently(|| {
            if fs::exists(folder).is_ok_and(|exists| !exists) {
                fs::create_dir_all(folder)?;
                sync(&self.folder.join("cells"))?;
            }
            let mut builder = tempfile::Builder::new();
            // The usual mode of an output file: rw-rw-rw- reduced by the umask.
            builder.permissions(Permissions::from_mode(0o666));
            let mut file = builder.tempfile_in(self.tmp())?;
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(path).map_err(|error| error.error)?;
            sync(folder)
        })
        .map_err(StoreError::io("write", path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_may_pass_is_tried_again() {
        let tried = |kinds: &[io::ErrorKind]| {
            let mut tries = kinds.iter();
            let result = patiently(|| tries.next().map_or(Ok(()), |kind| Err((*kind).into())));
            (result.map_err(|error| error.kind()), kinds.len() - tries.len())
        };
        use io::ErrorKind::{NotFound, StaleNetworkFileHandle, StorageFull, TimedOut};
        assert_eq!(tried(&[StaleNetworkFileHandle, TimedOut]), (Ok(()), 2));
        assert_eq!(tried(&[TimedOut; 4]), (Err(TimedOut), 3));
        assert_eq!(tried(&[StorageFull; 4]), (Err(StorageFull), 1));
        assert_eq!(tried(&[NotFound; 4]), (Err(NotFound), 1));
    }

    #[test]
    fn a_cell_is_read_as_written_and_damage_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path(), "test");
        store.prepare().unwrap();
        let (cell, outcome) = ("{\"seed\":1}", json!({ "score": 0.1, "operations": u64::MAX }));
        assert_eq!(store.load(cell).unwrap(), None);
        store.save_failure(cell, "too few").unwrap();
        assert_eq!(store.failure(cell).as_deref(), Some("too few"));
        store.save(cell, &outcome).unwrap();
        let loaded = json!({ "score": 0.1, "operations": u64::MAX, "build": "test" });
        assert_eq!((store.load(cell).unwrap(), store.failure(cell)), (Some(loaded), None));
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
