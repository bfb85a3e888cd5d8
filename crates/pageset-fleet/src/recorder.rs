//! One recording of a machine whose verdict only a recording can decide, if the operator allows it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pageset_report::error::{Exit, Failure};
use pageset_trace::verdict::machine::Finding;

/// The name of the recording in the operator's folder. A later recording replaces it, so that the folder does not grow.
const FILE: &str = "pageset-agent.pstrace";

/// The length of a recording, as `pageset record` takes it.
const LENGTH: &str = "5s";

/// Whether a path can be a part of a command that a person follows, without quotes.
pub(crate) fn is_plain(path: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    path.starts_with('/') && path.chars().all(is_allowed)
}

/// Makes recordings in a process of their own.
#[derive(Debug)]
pub struct Recorder {
    program: PathBuf,
    file: String,
    max_bytes: u64,
    every: Duration,
    begun: Option<Instant>,
    running: Option<Child>,
    /// Whether the last one failed: an older file is not of this verdict.
    has_failed: bool,
}

impl Recorder {
    /// Recordings in `folder` by `program`, which is `pageset`: of at most `max_bytes` before compression, and one in `every`.
    ///
    /// # Errors
    /// `folder` is no folder, others than this process's user may write to it, or its name has characters that a command would need
    /// quotes for: who can write there could lead the recording to another file.
    pub fn new(program: &Path, folder: &Path, max_bytes: u64, every: Duration) -> Result<Recorder, Failure> {
        let name = folder.display();
        let failed = |why: &str| Failure::new(Exit::Usage, format!("cannot record to {name}: {why}"));
        let whole = fs::canonicalize(folder).map_err(|error| failed(&error.to_string()))?;
        if !whole.is_dir() {
            return Err(failed("it is no folder").help("name a folder"));
        }
        let (found, this) = (whole.metadata(), fs::metadata("/proc/self"));
        let is_ours = |found: fs::Metadata, this: fs::Metadata| found.uid() == this.uid() && found.mode() & 0o022 == 0;
        if !found.and_then(|found| Ok(is_ours(found, this?))).map_err(|error| failed(&error.to_string()))? {
            let help = "name a folder that belongs to the agent's user, and to which nobody else may write";
            return Err(failed("others may write to it").help(help));
        }
        let file = whole.join(FILE);
        if fs::symlink_metadata(&file).is_ok_and(|found| !found.is_file()) {
            return Err(failed(&format!("{FILE} in it is no plain file")).help("remove it"));
        }
        let Some(file) = file.to_str().filter(|file| is_plain(file)) else {
            return Err(failed("its name is unusual").help("allowed: letters, digits, and / . _ -"));
        };
        let (program, file) = (program.to_owned(), file.to_owned());
        Ok(Recorder { program, file, max_bytes, every, begun: None, running: None, has_failed: false })
    }

    /// The recording for a verdict that needs one. Begins one if there is none. `failed` hears why one could not be made.
    pub fn of(&mut self, finding: &Finding, failed: &mut dyn FnMut(String)) -> Option<String> {
        self.end().unwrap_or_else(&mut *failed);
        if !finding.needs_recording() {
            return None;
        }
        if let Err(error) = self.begin() {
            failed(error.to_string());
        }
        self.file().map(str::to_owned)
    }

    /// Begins a recording, unless one is running or not old enough. Returns whether it did.
    ///
    /// # Errors
    /// The program cannot be run. It counts as a recording.
    pub fn begin(&mut self) -> io::Result<bool> {
        if self.running.is_some() || self.is_recent() {
            return Ok(false);
        }
        self.begun = Some(Instant::now());
        self.has_failed = true;
        let mut command = Command::new(&self.program);
        command.args(["record", "--duration", LENGTH, "--max-size", &self.max_bytes.to_string(), "-o", &self.file]);
        self.running = Some(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?);
        Ok(true)
    }

    /// Takes the end of a recording that has ended since the last call.
    ///
    /// # Errors
    /// Why there is no recording.
    pub fn end(&mut self) -> Result<(), String> {
        let has_ended = self.running.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)));
        let Some(child) = self.running.take_if(|_| has_ended) else { return Ok(()) };
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr);
        self.has_failed = !output.status.success();
        match self.has_failed {
            false => Ok(()),
            true => Err(said
                .lines()
                .find(|line| line.starts_with("error: "))
                .map_or_else(|| output.status.to_string(), |line| line.trim_start_matches("error: ").to_owned())),
        }
    }

    /// The latest recording; `None` if there is none of the time in which one is made, the last one failed, or another one is being made.
    pub fn file(&self) -> Option<&str> {
        let is_whole = self.running.is_none() && !self.has_failed && self.is_recent();
        (is_whole && Path::new(&self.file).is_file()).then_some(&self.file)
    }

    /// Whether one was begun in the time in which one is made. The file's time holds over a restart of the agent; it is by a clock that
    /// may jump, and a file of the future says nothing.
    fn is_recent(&self) -> bool {
        let age = fs::metadata(&self.file).and_then(|found| found.modified()).ok().and_then(|at| at.elapsed().ok());
        [age, self.begun.map(|at| at.elapsed())].into_iter().flatten().any(|age| age < self.every)
    }
}
