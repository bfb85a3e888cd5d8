//! Output files that get their name only when they are complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::NamedTempFile;

use crate::csv;
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::printable::printable_lines;

/// The option `--json`, the same in every command.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct JsonOption {
    /// Write JSON instead of text; with =FILE, to FILE in addition
    ///
    /// The JSON is in base units: ns, bytes, pages. `pageset explain --schema NAME` prints the schema of a result.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub json: Option<PathBuf>,
}

impl JsonOption {
    /// The file or `-`; `None` without the option. Call it before long work: see [`check`].
    pub fn path(&self) -> io::Result<Option<&Path>> {
        self.json.as_deref().map(|path| check(path).map(|()| path)).transpose()
    }
}

/// The option `--csv`, the same in every command.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct CsvOption {
    /// Write CSV instead of text; with =FILE, to FILE in addition
    ///
    /// A line for each row of the table. The columns are the members of the JSON that are numbers or words, in the same units.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub csv: Option<PathBuf>,
}

/// The option `--wide`, the same in every command.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct WideOption {
    /// Show all columns, also if they do not fit the terminal
    #[arg(long)]
    pub wide: bool,
}

/// Whether `path` is standard input or output. The device that stands for standard output is: behind it may be a file that another
/// program appends to, and a result replaces a file as a whole.
pub fn is_standard(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path.as_os_str() == *name)
}

/// Writes a result as text to standard output. Lines stay; other characters that act on a terminal are escaped, because names in a
/// recording are not ours.
pub fn print(text: &str) -> io::Result<()> {
    io::stdout().write_all(printable_lines(text).as_bytes())
}

/// Writes a result as indented JSON with a final line break.
pub fn json(mut out: impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, value)?;
    out.write_all(b"\n")
}

/// Checks that [`Output::create`] can open `path`, so that long work does not begin for a file that cannot be written. The
/// file stays unchanged; a pipe or a device is not opened.
pub fn check(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() && !found.is_dir() && !is_standard(path) => {
            rustix::fs::access(path, rustix::fs::Access::WRITE_OK).map_err(|error| unwritten(path, error.into()))
        }
        _ => Output::create(path).map(drop),
    }
}

/// The error for a file that cannot be opened for writing.
fn unwritten(path: &Path, error: io::Error) -> io::Error {
    let text = error.to_string();
    // The name of a temporary file does not help the user.
    let why = text.split_once(" at path \"").map_or(text.as_str(), |(why, _)| why);
    io::Error::new(error.kind(), format!("cannot write {}: {why}", path.display()))
}

/// The destination of a result; `-` is standard output.
pub enum Output {
    /// Standard output.
    Stdout(io::Stdout),
    /// A pipe or a device, written directly.
    Direct(File),
    /// A temporary file in the folder of the final path. It is removed unless it is committed.
    Replace(NamedTempFile, PathBuf),
}

impl Output {
    /// Opens `path`. An existing file stays unchanged until [`Output::commit`].
    pub fn create(path: &Path) -> io::Result<Output> {
        if is_standard(path) {
            return Ok(Output::Stdout(io::stdout()));
        }
        let named = |error| unwritten(path, error);
        match fs::metadata(path) {
            Ok(found) if !found.is_file() => {
                Ok(Output::Direct(OpenOptions::new().write(true).open(path).map_err(named)?))
            }
            _ => {
                // Replace the target of a link, not the link.
                let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
                let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
                let mut builder = tempfile::Builder::new();
                // The usual mode of an output file: rw-rw-rw- reduced by the umask.
                builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
                Ok(Output::Replace(builder.tempfile_in(folder).map_err(named)?, path))
            }
        }
    }

    /// Gives the file its final name.
    pub fn commit(self) -> io::Result<()> {
        match self {
            Output::Stdout(mut out) => out.flush(),
            Output::Direct(_) => Ok(()),
            Output::Replace(file, path) => {
                // A file system may report a full disk only here, and no whole file is replaced by a part of another.
                let synced = file.as_file().sync_all();
                let named = synced.and_then(|()| file.persist(&path).map(drop).map_err(|error| error.error));
                named.map_err(|error| unwritten(&path, error))
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Stdout(out) => out.write(bytes),
            Output::Direct(file) => file.write(bytes),
            Output::Replace(file, path) => file.write(bytes).map_err(|error| unwritten(path, error)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Stdout(out) => out.flush(),
            Output::Direct(file) => file.flush(),
            Output::Replace(file, path) => file.flush().map_err(|error| unwritten(path, error)),
        }
    }
}

/// The requested forms of a result.
pub struct Forms<'o> {
    json: Option<&'o Path>,
    csv: Option<&'o Path>,
}

impl<'o> Forms<'o> {
    /// The forms that the options request. Call it before long work: see [`check`].
    pub fn new(json: &'o JsonOption, csv: &'o CsvOption) -> io::Result<Self> {
        csv.csv.as_deref().map_or(Ok(()), check)?;
        Ok(Forms { json: json.path()?, csv: csv.csv.as_deref() })
    }

    /// Whether there is a form besides text.
    pub fn any(&self) -> bool {
        self.json.or(self.csv).is_some()
    }

    /// Whether text for people goes to standard output: unless another form does.
    pub fn text(&self) -> bool {
        !self.json.into_iter().chain(self.csv).any(is_standard)
    }

    /// Writes the other forms. Ctrl-C during the write ends the command after the files are complete.
    pub fn write<'r, T: Serialize, R: Serialize + 'r>(
        &self,
        results: &[T],
        rows: impl Iterator<Item = csv::Line<'r, R>>,
        interrupt: &Interrupt,
    ) -> Result<Exit, Failure> {
        let mut exit = Exit::Done;
        if let Some(path) = self.json {
            exit = write_json(path, results, interrupt)?;
        }
        if let Some(path) = self.csv {
            let (written, interrupted) = interrupt.held_off(|| -> io::Result<()> {
                let mut out = Output::create(path)?;
                csv::write(&mut out, rows)?;
                out.commit()
            });
            written?;
            exit = if interrupted { Exit::Interrupted } else { exit };
        }
        Ok(exit)
    }
}

/// Writes results as JSON: one result as an object, several as an array. Ctrl-C during the write ends the command after
/// the file is complete.
pub fn write_json<T: Serialize>(path: &Path, results: &[T], interrupt: &Interrupt) -> Result<Exit, Failure> {
    let text = match results {
        [result] => serde_json::to_vec_pretty(result),
        results => serde_json::to_vec_pretty(results),
    };
    let text = text.map_err(io::Error::from)?;
    let (written, interrupted) = interrupt.held_off(|| {
        let mut out = Output::create(path)?;
        out.write_all(&text)?;
        out.write_all(b"\n")?;
        out.commit()
    });
    written?;
    Ok(if interrupted { Exit::Interrupted } else { Exit::Done })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk may fill up during any write: the error names the file that was asked for, not the temporary one.
    #[test]
    fn a_failed_write_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let (_, temporary) = NamedTempFile::new_in(&folder).unwrap().into_parts();
        let read_only = File::open(&temporary).unwrap();
        let mut out = Output::Replace(NamedTempFile::from_parts(read_only, temporary), folder.path().join("page.html"));
        let error = out.write_all(b"x").unwrap_err().to_string();
        let start = format!("cannot write {}/page.html: ", folder.path().display());
        assert!(error.starts_with(&start) && !error.contains("at path"), "{error}");
    }
}
