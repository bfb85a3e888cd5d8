//! Page faults by number of tasks, as page_fault1 of will-it-scale: each task maps a region, writes a byte in each page,
//! unmaps the region, and begins again.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::sched_yield;
use schemars::JsonSchema;
use serde::Serialize;

use super::figure::{Effort, Figure, KeepOn, Sampler, cpu_share, own_seconds};
use super::fork::Child;
use super::mapping::Mapping;
use super::pin;
use crate::thread_time::{Counts, Snapshot};

/// Bytes of a task's region, as in will-it-scale.
pub const REGION_BYTES: usize = 128 << 20;
/// The time that a task waits for the others to begin or to end. The system may end a task for lack of memory.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the tasks are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tasks {
    /// Each task has its own address space.
    Processes,
    /// All tasks share an address space.
    Threads,
}

impl Tasks {
    /// Both, in the order of measurement.
    pub const ALL: [Tasks; 2] = [Tasks::Processes, Tasks::Threads];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Tasks::Processes => "processes",
            Tasks::Threads => "threads",
        }
    }
}

/// Page faults a second of all tasks together, one task for each of `cpus`.
pub fn faults(tasks: Tasks, cpus: &[usize], region_bytes: usize, effort: Effort, keep_on: KeepOn<'_>) -> Figure {
    Sampler { effort, keep_on }.try_figure(|| sample(tasks, cpus, region_bytes, effort.window))
}

/// The words of a task in the shared memory.
const TASK_WORDS: usize = 5;
const PAGES: usize = 0;
/// The time of these pages: that of the thread, without the time in which it was kept off its CPU.
const TIME_NS: usize = 1;
/// The share of the time that the task had its CPU, in millionths.
const SHARE: usize = 2;
const STATE: usize = 3;
const ERROR: usize = 4;

/// States of a task.
const MEASURED: u64 = 1;
const FAILED: u64 = 2;

/// The memory that the tasks share, whether they are processes or threads.
struct Shared {
    map: Mapping,
    tasks: usize,
}

impl Shared {
    fn new(tasks: usize) -> io::Result<Shared> {
        let map = Mapping::shared((2 + tasks * TASK_WORDS) * size_of::<AtomicU64>())?;
        Ok(Shared { map, tasks })
    }

    /// Tasks that are ready to begin.
    fn ready(&self) -> &AtomicU64 {
        &self.map.words()[0]
    }

    /// Tasks whose measurement is over.
    fn over(&self) -> &AtomicU64 {
        &self.map.words()[1]
    }

    fn of(&self, task: usize) -> &[AtomicU64] {
        &self.map.words()[2 + task * TASK_WORDS..][..TASK_WORDS]
    }

    /// A task. It allocates nothing and does not panic: it may be a forked child.
    fn run(&self, task: usize, cpu: usize, region_bytes: usize, window: Duration) {
        pin(cpu);
        let own = self.of(task);
        // Relaxed: `over` orders the results.
        let state = match self.measure(own, region_bytes, window) {
            Ok(()) => MEASURED,
            Err(error) => {
                own[ERROR].store(u64::from(error.raw_os_error().unwrap_or(0).unsigned_abs()), Ordering::Relaxed);
                FAILED
            }
        };
        own[STATE].store(state, Ordering::Relaxed);
        // Release: the waiter sees the task's results. A failed task counts as ready, so its waiters go on.
        self.ready().fetch_add(u64::from(state == FAILED), Ordering::Release);
        self.over().fetch_add(1, Ordering::Release);
        // The other tasks are measured while this one still works.
        let end = Instant::now();
        while state == MEASURED
            && self.over().load(Ordering::Relaxed) < self.tasks as u64
            && end.elapsed() < PATIENCE
            && region(region_bytes).is_ok()
        {}
    }

    /// Measures whole regions. The first region is not measured.
    fn measure(&self, own: &[AtomicU64], region_bytes: usize, window: Duration) -> io::Result<()> {
        region(region_bytes)?;
        self.ready().fetch_add(1, Ordering::Relaxed);
        let wait = Instant::now();
        // Yields: with fewer CPUs than tasks, the others must get ready.
        while self.ready().load(Ordering::Relaxed) < self.tasks as u64 {
            if wait.elapsed() > PATIENCE {
                // Without a number: `sum` names the fault.
                return Err(io::ErrorKind::TimedOut.into());
            }
            sched_yield();
        }
        let begin = Counts::now().snapshot();
        let mut pages = 0;
        while pages == 0 || begin.at().elapsed() < window {
            pages += region(region_bytes)?;
        }
        let spent = Snapshot::after().since(&begin);
        let share = (cpu_share(spent) * 1e6) as u64;
        for (word, value) in [(PAGES, pages), (TIME_NS, (own_seconds(spent) * 1e9) as u64), (SHARE, share)] {
            own[word].store(value, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The sum of all tasks' faults a second, and the smallest share of a CPU.
    fn sum(&self) -> io::Result<(f64, f64)> {
        let (mut sum, mut least) = (0.0, 1.0_f64);
        for task in 0..self.tasks {
            // Acquire by the joined thread or process.
            let word = |word: usize| self.of(task)[word].load(Ordering::Relaxed);
            match word(STATE) {
                MEASURED => {}
                FAILED if word(ERROR) == 0 => return Err(io::Error::other("not all tasks began in time")),
                FAILED => return Err(io::Error::from_raw_os_error(word(ERROR) as i32)),
                _ => return Err(io::Error::other("the system ended a task; is there enough memory?")),
            }
            sum += word(PAGES) as f64 * 1e9 / word(TIME_NS).max(1) as f64;
            least = least.min(word(SHARE) as f64 / 1e6);
        }
        Ok((sum, least))
    }
}

/// Maps a region, writes a byte in each page, and unmaps it. Returns the number of pages.
fn region(bytes: usize) -> io::Result<u64> {
    let mut map = Mapping::small(bytes)?;
    let page_bytes = rustix::param::page_size();
    let mut pages = 0;
    for page in map.bytes_mut()[..bytes].chunks_mut(page_bytes) {
        // Volatile, as nothing reads the bytes.
        volatile_write(&mut page[0]);
        pages += 1;
    }
    Ok(pages)
}

#[allow(unsafe_code, reason = "a volatile write")]
fn volatile_write(byte: &mut u8) {
    // SAFETY: a reference is valid for writes.
    unsafe { ptr::write_volatile(byte, 1) }
}

/// One sample: faults a second, and the smallest share of a CPU.
#[allow(unsafe_code, reason = "fork")]
fn sample(tasks: Tasks, cpus: &[usize], region_bytes: usize, window: Duration) -> io::Result<(f64, f64)> {
    let shared = &Shared::new(cpus.len())?;
    match tasks {
        Tasks::Threads => thread::scope(|scope| {
            for (task, &cpu) in cpus.iter().enumerate() {
                let work = move || shared.run(task, cpu, region_bytes, window);
                if let Err(error) = thread::Builder::new().spawn_scoped(scope, work) {
                    shared.give_up();
                    return Err(error);
                }
            }
            Ok(())
        })?,
        Tasks::Processes => {
            let mut children = vec![];
            let mut failed = None;
            for (task, &cpu) in cpus.iter().enumerate() {
                // SAFETY: `run` makes system calls on memory, clocks and files only; it does not allocate, lock or panic.
                match unsafe { Child::run(|| shared.run(task, cpu, region_bytes, window)) } {
                    Ok(child) => children.push(child),
                    Err(error) => {
                        shared.give_up();
                        failed = Some(error);
                        break;
                    }
                }
            }
            // All children, also after a failure: none is left behind.
            for child in children {
                // A child that did not end by itself left no result.
                let _ = child.wait();
            }
            failed.map_or(Ok(()), Err)?;
        }
    }
    shared.sum()
}

impl Shared {
    /// Ends the waits of the tasks that have begun, because not all can begin.
    fn give_up(&self) {
        let all = self.tasks as u64;
        self.ready().fetch_add(all, Ordering::Relaxed);
        self.over().fetch_add(all, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::allowed_cpus;

    const EFFORT: Effort = Effort { samples: 2, window: Duration::from_millis(2), limit: Duration::from_millis(1) };

    #[test]
    fn both_kinds_of_tasks_count_their_faults() {
        let mut cpus = allowed_cpus();
        cpus.truncate(2);
        for tasks in Tasks::ALL {
            let figure = faults(tasks, &cpus, 1 << 20, EFFORT, &|| true);
            assert_eq!(figure.missing, None);
            // Between a fault a millisecond and a fault a nanosecond.
            assert!(figure.samples.iter().all(|&rate| (1e3..1e9).contains(&rate)), "{figure:?}");
        }
    }

    #[test]
    fn tasks_may_outnumber_the_cpus() {
        let cpus = [allowed_cpus()[0]; 3];
        let figure = faults(Tasks::Processes, &cpus, 1 << 16, EFFORT, &|| true);
        assert!(figure.median() > Some(0.0), "{figure:?}");
    }

    #[test]
    fn a_region_that_cannot_be_mapped_is_an_error() {
        let cpu = allowed_cpus()[0];
        for tasks in Tasks::ALL {
            let figure = faults(tasks, &[cpu, cpu], usize::MAX >> 4, EFFORT, &|| true);
            let why = figure.missing.expect("no machine has this much memory");
            assert!(why.starts_with("Cannot allocate memory"), "{why}");
        }
    }

    #[test]
    fn a_region_writes_to_each_page() {
        assert_eq!(region(1 << 20).expect("memory"), (1 << 20) / rustix::param::page_size() as u64);
    }

    #[test]
    fn tasks_that_did_not_end_by_themselves_are_an_error() {
        let shared = Shared::new(2).expect("memory");
        // The second task has begun, and does nothing more.
        shared.ready().store(1, Ordering::Relaxed);
        shared.over().store(1, Ordering::Relaxed);
        shared.run(0, allowed_cpus()[0], 1 << 16, Duration::ZERO);
        let error = shared.sum().expect_err("the second task did not run");
        assert!(error.to_string().contains("the system ended a task"), "{error}");
    }
}
