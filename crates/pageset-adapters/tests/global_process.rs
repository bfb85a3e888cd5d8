//! Processes of a program with this global allocator: what ends the program, and what a forked child can do.

use std::alloc::{GlobalAlloc, Layout};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pageset_adapters::global::PagesetAlloc;
use pageset_host::{OnFork, PagePool};

/// Children need the memory of this pool, so the allocator ignores `OnFork::Absent`.
#[global_allocator]
static ALLOC: PagesetAlloc = PagesetAlloc::new(|| PagePool::builder(64 << 20).on_fork(OnFork::Absent));

/// The argument that makes the program free a block twice.
const FREE_TWICE: &str = "free-twice";
/// The argument that makes the program use an allocator whose settings panic.
const PANIC: &str = "panic";
/// Seconds until a child that waits for ever is killed. A guess: a child takes some milliseconds.
const CHILD_SECONDS: u32 = 30;

fn free_twice() {
    let layout = Layout::from_size_align(4096, 8).expect("a layout");
    // SAFETY: the second free is the fault that the test makes; nothing uses the block.
    unsafe {
        let start = ALLOC.alloc(layout);
        ALLOC.dealloc(start, layout);
        ALLOC.dealloc(start, layout);
    }
}

fn panic_in_settings() {
    static PANICS: PagesetAlloc = PagesetAlloc::new(|| panic!("there are no settings"));
    // SAFETY: the size is not 0.
    let unwound = std::panic::catch_unwind(|| unsafe { PANICS.alloc(Layout::new::<u64>()) });
    assert!(unwound.is_err(), "the program has ended");
}

/// Runs this program with an argument. It must abort after a message with these words.
fn aborts(argument: &str, words: [&str; 2]) {
    let program = std::env::current_exe().expect("its own path");
    let output = Command::new(program).arg(argument).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said}");
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

/// Forks, and checks that `is_right` is true in the child.
fn in_child(is_right: impl FnOnce() -> bool) {
    // SAFETY: the child allocates, which glibc allows after a fork of several threads too, and ends with `_exit`.
    match unsafe { libc::fork() } {
        -1 => panic!("cannot fork"),
        0 => {
            // SAFETY: a timer that ends the child.
            unsafe { libc::alarm(CHILD_SECONDS) };
            let code = if is_right() { 0 } else { 1 };
            // SAFETY: ends the child.
            unsafe { libc::_exit(code) }
        }
        child => {
            let mut status = 0;
            // SAFETY: waits for the child, and `status` lives.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "the child failed");
        }
    }
}

/// Whether memory is of the pool.
fn is_pooled(start: *const u8) -> bool {
    let space = ALLOC.with_pool(|pool| pool.memory().address_space()).expect("it was built");
    start.addr().wrapping_sub(space.cast::<u8>().addr().get()) < space.len()
}

/// The child reads, resizes and frees its parent's memory, and allocates from the system.
fn child_of_one_thread() {
    let before: Vec<String> = (0..1000).map(|n| format!("number {n}")).collect();
    assert!(is_pooled(before[0].as_ptr()));
    in_child(|| {
        let mut all = before.clone();
        let is_copy_of_system = !is_pooled(all[0].as_ptr());
        all.extend((1000..5000).map(|n| format!("number {n}")));
        let has_all = all.iter().enumerate().all(|(n, text)| *text == format!("number {n}"));
        let can_tick = ALLOC.with_pool(|pool| pool.tick().is_ok()) == Some(true);
        is_copy_of_system && has_all && can_tick
    });
    let mut grown: Vec<u64> = (0..1000).collect();
    in_child(|| {
        grown.extend(1000..100_000);
        let is_right =
            !is_pooled(grown.as_ptr().cast()) && grown.iter().enumerate().all(|(n, &value)| value == n as u64);
        grown = Vec::new();
        // A child of the child.
        in_child(|| vec![7; 1000].iter().sum::<i32>() == 7000);
        is_right
    });
    grown.push(1000);
    assert!(is_pooled(grown.as_ptr().cast()) && grown.len() == 1001, "the parent keeps its pool");
    assert!(before.iter().enumerate().all(|(n, text)| *text == format!("number {n}")));
}

/// At the fork, other threads hold locks of slabs and of the pool, which no thread of the child releases.
fn children_of_busy_threads() {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let all: Vec<Vec<u8>> = (0..200).map(|n| vec![1; n * 40]).collect();
                    assert_eq!(all[199].len(), 199 * 40);
                }
            });
        }
        let before: Vec<String> = (0..100).map(|n| format!("number {n}")).collect();
        for _ in 0..50 {
            in_child(|| {
                let mut all = before.clone();
                all.extend((100..1000).map(|n| format!("number {n}")));
                all.iter().enumerate().all(|(n, text)| *text == format!("number {n}"))
            });
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some(FREE_TWICE) => return free_twice(),
        Some(PANIC) => return panic_in_settings(),
        _ => {}
    }
    aborts(FREE_TWICE, ["pageset: cannot free", "already free"]);
    println!("a second free ends the program: ok");
    aborts(PANIC, ["there are no settings", "global_process"]);
    println!("settings that panic end the program: ok");
    child_of_one_thread();
    println!("a forked child allocates from the system: ok");
    children_of_busy_threads();
    println!("a child of a process with busy threads waits for none of them: ok");
    assert!(Command::new("true").status().expect("a program starts").success());
}
