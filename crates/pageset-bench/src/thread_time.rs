//! How a thread spends its time: running, waiting for its CPU, sleeping.

use std::ffi::CStr;
use std::fs::File;
use std::io::Read as _;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use rustix::time::{ClockId, clock_gettime};

/// The kernel's counters of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// Time that the thread has waited for a CPU while ready to run; `None` if the kernel does not count it.
    waited: Option<Duration>,
    /// Voluntary context switches.
    sleeps: u64,
}

impl Counts {
    /// The counters of the calling thread. Takes some microseconds.
    pub(crate) fn now() -> Counts {
        Counts { waited: waited(), sleeps: sleeps() }
    }

    /// Combines counters of a moment ago with the thread's clocks now: the snapshot before the measured time.
    pub(crate) fn snapshot(self) -> Snapshot {
        Snapshot { at: Instant::now(), cpu: cpu_time(), counts: self }
    }
}

/// A thread's clocks and counters at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    at: Instant,
    cpu: Duration,
    counts: Counts,
}

/// How a thread spent the time between two snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spent {
    pub(crate) wall: Duration,
    pub(crate) ran: Duration,
    /// Time in which another task had the thread's CPU.
    pub(crate) kept_off: Duration,
    /// Time in which the thread slept voluntarily.
    pub(crate) asleep: Duration,
}

impl Snapshot {
    /// The snapshot of the calling thread after the measured time: reads the clocks before the counters.
    pub(crate) fn after() -> Snapshot {
        let at = Instant::now();
        Snapshot { at, cpu: cpu_time(), counts: Counts::now() }
    }

    /// The time of the snapshot.
    pub(crate) fn at(&self) -> Instant {
        self.at
    }

    /// The time since `begin`. A thread that never slept was kept off its CPU whenever it did not run, and for the time
    /// that the kernel counted between counters and clocks. For a thread that slept, the kernel's counter is used,
    /// which excludes time stolen by a hypervisor. Without the counter no time counts as sleep.
    pub(crate) fn since(&self, begin: &Snapshot) -> Spent {
        let wall = self.at - begin.at;
        let ran = self.cpu.saturating_sub(begin.cpu);
        let off = wall.saturating_sub(ran);
        let waited = self.counts.waited.zip(begin.counts.waited).map(|(now, then)| now.saturating_sub(then));
        let kept_off = match waited {
            Some(waited) if self.counts.sleeps > begin.counts.sleeps => waited,
            Some(waited) => waited.max(off),
            None => off,
        };
        Spent { wall, ran, kept_off, asleep: off.saturating_sub(kept_off) }
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The second number of `schedstat`, in nanoseconds. The third number counts time slices; 0 means that the kernel
/// counts nothing. Source: the kernel's documentation of scheduler statistics.
fn waited() -> Option<Duration> {
    let mut buffer = [0; 128];
    let text = read(c"/proc/thread-self/schedstat", &mut buffer)?;
    let mut numbers = text.split_whitespace().map_while(|number| number.parse().ok());
    let (_, waited, times): (u64, u64, u64) = (numbers.next()?, numbers.next()?, numbers.next()?);
    (times > 0).then(|| Duration::from_nanos(waited))
}

/// Voluntary context switches; 0 if the kernel does not report them.
fn sleeps() -> u64 {
    let mut buffer = [0; 8192];
    let text = read(c"/proc/thread-self/status", &mut buffer).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// The start of a file, up to the size of `buffer`. Allocates nothing, so that reading disturbs no measurement.
fn read<'b>(file: &CStr, buffer: &'b mut [u8]) -> Option<&'b str> {
    let mut file = File::from(open(file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?);
    let mut filled = 0;
    loop {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(_) => return None,
        }
    }
    std::str::from_utf8(&buffer[..filled]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(ms: [u64; 2], waited: Option<u64>, sleeps: u64, start: Instant) -> Snapshot {
        let [at, cpu] = ms.map(Duration::from_millis);
        Snapshot { at: start + at, cpu, counts: Counts { waited: waited.map(Duration::from_millis), sleeps } }
    }

    #[test]
    fn time_off_the_cpu_is_sleep_only_where_a_thread_slept() {
        let start = Instant::now();
        let begin = snapshot([0, 0], Some(5), 7, start);
        let spent = |end: Snapshot| {
            let Spent { wall, kept_off, asleep, .. } = end.since(&begin);
            [wall, kept_off, asleep].map(|time| time.as_millis())
        };
        assert_eq!(spent(snapshot([20, 20], Some(5), 7, start)), [20, 0, 0]);
        assert_eq!(
            spent(snapshot([20, 12], Some(6), 7, start)),
            [20, 8, 0],
            "the hypervisor stole 7 ms that the kernel did not count"
        );
        assert_eq!(spent(snapshot([20, 12], Some(6), 8, start)), [20, 1, 7], "the thread slept");
        assert_eq!(spent(snapshot([20, 12], None, 8, start)), [20, 8, 0], "the kernel counts no waits");
        assert_eq!(
            spent(snapshot([20, 20], Some(8), 7, start)),
            [20, 3, 0],
            "the thread lost its CPU between its counters and its clocks"
        );
    }

    #[test]
    fn sleep_counts_as_sleep_and_work_does_not() {
        let begin = Counts::now().snapshot();
        std::thread::sleep(Duration::from_millis(30));
        let slept = Snapshot::after().since(&begin);
        if waited().is_some() {
            assert!(slept.asleep >= Duration::from_millis(20), "{slept:?}");
        }
        let begin = Counts::now().snapshot();
        while begin.at().elapsed() < Duration::from_millis(5) {}
        assert_eq!(Snapshot::after().since(&begin).asleep, Duration::ZERO);
    }
}
