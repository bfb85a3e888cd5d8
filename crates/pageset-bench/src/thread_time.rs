//! What a thread's time went into: running, waiting for its CPU, sleep.

use std::fs;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// What the kernel has counted of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// How long it has waited for a CPU, ready to run; nothing where the kernel does not count that.
    waited: Option<Duration>,
    /// How often it has given its CPU up because it waited for something.
    sleeps: u64,
}

impl Counts {
    /// The calling thread's. Takes some microseconds.
    pub(crate) fn now() -> Counts {
        Counts { waited: waited(), sleeps: sleeps() }
    }

    /// A thread's clocks now, with counts of a moment ago: a look before the time that is measured.
    pub(crate) fn look(self) -> Look {
        Look { at: Instant::now(), cpu: cpu_time(), counts: self }
    }
}

/// A thread's clocks and counts at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    at: Instant,
    cpu: Duration,
    counts: Counts,
}

/// What the time between two looks went into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spent {
    pub(crate) wall: Duration,
    /// Somebody else had its CPU.
    pub(crate) kept_off: Duration,
    /// It waited for something.
    pub(crate) asleep: Duration,
}

impl Look {
    /// The calling thread's, after the time that is measured: the clocks come first.
    pub(crate) fn after() -> Look {
        let at = Instant::now();
        Look { at, cpu: cpu_time(), counts: Counts::now() }
    }

    /// When it was.
    pub(crate) fn at(&self) -> Instant {
        self.at
    }

    /// A thread that never slept was kept off its CPU for all the time that it did not run, and for what the kernel counted
    /// between its counts and its clocks. Of one that did sleep, the kernel's count is believed, which does not know of
    /// time that the machine below stole; where there is no count, none of it was sleep.
    pub(crate) fn since(&self, begin: &Look) -> Spent {
        let wall = self.at - begin.at;
        let off = wall.saturating_sub(self.cpu.saturating_sub(begin.cpu));
        let waited = self.counts.waited.zip(begin.counts.waited).map(|(now, then)| now.saturating_sub(then));
        let kept_off = match waited {
            Some(waited) if self.counts.sleeps > begin.counts.sleeps => waited,
            Some(waited) => waited.max(off),
            None => off,
        };
        Spent { wall, kept_off, asleep: off.saturating_sub(kept_off) }
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The second number of `schedstat`, in nanoseconds; the third is how often the thread has come to a CPU, 0 only where the
/// kernel counts nothing. Source: the kernel's documentation of scheduler statistics.
fn waited() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut numbers = text.split_whitespace().map_while(|number| number.parse().ok());
    let (_, waited, times): (u64, u64, u64) = (numbers.next()?, numbers.next()?, numbers.next()?);
    (times > 0).then(|| Duration::from_nanos(waited))
}

/// Nothing is as good as never.
fn sleeps() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(ms: [u64; 2], waited: Option<u64>, sleeps: u64, start: Instant) -> Look {
        let [at, cpu] = ms.map(Duration::from_millis);
        Look { at: start + at, cpu, counts: Counts { waited: waited.map(Duration::from_millis), sleeps } }
    }

    #[test]
    fn time_off_the_cpu_is_sleep_only_where_a_thread_slept() {
        let start = Instant::now();
        let begin = look([0, 0], Some(5), 7, start);
        let spent = |end: Look| {
            let Spent { wall, kept_off, asleep } = end.since(&begin);
            [wall, kept_off, asleep].map(|time| time.as_millis())
        };
        assert_eq!(spent(look([20, 20], Some(5), 7, start)), [20, 0, 0]);
        assert_eq!(spent(look([20, 12], Some(6), 7, start)), [20, 8, 0], "stolen, though the kernel saw 1 ms of it");
        assert_eq!(spent(look([20, 12], Some(6), 8, start)), [20, 1, 7], "it slept");
        assert_eq!(spent(look([20, 12], None, 8, start)), [20, 8, 0], "nobody counted");
        assert_eq!(
            spent(look([20, 20], Some(8), 7, start)),
            [20, 3, 0],
            "it lost its CPU just before its clocks were read"
        );
    }

    #[test]
    fn a_sleep_is_seen_and_work_is_none() {
        let begin = Counts::now().look();
        std::thread::sleep(Duration::from_millis(30));
        let slept = Look::after().since(&begin);
        if waited().is_some() {
            assert!(slept.asleep >= Duration::from_millis(20), "{slept:?}");
        }
        let begin = Counts::now().look();
        while begin.at().elapsed() < Duration::from_millis(5) {}
        assert_eq!(Look::after().since(&begin).asleep, Duration::ZERO);
    }
}
