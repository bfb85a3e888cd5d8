//! Processes of a program with this global allocator. A forked child allocates from the system, and reads and frees its parent's
//! memory. A second free of a block ends the program with a message.

use std::alloc::{GlobalAlloc, Layout};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use pageset_adapters::global::PagesetAlloc;
use pageset_host::PagePool;

#[global_allocator]
static ALLOC: PagesetAlloc = PagesetAlloc::new(|| PagePool::builder(64 << 20));

/// The argument that makes the program free a block twice.
const FREE_TWICE: &str = "free-twice";

fn free_twice() {
    let layout = Layout::from_size_align(4096, 8).expect("a layout");
    // SAFETY: the second free is the fault that the test makes; nothing uses the block.
    unsafe {
        let start = ALLOC.alloc(layout);
        ALLOC.dealloc(start, layout);
        ALLOC.dealloc(start, layout);
    }
}

fn main() {
    if std::env::args().any(|argument| argument == FREE_TWICE) {
        return free_twice();
    }
    let program = std::env::current_exe().expect("its own path");
    let output = Command::new(program).arg(FREE_TWICE).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said}");
    assert!(said.contains("pageset: cannot free") && said.contains("already free"), "{said}");
    println!("a second free ends the program: ok");

    let before: Vec<String> = (0..1000).map(|n| format!("number {n}")).collect();
    assert!(ALLOC.with_pool(|pool| pool.stats().in_use_bytes > 0) == Some(true));
    // SAFETY: the program has one thread, and the child ends with `_exit`.
    match unsafe { libc::fork() } {
        -1 => panic!("cannot fork"),
        0 => {
            let mut all = before;
            all.extend((1000..5000).map(|n| format!("number {n}")));
            let is_right = all.iter().enumerate().all(|(n, text)| *text == format!("number {n}"));
            drop(all);
            // SAFETY: ends the child.
            unsafe { libc::_exit(if is_right { 0 } else { 1 }) }
        }
        child => {
            let mut status = 0;
            // SAFETY: waits for the child, and `status` lives.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "the child failed");
        }
    }
    assert_eq!(before[999], "number 999");
    let output = Command::new("true").status().expect("a program starts");
    assert!(output.success());
    println!("a forked child allocates from the system: ok");
}
