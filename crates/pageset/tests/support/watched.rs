//! The points that a thread scheduler must see: every use of a lock, every read of the current CPU, every touch of
//! shared memory, every round of a wait. All shared words are atomics, so nothing else is needed.
#![allow(dead_code, unreachable_pub, reason = "each program that includes it uses a part")]

use std::cell::Cell;
use std::env;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use pageset::machine::Access;
use pageset::{CpuId, Machine, RawLock};
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use shuttle::thread;

/// Planted bugs that the tests must find.
pub mod fault {
    pub const NONE: u8 = 0;
    /// A try-lock succeeds on a held lock.
    pub const LIES: u8 = 1;
    /// A lock reads whether it is free and then takes it, in two steps.
    pub const LOOKS_THEN_LOCKS: u8 = 2;
    /// A lock never excludes anyone.
    pub const OPEN: u8 = 3;
    /// A thread frees a block that another sent, and only then removes it from the mail.
    pub const FREES_THEN_TAKES: u8 = 4;
}

std::thread_local! {
    static FAULT: Cell<u8> = const { Cell::new(fault::NONE) };
}

/// Removes a planted bug.
pub struct Planted(());

impl Drop for Planted {
    fn drop(&mut self) {
        FAULT.set(fault::NONE);
    }
}

/// Plants a bug for the schedules that this thread explores: all threads of the scheduler run on it.
pub fn plant(fault: u8) -> Planted {
    FAULT.set(fault);
    Planted(())
}

/// Whether this bug is planted.
pub fn is_planted(fault: u8) -> bool {
    FAULT.get() == fault
}

/// A point where the scheduler may switch threads.
pub fn point() {
    // Any access to one of the scheduler's atomics is such a point.
    shuttle::lazy_static! {
        static ref PLACE: AtomicUsize = AtomicUsize::new(0);
    }
    PLACE.load(SeqCst);
}

/// A lock whose uses the scheduler sees.
#[derive(Default)]
pub struct Watched(AtomicBool);

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

impl Watched {
    fn take(&self) -> bool {
        self.0.compare_exchange(false, true, SeqCst, SeqCst).is_ok()
    }
}

impl RawLock for Watched {
    fn lock(&self) {
        if is_planted(fault::LOOKS_THEN_LOCKS) {
            while self.0.load(SeqCst) {
                thread::yield_now();
            }
            return self.0.store(true, SeqCst);
        }
        while !self.take() && !is_planted(fault::OPEN) {
            thread::yield_now();
        }
    }

    fn try_lock(&self) -> bool {
        self.take() || is_planted(fault::LIES) || is_planted(fault::OPEN)
    }

    fn unlock(&self) {
        self.0.store(false, SeqCst);
    }
}

shuttle::thread_local! {
    static CPU: Cell<u32> = Cell::new(0);
}

/// Puts the calling thread on a CPU.
pub fn run_on(cpu: CpuId) {
    CPU.with(|at| at.set(cpu.0));
}

/// A machine whose threads select their CPU.
pub struct Scheduled;

impl Machine for Scheduled {
    type Lock = Watched;

    fn cpu(&self) -> CpuId {
        point();
        CpuId(CPU.with(Cell::get))
    }

    fn probe(&self, _access: Access) {
        point();
    }

    fn relax(&self) {
        thread::yield_now();
    }
}

/// The configuration of the explorers: small stacks, since there are thousands of threads.
pub fn config() -> shuttle::Config {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    config
}

/// The first seed, from `SHUTTLE_RANDOM_SEED` or the time; and the number of schedules, from `PAGESET_SCHEDULES` or
/// `usual`.
pub fn seed_and_schedules(usual: usize) -> (u64, usize) {
    let number = |variable: &str| {
        let text = env::var(variable).ok()?;
        Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
    };
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let schedules = number("PAGESET_SCHEDULES").map_or(usual, |schedules| schedules as usize);
    (number("SHUTTLE_RANDOM_SEED").unwrap_or_else(fresh), schedules)
}
