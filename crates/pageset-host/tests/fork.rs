//! Forked children: the pool refuses their calls, their drops free nothing, and they see what `OnFork` says.

use std::process::exit;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use pageset_host::{AllocError, FreeReason, Memory, OnFork, Order, PagePool, PoolError, SharedView};

/// Runs `child` in a forked child and returns its status from `waitpid`. Kills a child that hangs.
fn in_child(child: impl FnOnce() -> bool) -> i32 {
    // SAFETY: (1) the child takes no lock that another thread may hold. The only other thread grows a pool, and the
    // child's calls return before they take its locks. (2) the child ends with `_exit`, which runs no exit handlers.
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

fn all_calls_are_refused(pool: PagePool, page: NonNull<u8>) -> bool {
    // SAFETY: nothing is freed.
    let freed = unsafe { [pool.free(page, Order::ZERO), pool.free_bulk(Order::ZERO, &[page])] };
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

/// The child maps other memory at the addresses of an excluded pool. Dropping the pool there does not unmap it.
fn own_memory_survives_the_drop(pool: PagePool) -> bool {
    const BYTES: usize = 96 << 20;
    // SAFETY: the child owns the new mapping, and writes and reads within its bounds.
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

/// Forks while another thread grows the pool. The pool refuses the child's call without waiting for that thread.
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

/// A child of a pool of shared memory does not see the pages, so it cannot write the parent's. By a view it does.
fn a_child_sees_shared_memory_by_a_view_only() {
    let pool = PagePool::builder(8 << 20).memory(Memory::Shared).build().expect("a pool");
    let mut kept = pool.pages(Order::ZERO).expect("memory");
    kept.fill(42);
    let first = NonNull::from(&mut kept[0]);
    let offset = pool.memory().offset_of(first).expect("a page of the pool");
    let wrote = in_child(|| {
        // SAFETY: the write ends the child.
        unsafe { first.write_volatile(7) };
        true
    });
    assert_eq!(wrote & 0x7f, libc::SIGSEGV, "the child can write the parent's pages");
    let seen = in_child(|| {
        // SAFETY: the view only reads.
        let view = unsafe { pool.memory().descriptor() }.map(SharedView::read_only);
        let page = view.and_then(Result::ok).and_then(|view| Some((view.resolve(offset, 4096).ok()?, view)));
        // SAFETY: the parent waits, so nobody writes the page.
        page.is_some_and(|(page, _view)| unsafe { page.as_ref() }.iter().all(|&byte| byte == 42))
    });
    assert_eq!(seen, 0, "the child cannot map the memory");
    let page = pool.alloc(Order::ZERO).expect("memory").cast::<u8>();
    drop(kept);
    assert_eq!(in_child(move || all_calls_are_refused(pool, page)), 0);
}

fn main() {
    a_child_sees_shared_memory_by_a_view_only();
    let pool = PagePool::builder(64 << 20).on_fork(OnFork::Absent).build().expect("a pool");
    assert_eq!(in_child(move || own_memory_survives_the_drop(pool)), 0);
    let pool = PagePool::builder(64 << 20).memory(Memory::Shared).build().expect("a pool");
    assert_eq!(in_child(move || own_memory_survives_the_drop(pool)), 0);
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
            OnFork::Copy => assert_eq!(read, 0, "the child cannot read the copy"),
            OnFork::Absent => assert_eq!(read & 0x7f, libc::SIGSEGV, "the child can read the pool"),
        }
        drop(kept);
        // SAFETY: the page is allocated, and nothing refers to it.
        unsafe { pool.free(page, Order::ZERO).expect("the parent still owns the page") };
        let page = pool.alloc(Order::ZERO).expect("memory").cast::<u8>();
        assert_eq!(in_child(move || all_calls_are_refused(pool, page)), 0, "{on_fork:?}");
    }
    println!("test result: ok. 5 passed; 0 failed; forked children");
    exit(0);
}
