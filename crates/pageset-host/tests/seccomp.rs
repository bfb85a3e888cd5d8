//! Filters of system calls: a pool works under a filter that came before it or after it, and no call panics.
//!
//! Each case runs in a forked child, because a filter stays for the life of its process.

use std::io::Write as _;
use std::process::exit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use pageset_host::{AllocError, GiveBack, HugePages, Order, PagePool};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const MIB: usize = 1 << 20;

fn allowed_cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(None).expect("own affinity");
    (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
}

fn pin(cpu: usize) {
    let mut one = CpuSet::new();
    one.set(cpu);
    sched_setaffinity(None, &one).expect("an allowed CPU");
}

/// The system calls that a filter refuses with `EPERM`.
const FENCES: &[libc::c_long] = &[libc::SYS_membarrier];
const FENCES_AND_MOVES: &[libc::c_long] = &[libc::SYS_membarrier, libc::SYS_sched_setaffinity];

/// Refuses system calls in all threads of the process. Returns false if the kernel has no filters.
fn refuse(calls: &[libc::c_long]) -> bool {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    // The number of the call is the first word of `struct seccomp_data`.
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for &call in calls {
        let jump = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        program.push(libc::sock_filter { jf: 1, ..statement(jump, call as u32) });
        program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: (1) the filter lives during the call; (2) it only refuses calls that this test names.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_TSYNC,
                &raw const filter,
            ) == 0
    }
}

/// Runs `case` in a forked child. Ends the process if the child panics, prints to standard error, or hangs.
fn in_child(name: &str, case: fn()) {
    let log = std::env::temp_dir().join(format!("pageset-seccomp-{}", std::process::id()));
    let file = std::fs::File::create(&log).expect("a file");
    // SAFETY: this process has one thread, so the child may make any call.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork");
    if pid == 0 {
        // SAFETY: both descriptors are open.
        unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&file), 2) };
        let end = std::panic::catch_unwind(case);
        let _ = std::io::stdout().flush();
        // SAFETY: the child has nothing to clean up.
        unsafe { libc::_exit(if end.is_ok() { 0 } else { 1 }) };
    }
    let (mut status, end) = (0, Instant::now() + Duration::from_secs(60));
    // SAFETY: `status` is writable, and `pid` is a child of this process.
    while unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } == 0 {
        if Instant::now() > end {
            // SAFETY: `pid` is a child of this process.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        thread::sleep(Duration::from_millis(1));
    }
    let printed = std::fs::read_to_string(&log).unwrap_or_default();
    let _ = std::fs::remove_file(&log);
    assert!(status == 0 && printed.is_empty(), "{name}: status {status:#x}: {printed}");
    println!("{name}: ok");
}

/// [`refuse`], or the end of the case on a machine that cannot run it.
fn refuse_or_skip(calls: &[libc::c_long]) {
    if !refuse(calls) {
        println!("SKIPPED: this kernel has no filters of system calls");
        exit(0);
    }
}

fn pool(bytes: usize) -> PagePool {
    let builder = PagePool::builder(bytes as u64).give_back(GiveBack::OFF).huge_pages(HugePages::None);
    builder.build().expect("a pool")
}

/// Fills the caches of all CPUs, one after another.
fn fill_caches(pool: &Arc<PagePool>) {
    for cpu in allowed_cpus() {
        let pool = Arc::clone(pool);
        let filler = thread::spawn(move || {
            pin(cpu);
            let pages: Vec<_> = (0..500).map(|_| pool.alloc(Order::ZERO).expect("memory")).collect();
            free(&pool, pages);
        });
        filler.join().expect("no panic");
    }
    assert!(pool.stats().cached_bytes > 0);
}

fn free(pool: &PagePool, pages: impl IntoIterator<Item = NonNull<[u8]>>) {
    for page in pages {
        // SAFETY: the page is allocated, and nothing refers to it.
        unsafe { pool.free(page.cast(), Order::ZERO).expect("an allocated page") };
    }
}

/// Allocates all pages that the caller can get.
fn exhaust(pool: &PagePool) -> Vec<NonNull<[u8]>> {
    let mut pages = vec![];
    let error = loop {
        match pool.alloc(Order::ZERO) {
            Ok(page) => pages.push(page),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, AllocError::OutOfMemory { .. }), "{error}");
    pages
}

/// All calls work as without the filter.
fn everything_works(pool: &Arc<PagePool>) {
    let bytes = pool.stats().size_bytes;
    let pages = exhaust(pool);
    assert_eq!(pages.len() * 4096, bytes as usize, "a cache kept pages");
    free(pool, pages);
    fill_caches(pool);
    pool.drain();
    assert_eq!(pool.stats().cached_bytes, 0);
    fill_caches(pool);
    let run = pool.contig_pages(bytes as usize).expect("the whole pool");
    drop(run);
    fill_caches(pool);
    assert!(pool.give_back(u64::MAX).is_ok());
    assert_eq!(pool.shrink(2 * MIB as u64).expect("free memory"), bytes - 2 * MIB as u64);
    assert_eq!(pool.grow(2 * MIB as u64).expect("a reserve"), bytes);
    pool.tick().expect("a tick");
    let ticker = pool.start_ticker(Duration::from_millis(1), |_| ()).expect("a thread");
    thread::sleep(Duration::from_millis(30));
    drop(ticker);
    assert_eq!(pool.stats().in_use_bytes, 0);
}

fn a_filter_before_the_pool() {
    refuse_or_skip(FENCES);
    let pool = Arc::new(pool(32 * MIB));
    fill_caches(&pool);
    everything_works(&pool);
}

fn a_filter_between_two_pools() {
    drop(pool(8 * MIB));
    refuse_or_skip(FENCES_AND_MOVES);
    let pool = Arc::new(pool(32 * MIB));
    let pages = exhaust(&pool);
    assert_eq!(pages.len() * 4096, 32 * MIB);
    free(&pool, pages);
    pool.drain();
    assert_eq!(pool.stats().cached_bytes, 0);
    assert_eq!(pool.contig_pages(32 * MIB).expect("the whole pool").len(), 32 * MIB);
}

fn a_filter_after_the_pool() {
    let pool = Arc::new(pool(32 * MIB));
    fill_caches(&pool);
    let before = sched_getaffinity(None).expect("own affinity");
    refuse_or_skip(FENCES);
    everything_works(&pool);
    assert_eq!(sched_getaffinity(None).expect("own affinity"), before, "a call changed the caller's affinity");
}

/// Drains reach the caller's own cache only. Nothing panics, and the pages of other caches stay usable there.
fn a_filter_that_also_refuses_moves() {
    if cfg!(not(all(target_arch = "x86_64", target_env = "gnu"))) {
        return println!("SKIPPED: without restartable sequences, the locks of caches need no fence");
    }
    let pool = Arc::new(pool(32 * MIB));
    let cpus = allowed_cpus();
    fill_caches(&pool);
    // A thread that stays on the last CPU.
    let (to_there, jobs) = channel::<()>();
    let (to_here, results) = channel();
    let there = {
        let (pool, cpu) = (Arc::clone(&pool), cpus[cpus.len() - 1]);
        thread::spawn(move || {
            pin(cpu);
            to_here.send(0).expect("a receiver");
            for () in jobs {
                let pages = exhaust(&pool);
                to_here.send(pages.len()).expect("a receiver");
                free(&pool, pages);
            }
        })
    };
    pin(cpus[0]);
    // The filter also refuses the other thread's move to its CPU.
    results.recv().expect("the other thread");
    refuse_or_skip(FENCES_AND_MOVES);
    let pages = exhaust(&pool);
    let cached = pool.stats().cached_bytes as usize;
    assert_eq!(pages.len() * 4096 + cached, 32 * MIB);
    assert_eq!(cached > 0, cpus.len() > 1, "a drain reached another cache");
    to_there.send(()).expect("a receiver");
    assert!(results.recv().expect("a result") * 4096 >= cached / cpus.len(), "the other CPU cannot use its cache");
    free(&pool, pages);
    pool.drain();
    for _ in 0..100 {
        pool.tick().expect("a tick");
    }
    let contig = pool.contig_pages(MIB).expect_err("no drain");
    assert_eq!(contig, AllocError::DrainRefused);
    assert!(contig.to_string().contains("sched_setaffinity"), "{contig}");
    let ticker = pool.start_ticker(Duration::from_millis(1), |_| ()).expect("a thread");
    thread::sleep(Duration::from_millis(30));
    drop(ticker);
    drop(to_there);
    there.join().expect("no panic");
    assert_eq!(pool.stats().in_use_bytes, 0);
}

fn main() {
    in_child("a filter before the pool", a_filter_before_the_pool);
    in_child("a filter between two pools", a_filter_between_two_pools);
    in_child("a filter after the pool", a_filter_after_the_pool);
    in_child("a filter that also refuses moves", a_filter_that_also_refuses_moves);
    println!("test result: ok. 4 passed; 0 failed; filters of system calls");
}
