//! What is due once a second: caches that shrink, memory that goes back. By a caller, or by a thread.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::pool::PagePool;
use crate::topology::possible_cpus;

impl PagePool {
    /// To be called about once a second from each thread that uses the pool, where no [`Ticker`] runs: lets the cache of
    /// the caller's CPU shrink that was not used much, and gives memory back if [`crate::GiveBack`] says so.
    /// Specification: `linux-page-allocator.md` 8.2.
    ///
    /// # Errors
    /// What the system said to memory that it would not take back; the caches have shrunk.
    pub fn tick(&self) -> io::Result<()> {
        if self.is_forked() {
            return Ok(());
        }
        self.allocator().tick();
        self.give_back_if_due().map(drop)
    }

    /// Starts a thread that ticks for all CPUs that this thread may use, once each `interval`, at least 1 ms.
    ///
    /// The thread goes to each CPU in turn, since a tick is for the CPU that it runs on. It ends with the pool, and with
    /// the value that is returned.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start_ticker(self: &Arc<Self>, interval: Duration) -> io::Result<Ticker> {
        let interval = interval.max(Duration::from_millis(1));
        let stop = Arc::new(Stop::default());
        let (pool, stopped) = (Arc::downgrade(self), Arc::clone(&stop));
        let thread = thread::Builder::new()
            .name("pageset-tick".into())
            .spawn(move || while !stopped.within(interval) && tick_everywhere(&pool) {})?;
        Ok(Ticker { stop, thread: Some(thread), owner: std::process::id() })
    }
}

/// One round. False when the pool is gone.
fn tick_everywhere(pool: &Weak<PagePool>) -> bool {
    let Ok(allowed) = sched_getaffinity(None) else {
        // More CPUs than a set has room for. What the system would not take back is tried again in the next round.
        return pool.upgrade().map(|pool| pool.tick()).is_some();
    };
    for cpu in (0..possible_cpus() as usize).filter(|&cpu| cpu < CpuSet::MAX_CPU && allowed.is_set(cpu)) {
        let Some(pool) = pool.upgrade() else { return false };
        let mut here = CpuSet::new();
        here.set(cpu);
        // A CPU that was taken away meanwhile is left out; what its cache holds comes back when memory is short.
        if sched_setaffinity(None, &here).is_ok() {
            // What the system would not take back is tried again in the next round.
            let _ = pool.tick();
        }
    }
    let _ = sched_setaffinity(None, &allowed);
    true
}

/// Told once, or never.
#[derive(Debug, Default)]
struct Stop {
    told: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    fn tell(&self) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits; true as soon as it is told.
    fn within(&self, time: Duration) -> bool {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(told, time, |told| !*told);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// A thread that ticks, until this is dropped.
#[derive(Debug)]
pub struct Ticker {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
    owner: u32,
}

impl Drop for Ticker {
    fn drop(&mut self) {
        // A forked child has no such thread, and perhaps a lock that its parent's held.
        if std::process::id() != self.owner {
            return;
        }
        self.stop.tell();
        if let Some(thread) = self.thread.take() {
            // It holds no lock and calls nothing that panics; were it to, there is nothing to add to its message.
            let _ = thread.join();
        }
    }
}
