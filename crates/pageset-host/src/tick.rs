//! What is due once a second: caches that shrink, memory that goes back. By a caller, or by a thread.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pageset::{CpuId, Machine as _};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::pool::PagePool;
use crate::topology::{online_cpus, possible_cpus};

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
        let cpu = self.allocator().machine().cpu();
        if !self.allocator().is_cpu_online(cpu) {
            // It has come since the CPUs were last looked at. Another thread may have said so first.
            let _ = self.allocator().cpu_online(cpu);
        }
        self.allocator().tick();
        self.give_back_if_due().map(drop)
    }

    /// Has caches for the CPUs that are online, and no others: the pages of one that went away come back, and those that
    /// are left may keep more each. `online` has some of the numbers below that of possible CPUs.
    pub(crate) fn set_online_cpus(&self, online: &[u32]) {
        let allocator = self.allocator();
        for cpu in (0..possible_cpus()).map(CpuId) {
            // A refusal means that another thread was first, or that no CPU would be left.
            let _ = match (online.contains(&cpu.0), allocator.is_cpu_online(cpu)) {
                (true, false) => allocator.cpu_online(cpu),
                (false, true) => allocator.cpu_offline(cpu),
                _ => Ok(()),
            };
        }
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
            .spawn(move || while !stopped.within(interval) && tick_all_cpus(&pool) {})?;
        Ok(Ticker { stop, thread: Some(thread), owner: std::process::id() })
    }
}

/// One round. False when the pool is gone.
fn tick_all_cpus(pool: &Weak<PagePool>) -> bool {
    if let (Some(pool), Some(online)) = (pool.upgrade(), online_cpus()) {
        pool.set_online_cpus(&online);
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use pageset::Order;

    #[test]
    fn a_cpu_that_goes_away_leaves_its_pages() {
        let pool = PagePool::builder(64 << 20).build().expect("a pool");
        let cpus: Vec<u32> = (0..possible_cpus()).collect();
        let page = pool.alloc(Order::ZERO).expect("memory");
        let cached = || pool.stats().cached_bytes;
        assert!(cached() > 0, "a refill brought more than one page");
        // Whichever CPU this was, its pages come back when the others are those that are online.
        for cpu in cpus.iter().filter(|_| cpus.len() > 1) {
            let others: Vec<u32> = cpus.iter().copied().filter(|other| other != cpu).collect();
            pool.set_online_cpus(&others);
            assert!(!pool.allocator().is_cpu_online(CpuId(*cpu)));
            pool.set_online_cpus(&cpus);
            assert!(pool.allocator().is_cpu_online(CpuId(*cpu)));
        }
        assert!(cpus.len() == 1 || cached() == 0, "{} bytes are still in caches", cached());
        // The last one stays, whatever is said.
        pool.set_online_cpus(&[]);
        assert_eq!(cpus.iter().filter(|cpu| pool.allocator().is_cpu_online(CpuId(**cpu))).count(), 1);
        pool.set_online_cpus(&cpus);
        // SAFETY: it is ours, and nothing refers to it.
        #[allow(unsafe_code, reason = "a raw free")]
        unsafe {
            pool.free(page.cast(), Order::ZERO).expect("it was taken");
        }
    }
}
