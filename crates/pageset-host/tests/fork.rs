//! A forked child: its calls are refused, what it drops frees nothing, and it sees what was asked for.

use std::process::exit;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use pageset_host::{AllocError, FreeReason, OnFork, Order, PagePool, PoolError};

/// Runs `child` in a forked child; returns its exit status as `waitpid` gives it. One that hangs is killed.
fn in_child(child: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the test has one thread but for the harness's, whose locks the child does not need: it makes no use of
    // the harness, and ends with `_exit`.
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0, "fork");
        if pid == 0 {
            libc::_exit(if child() { 0 } else { 1 });
        }
        let (mut status, end) = (0, Instant::now() + Duration::from_secs(20));
        while libc::waitpid(pid, &mut status, libc::WNOHANG) == 0 {
            if Instant::now() > end {
                libc::kill(pid, libc::SIGKILL);
            }
            thread::sleep(Duration::from_millis(1));
        }
        status
    }
}

fn refuses_everything(pool: PagePool, page: NonNull<u8>) -> bool {
    // SAFETY: nothing is freed.
    let freed = unsafe { [pool.free(page, Order::ZERO), pool.free_bulk(&[page])] };
    let mut pages = [page];
    let refused = pool.alloc(Order::ZERO) == Err(AllocError::Forked)
        && pool.alloc_bulk(&mut pages) == Err(AllocError::Forked)
        && freed.iter().all(|result| result.is_err_and(|error| error.reason == FreeReason::Forked))
        && pool.give_back(u64::MAX).is_err()
        && matches!(pool.grow(1), Err(PoolError::Forked))
        && pool.tick().is_ok();
    pool.drain();
    drop(pool);
    refused
}

/// Where the pool was left out, the child has its own memory at the same addresses by now. It stays when the pool is
/// dropped there.
fn keeps_its_own_memory(pool: PagePool) -> bool {
    const BYTES: usize = 96 << 20;
    // SAFETY: a mapping of our own, written and read within its bounds.
    unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let mine = libc::mmap(ptr::null_mut(), BYTES, access, flags, -1, 0).cast::<u8>();
        let pages = || (0..BYTES).step_by(4096);
        pages().for_each(|at| mine.add(at).write(7));
        drop(pool);
        pages().all(|at| mine.add(at).read() == 7)
    }
}

/// A fork while another thread of the parent grows the pool: the child is refused, and does not wait for that thread.
fn a_fork_while_the_pool_grows() {
    let pool = PagePool::builder(2 << 20).reserve(1 << 30).prefault(true).build().expect("a pool");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) && pool.grow(32 << 20).is_ok() {
                thread::yield_now();
            }
        });
        for _ in 0..10 {
            thread::sleep(Duration::from_millis(3));
            assert_eq!(in_child(|| matches!(pool.grow(2 << 20), Err(PoolError::Forked))), 0);
        }
        stop.store(true, Relaxed);
    });
}

fn main() {
    let pool = PagePool::builder(64 << 20).on_fork(OnFork::Absent).build().expect("a pool");
    assert_eq!(in_child(move || keeps_its_own_memory(pool)), 0);
    a_fork_while_the_pool_grows();
    for on_fork in [OnFork::Copy, OnFork::Absent] {
        let pool = PagePool::builder(8 << 20).on_fork(on_fork).build().expect("a pool");
        let mut kept = pool.pages(Order::ZERO).expect("memory");
        kept.fill(42);
        let page = pool.alloc(Order::ZERO).expect("memory").cast::<u8>();

        let dropped = in_child(|| {
            drop(pool.pages(Order::ZERO));
            true
        });
        assert_eq!(dropped, 0, "{on_fork:?}");
        let read = in_child(|| kept[0] == 42 && kept[4095] == 42);
        match on_fork {
            OnFork::Copy => assert_eq!(read, 0, "a copy is there to be read"),
            OnFork::Absent => assert_eq!(read & 0x7f, libc::SIGSEGV, "nothing is there"),
        }
        drop(kept);
        // SAFETY: ours.
        unsafe { pool.free(page, Order::ZERO).expect("the parent goes on as before") };
        let page = pool.alloc(Order::ZERO).expect("memory").cast::<u8>();
        assert_eq!(in_child(move || refuses_everything(pool, page)), 0, "{on_fork:?}");
    }
    println!("test result: ok. 4 passed; 0 failed; a forked child is refused and sees what was asked for");
    exit(0);
}
