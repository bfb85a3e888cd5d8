//! Memory pressure: a thread that gives free memory back when the system or a cgroup runs short.
//!
//! Two sources, both of Linux: pressure stall information (PSI), which tells for how long tasks waited for memory, and
//! `memory.events` of cgroup v2, which counts how often a cgroup met its limits. Source of the formats: `psi.rst` and
//! `cgroup-v2.rst` of the kernel's documentation.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::time::Timespec;
use thiserror::Error;

use crate::pool::PagePool;
use crate::sys::is_current;

/// The PSI file of the whole system.
const SYSTEM_PRESSURE: &str = "/proc/pressure/memory";
/// How often the watcher reads `memory.events` if the kernel reports no change. A guess; a read takes about 5 µs.
const EVENTS_RECHECK: Duration = Duration::from_secs(1);
/// The shortest time between two reports. A guess: a give-back of 64 MiB takes about 10 ms.
const MIN_GAP: Duration = Duration::from_millis(100);

/// Where memory pressure is measured, and how much of it counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PressureSource {
    /// The PSI file.
    stall_file: Option<PathBuf>,
    /// The file `memory.events`.
    events_file: Option<PathBuf>,
    stall: Duration,
    window: Duration,
}

/// The cause of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Pressure {
    /// Tasks waited for memory longer than the source allows.
    Stall,
    /// The cgroup met `memory.high`, met `memory.max`, or ran out of memory. Each is how often since the last report.
    Events {
        /// The counter `high`.
        high: u64,
        /// The counter `max`.
        max: u64,
        /// The counter `oom`.
        oom: u64,
    },
}

/// Why a pool cannot watch memory pressure.
#[derive(Debug, Error)]
pub enum PressureError {
    /// The stall or the window is out of the kernel's range.
    #[error(
        "cannot watch for stalls of {stall:?} in {window:?}: try a window of 500ms to 10s, and a stall of 1us up to it"
    )]
    Range {
        /// The time that tasks must wait for memory.
        stall: Duration,
        /// The time in which they must wait for so long.
        window: Duration,
    },
    /// The system refuses a file or the thread.
    #[error("cannot watch {}: {source}; {help}", path.display())]
    System {
        /// The file, or the thread.
        path: PathBuf,
        /// What is missing.
        help: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not `memory.events` of cgroup v2.
    #[error("cannot watch {}: it has no counters high, max and oom; try the folder of a cgroup v2 below its root", .0.display())]
    NotEvents(PathBuf),
    /// The process is in no cgroup v2.
    #[error(
        "cannot find the cgroup of this process: /proc/self/cgroup has no line 0::; try cgroup v2, or PressureSource::system"
    )]
    NoCgroup,
}

impl PressureSource {
    /// The whole system (PSI).
    #[must_use]
    pub fn system() -> PressureSource {
        let (stall, window) = DEFAULT_STALL;
        PressureSource { stall_file: Some(SYSTEM_PRESSURE.into()), events_file: None, stall, window }
    }

    /// The cgroup v2 at `folder`: its PSI file `memory.pressure` and its `memory.events`.
    #[must_use]
    pub fn cgroup(folder: &Path) -> PressureSource {
        PressureSource {
            stall_file: Some(folder.join("memory.pressure")),
            events_file: Some(folder.join("memory.events")),
            ..PressureSource::system()
        }
    }

    /// Only `memory.events` of the cgroup v2 at `folder`. Needs no PSI.
    #[must_use]
    pub fn cgroup_events(folder: &Path) -> PressureSource {
        PressureSource { stall_file: None, ..PressureSource::cgroup(folder) }
    }

    /// The cgroup v2 of this process, if cgroup v2 is mounted at `/sys/fs/cgroup`.
    ///
    /// # Errors
    /// [`PressureError::NoCgroup`] where the process is in cgroups of version 1 only.
    pub fn own_cgroup() -> Result<PressureSource, PressureError> {
        let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let path = text.lines().find_map(|line| line.strip_prefix("0::/")).ok_or(PressureError::NoCgroup)?;
        Ok(PressureSource::cgroup(&Path::new("/sys/fs/cgroup").join(path)))
    }

    /// Sets how long some task must wait for memory in a window before that counts: 1 µs up to the window. The window is 500 ms
    /// to 10 s. Default: 100 ms in 2 s.
    ///
    /// A process without CAP_SYS_RESOURCE needs Linux 6.5 and a window that is a multiple of 2 s.
    #[must_use]
    pub fn stall(mut self, stall: Duration, window: Duration) -> PressureSource {
        (self.stall, self.window) = (stall, window);
        self
    }
}

/// The default stall and window. A guess; systemd-oomd and Android's lmkd use 50 to 100 ms in 1 s.
const DEFAULT_STALL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

impl PagePool {
    /// Starts a thread that waits for memory pressure. On pressure, it calls `report`, then [`Self::give_back`] for all free
    /// memory. So memory that `report` frees also goes back. Caches are drained meanwhile.
    ///
    /// There are at least 100 ms between two reports. With PSI, there is at most one in each window. The thread ends when the
    /// pool or the returned value is dropped. A forked child does not have it.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// let pool = Arc::new(pool);
    /// let report = |_: &PagePool, pressure| println!("{pressure:?}");
    /// if let Ok(_watcher) = pool.watch_pressure(&PressureSource::system(), report) {
    ///     println!("waits for pressure");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`PressureError`] says what is missing: a kernel with PSI, a privilege, or a file.
    pub fn watch_pressure(
        self: &Arc<Self>,
        source: &PressureSource,
        report: impl FnMut(&PagePool, Pressure) + Send + 'static,
    ) -> Result<PressureWatcher, PressureError> {
        let (stall, window) = (source.stall, source.window);
        let stall_in_range = stall >= Duration::from_micros(1) && stall <= window;
        if !stall_in_range || window < Duration::from_millis(500) || window > Duration::from_secs(10) {
            return Err(PressureError::Range { stall, window });
        }
        let stalls = source.stall_file.as_deref().map(|path| open_trigger(path, stall, window)).transpose()?;
        let events = source.events_file.as_deref().map(EventsFile::open).transpose()?;
        self.start_watcher(stalls, events, report)
    }

    fn start_watcher(
        self: &Arc<Self>,
        stalls: Option<OwnedFd>,
        events: Option<EventsFile>,
        report: impl FnMut(&PagePool, Pressure) + Send + 'static,
    ) -> Result<PressureWatcher, PressureError> {
        let no_thread = |source| PressureError::System {
            path: "with a thread".into(),
            help: "try higher limits on threads and open files (ulimit -u, ulimit -n)",
            source,
        };
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| no_thread(error.into()))?;
        let stop = Arc::new(stop);
        let mut watch = Watch { pool: Arc::downgrade(self), stop: Arc::clone(&stop), stalls, events, report };
        let builder = thread::Builder::new().name("pageset-pressure".into());
        let thread = builder.spawn(move || watch.run()).map_err(no_thread)?;
        Ok(PressureWatcher { stop, thread: Some(thread), owner: std::process::id() })
    }
}

/// Opens a PSI file and asks the kernel for reports.
fn open_trigger(path: &Path, stall: Duration, window: Duration) -> Result<OwnedFd, PressureError> {
    let error = |source: io::Error| {
        let help = match source.raw_os_error() {
            Some(libc::ENOENT | libc::EOPNOTSUPP) => {
                "the kernel has no pressure stall information there: it needs Linux 5.2, CONFIG_PSI and the boot parameter \
                 psi=1"
            }
            Some(libc::EPERM | libc::EACCES) => {
                "it needs write access, and CAP_SYS_RESOURCE or, since Linux 6.5, a window that is a multiple of 2 s"
            }
            _ => "try another stall and window",
        };
        PressureError::System { path: path.into(), help, source }
    };
    let open = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path);
    let mut file = open.map_err(error)?;
    let trigger = format!("some {} {}\0", stall.as_micros(), window.as_micros());
    file.write_all(trigger.as_bytes()).map_err(error)?;
    Ok(file.into())
}

/// The file `memory.events`, and its counters `high`, `max` and `oom`.
struct EventsFile {
    file: File,
    counts: [u64; 3],
}

impl EventsFile {
    fn open(path: &Path) -> Result<EventsFile, PressureError> {
        let file = File::open(path).map_err(|source| {
            let help = "it needs cgroup v2 with the memory controller, and a cgroup other than the root";
            PressureError::System { path: path.into(), help, source }
        })?;
        let mut events = EventsFile { file, counts: [0; 3] };
        events.counts = events.read().ok_or_else(|| PressureError::NotEvents(path.into()))?;
        Ok(events)
    }

    fn read(&mut self) -> Option<[u64; 3]> {
        let mut text = String::new();
        self.file.rewind().and_then(|()| self.file.read_to_string(&mut text)).ok()?;
        let count = |name| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(found, _)| *found == name)?.1.trim().parse::<u64>().ok()
        };
        Some([count("high")?, count("max")?, count("oom")?])
    }

    /// The events since the last call, if there are any.
    fn news(&mut self) -> Option<Pressure> {
        let now = self.read()?;
        let former = std::mem::replace(&mut self.counts, now);
        let [high, max, oom] = [0, 1, 2].map(|i| now[i].saturating_sub(former[i]));
        (high + max + oom > 0).then_some(Pressure::Events { high, max, oom })
    }
}

/// The work of the thread.
struct Watch<F> {
    pool: Weak<PagePool>,
    stop: Arc<OwnedFd>,
    stalls: Option<OwnedFd>,
    events: Option<EventsFile>,
    report: F,
}

impl<F: FnMut(&PagePool, Pressure)> Watch<F> {
    fn run(&mut self) {
        while let Some(found) = self.wait() {
            for pressure in found.into_iter().flatten() {
                let Some(pool) = self.pool.upgrade() else { return };
                (self.report)(&pool, pressure);
                // Locked memory does not go back. The next pressure tries again.
                let _ = pool.give_back(u64::MAX);
            }
            if self.pool.strong_count() == 0 || self.stopped_within(MIN_GAP) {
                return;
            }
        }
    }

    /// Waits for pressure, for at most [`EVENTS_RECHECK`]. `None`: the thread is to end.
    fn wait(&mut self) -> Option<[Option<Pressure>; 2]> {
        let events = self.events.as_ref().map(|events| events.file.as_fd());
        let sources = [self.stalls.as_ref().map(AsFd::as_fd), events];
        let mut polled = vec![PollFd::new(&*self.stop, PollFlags::IN)];
        polled.extend(sources.into_iter().flatten().map(|source| PollFd::from_borrowed_fd(source, PollFlags::PRI)));
        let timeout = Timespec { tv_sec: EVENTS_RECHECK.as_secs() as i64, tv_nsec: 0 };
        if poll(&mut polled, Some(&timeout)).is_err() {
            // A signal handler ran in this thread.
            return Some([None; 2]);
        }
        let ready: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        let of_stalls = if self.stalls.is_some() { ready[1] } else { PollFlags::empty() };
        if !ready[0].is_empty() {
            return None;
        }
        let stalled = of_stalls.contains(PollFlags::PRI).then_some(Pressure::Stall);
        if of_stalls.intersects(PollFlags::ERR | PollFlags::NVAL) && stalled.is_none() {
            // The cgroup is gone.
            self.stalls = None;
        }
        Some([stalled, self.events.as_mut().and_then(EventsFile::news)])
    }

    /// Waits, and returns whether the thread is to end.
    fn stopped_within(&self, time: Duration) -> bool {
        let mut polled = [PollFd::new(&*self.stop, PollFlags::IN)];
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
        poll(&mut polled, Some(&timeout)).is_ok_and(|ready| ready > 0)
    }
}

/// A thread that waits for memory pressure. Dropping the value ends the thread and waits for it.
#[derive(Debug)]
pub struct PressureWatcher {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    /// The process that started the thread.
    owner: u32,
}

impl Drop for PressureWatcher {
    fn drop(&mut self) {
        // A forked child does not have the thread, and shares the descriptor with the parent.
        if std::process::id() != self.owner {
            return;
        }
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take().filter(|thread| !is_current(thread)) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
#[path = "pressure_tests.rs"]
mod tests;
