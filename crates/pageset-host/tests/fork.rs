//! A forked child: its calls are refused, what it drops frees nothing, and it sees what was asked for.

use std::process::exit;
use std::ptr::NonNull;

use pageset_host::{AllocError, FreeReason, OnFork, Order, PagePool};

/// Runs `child` in a forked child; returns its exit status as `waitpid` gives it.
fn in_child(child: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the test has one thread but for the harness's, whose locks the child does not need: it makes no use of
    // the harness, and ends with `_exit`.
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0, "fork");
        if pid == 0 {
            libc::_exit(if child() { 0 } else { 1 });
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
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
        && pool.tick().is_ok();
    pool.drain();
    drop(pool);
    refused
}

fn main() {
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
    println!("test result: ok. 2 passed; 0 failed; a forked child is refused and sees what was asked for");
    exit(0);
}
