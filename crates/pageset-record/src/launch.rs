//! Starts the recorded command before the recording and holds it until the recording has begun.
//!
//! A fork inside a recording allocates pages without events (`trace-replay.md` 3, a and j). So a small helper process
//! starts before the recording, waits for one byte and then becomes the command. The helper is this same program,
//! called with [`HOLD`]. It opens the two pipes through `/proc/PARENT/fd`, so the command inherits neither.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use signal_hook::consts::SIGTERM;

use crate::error::RecordError;
use crate::removal;
use crate::signals::Signal;

/// The argument that starts the program as a helper; the arguments of [`hold`] follow it.
pub const HOLD: &str = "__hold-command";

/// The time for a command to end after a signal, and again after SIGTERM: the recorder ends within two seconds. A command
/// that needs longer is killed.
pub(super) const GRACE: Duration = Duration::from_millis(700);

/// Runs the helper: reports that it is ready, waits until the recording has begun, and becomes the command.
///
/// `arguments` are those after [`HOLD`]. Returns the exit code, and only if it cannot become the command.
pub fn hold(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let mut arguments = arguments.into_iter().peekable();
    if arguments.next_if(|first| removal::is_asked_for(first)).is_some() {
        return removal::run(arguments);
    }
    let mut next = || arguments.next();
    let (Some(barrier), Some(status), Some(program)) = (next(), next(), next()) else { return 2 };
    let (Ok(mut barrier), Ok(mut status)) = (File::open(barrier), OpenOptions::new().write(true).open(status)) else {
        return 1;
    };
    if status.write_all(&[0]).is_err() || !matches!(barrier.read(&mut [0]), Ok(1)) {
        // The recording failed before it began, and has reported the reason.
        return 1;
    }
    let error = Command::new(program).args(arguments).exec();
    let _ = status.write_all(&error.raw_os_error().unwrap_or(0).to_ne_bytes());
    127
}

/// Finds `program` as a shell does, so that a wrong name is reported before any change to the machine.
pub(super) fn find(program: &OsStr) -> Result<(), RecordError> {
    let failed = |source| RecordError::Command { name: program.to_string_lossy().into_owned(), source };
    let is_runnable = |path: &Path| match path.metadata() {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if found.permissions().mode() & 0o111 == 0 => Err(io::ErrorKind::PermissionDenied.into()),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    if program.as_encoded_bytes().contains(&b'/') {
        return is_runnable(Path::new(program)).map_err(failed);
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut places = std::env::split_paths(&path).map(|folder: PathBuf| folder.join(program));
    if places.any(|place| is_runnable(&place).is_ok()) {
        Ok(())
    } else {
        Err(failed(io::Error::new(io::ErrorKind::NotFound, "it is in no folder of PATH")))
    }
}

/// The command's process, which waits or runs. Dropping it ends the process.
#[derive(Debug)]
pub(super) struct Running {
    name: String,
    child: Child,
    pidfd: OwnedFd,
    barrier: Option<PipeWriter>,
    status: PipeReader,
    ended: Option<ExitStatus>,
}

impl Running {
    /// Starts the helper for `command` and waits until it is ready. `launcher` is the program and arguments that call
    /// [`hold`]; `stdout` is the command's standard output.
    pub(super) fn start(launcher: &[OsString], command: &[OsString], stdout: Stdio) -> Result<Self, RecordError> {
        let name = command[0].to_string_lossy().into_owned();
        let failed = |source| RecordError::Command { name: name.clone(), source };
        let (barrier_read, barrier) = io::pipe().map_err(failed)?;
        let (status, status_write) = io::pipe().map_err(failed)?;
        let ours = |fd: BorrowedFd<'_>| format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
        let child = Command::new(&launcher[0])
            .args(&launcher[1..])
            .args([ours(barrier_read.as_fd()), ours(status_write.as_fd())])
            .args(command)
            .stdout(stdout)
            .spawn()
            .map_err(failed)?;
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| failed(error.into()))?;
        let mut running = Running { name: name.clone(), child, pidfd, barrier: Some(barrier), status, ended: None };
        running.wait_ready().map_err(failed)?;
        // Only the helper now has the other ends. It detects the recorder's end, and the recorder detects the exec.
        drop((barrier_read, status_write));
        Ok(running)
    }

    fn wait_ready(&mut self) -> io::Result<()> {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut fds = [PollFd::new(&self.status, PollFlags::IN), PollFd::new(&self.pidfd, PollFlags::IN)];
        while let Err(error) = poll(&mut fds, None) {
            if error != rustix::io::Errno::INTR {
                return Err(error.into());
            }
        }
        if fds[0].revents().is_empty() {
            return Err(io::Error::other("the process that was to become it ended"));
        }
        self.status.read_exact(&mut [0])
    }

    /// Lets the command start.
    pub(super) fn release(&mut self) -> Result<(), RecordError> {
        let written = self.barrier.take().map_or(Ok(()), |mut barrier| barrier.write_all(&[1]));
        written.map_err(|source| RecordError::Command { name: self.name.clone(), source })
    }

    /// The error that prevented the command's start, if any. Call this after the command has ended.
    pub(super) fn start_error(&mut self) -> Option<RecordError> {
        let mut code = [0; 4];
        // The pipe is at its end if the helper became the command.
        self.status.read_exact(&mut code).ok()?;
        let source = io::Error::from_raw_os_error(i32::from_ne_bytes(code));
        Some(RecordError::Command { name: self.name.clone(), source })
    }

    /// Readable once the command has ended.
    pub(super) fn ended(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    pub(super) fn has_ended(&self) -> bool {
        ends_within(&self.pidfd, Duration::ZERO)
    }

    /// Ends the command by `signal`, and by stronger signals if it does not end, on a thread of its own.
    pub(super) fn end(&self, signal: Signal) -> io::Result<JoinHandle<()>> {
        let pidfd = self.pidfd.try_clone()?;
        let first = (!signal.from_terminal).then_some(signal.number);
        let thread = thread::Builder::new().name("pageset-end".into());
        thread.spawn(move || {
            for number in [first, Some(SIGTERM), Some(rustix::process::Signal::KILL.as_raw())] {
                number.into_iter().for_each(|number| send(&pidfd, number));
                if ends_within(&pidfd, GRACE) {
                    return;
                }
            }
        })
    }

    pub(super) fn signal(&self, number: i32) {
        send(&self.pidfd, number);
    }

    pub(super) fn wait(&mut self) -> Result<ExitStatus, RecordError> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        let status = self.child.wait().map_err(|source| RecordError::Command { name: self.name.clone(), source })?;
        self.ended = Some(status);
        Ok(status)
    }
}

/// Sends a process a signal.
fn send(pidfd: &OwnedFd, number: i32) {
    if let Some(signal) = rustix::process::Signal::from_named_raw(number) {
        // The process may have ended in the meantime.
        let _ = rustix::process::pidfd_send_signal(pidfd, signal);
    }
}

/// Whether a process ends within a time.
fn ends_within(pidfd: &OwnedFd, time: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let deadline = Instant::now() + time;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => {}
            ready => return ready.is_ok_and(|ready| ready > 0),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // A waiting helper ends when the barrier closes.
            if self.barrier.take().is_none() {
                let _ = self.child.kill();
            }
            let _ = self.child.wait();
        }
    }
}
