//! Wrong uses that the pool detects. Each returns an error that names the fault and changes nothing. `ci/asan.sh` and
//! `ci/memcheck.sh` run these tests under address sanitizer and valgrind.

use std::num::NonZero;
use std::process::{Command, Output};
use std::ptr::NonNull;

use pageset_host::{FreeReason, HugePages, NodeId, Order, PAGE_BYTES, PagePool, PoolError};

use crate::common::{MIB, order, pointer_to};

#[test]
fn a_wrong_free_names_the_fault_and_changes_nothing() {
    // The caches of a pool of this size hold all pages that the test frees.
    let mut pool = PagePool::builder(1024 * MIB).build().expect("a pool");
    // `run` does not start at a multiple of 4 MiB. The first run of each region does: a thread that changes its CPU gets another such.
    let mut runs: Vec<_> = (0..8).map(|_| pool.alloc(order(2)).expect("memory").cast::<u8>()).collect();
    let run =
        runs.remove(runs.iter().position(|run| !(run.addr().get() as u64).is_multiple_of(4 * MIB)).expect("few CPUs"));
    #[repr(align(4096))]
    struct Page([u8; PAGE_BYTES]);
    let foreign = Box::new(Page([0; PAGE_BYTES]));
    let foreign = NonNull::from(&foreign.0).cast::<u8>();
    let at = |pages: usize| run.map_addr(|a| a.saturating_add(pages * PAGE_BYTES));
    let start = run.addr();
    let before = pool.stats();
    for (address, n, text) in [
        (
            run.map_addr(|a| a.saturating_add(8)),
            2,
            "the address is not a multiple of 4096; try the address that the allocation returned".to_owned(),
        ),
        (run, 1, "the run there has order 2; try that order".to_owned()),
        (run, 10, "no run of that order starts there; try the order of the allocation".to_owned()),
        (at(1), 0, format!("the address is inside the run of order 2 at {start:#x}, which is in use")),
        (at(1), 2, "no run of that order starts there; try the order of the allocation".to_owned()),
        (foreign, 0, "the address is not in this pool; try the pool that allocated it".to_owned()),
        (
            pointer_to(NonZero::new(PAGE_BYTES).expect("not 0")),
            0,
            "the address is not in this pool; try the pool that allocated it".to_owned(),
        ),
    ] {
        // SAFETY: nothing is freed.
        let error = unsafe { pool.free(address, order(n)) }.expect_err("a wrong free");
        let text = format!("cannot free {:#x} as a run of order {n}: {text}", address.addr());
        assert_eq!(error.to_string(), text);
    }
    assert_eq!(pool.stats(), before, "a wrong free changed the counters");
    // SAFETY: the runs are allocated, and nothing refers to them.
    runs.into_iter().chain([run]).for_each(|run| unsafe { pool.free(run, order(2)).expect("was allocated") });
    // SAFETY: nothing is freed.
    let error = unsafe { pool.free(run, order(2)) }.expect_err("a second free");
    assert!(error.to_string().ends_with("the run is already free"), "{error}");
    assert!(matches!(error.reason, FreeReason::Wrong(_)));
    pool.drain();
    // SAFETY: nothing is freed.
    let error = unsafe { pool.free(run, order(2)) }.expect_err("a second free, after a merge");
    assert!(error.to_string().ends_with("which is free"), "{error}");
    pool.audit().expect("a consistent pool");
}

#[test]
fn impossible_settings_are_refused() {
    let size = |bytes| PagePool::builder(bytes).build().expect_err("no such size").to_string();
    assert!(size(0).starts_with("cannot build a pool of 0 bytes: the size is out of range; try 1 to "), "{}", size(0));
    assert!(size(u64::MAX).starts_with("cannot build a pool of 18446744073709551615 bytes: "));
    for (builder, text) in [
        (
            PagePool::builder(8 * MIB).reserve(MIB),
            "cannot build a pool of 8388608 bytes: its reserve is 1048576 bytes; try a reserve of 8388608 bytes or more",
        ),
        (PagePool::builder(8 * MIB).nodes(&[]), "cannot use nodes []: each must have memory and be named once; try ["),
        (
            PagePool::builder(8 * MIB).nodes(&[NodeId(0), NodeId(0)]),
            "cannot use nodes [0, 0]: each must have memory and be named once; try [",
        ),
        (
            PagePool::builder(8 * MIB).huge_pages(HugePages::Explicit).reserve(16 * MIB),
            "cannot reserve address space for growth: the system reserves explicit huge pages at once; try no reserve",
        ),
    ] {
        let error = builder.build().expect_err("impossible settings").to_string();
        assert!(error.starts_with(text), "{error}");
    }
    let tuning = pageset_host::Tuning { batch_scale_max: 7, ..Default::default() };
    let error = PagePool::builder(8 * MIB).tuning(tuning).build().expect_err("an impossible tuning");
    assert!(matches!(error, PoolError::Config(_)), "{error}");
}

/// No machine sets apart as many huge pages.
#[test]
fn a_lack_of_huge_pages_is_an_error() {
    let error = PagePool::builder(8 << 40).huge_pages(HugePages::Explicit).build().expect_err("8 TiB of huge pages");
    assert!(error.to_string().starts_with("cannot reserve huge pages (8796093022208 bytes): "), "{error}");
    assert!(error.to_string().contains("vm.nr_hugepages"), "{error}");
}

/// A child process runs the test under a limit on its address space.
#[test]
fn no_address_space() {
    const TEST: &str = "no_address_space";
    if is_child(TEST) {
        println!("{}", PagePool::builder(64 << 30).build().expect_err("64 GiB in 1 GiB of address space"));
        PagePool::builder(8 * MIB).build().expect("8 MiB");
        return;
    }
    let out = child(TEST, "ulimit -v 1048576");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("cannot reserve address space (68719476736 bytes): "), "{text}");
    assert!(text.contains("ulimit -v"), "{text}");
}

#[test]
fn oversized_requests_are_refused() {
    let pool = PagePool::builder(8 * MIB).reserve(16 * MIB).build().expect("a pool");
    for bytes in [u64::MAX, u64::MAX - 1, 1 << 63, 1 << 52] {
        for builder in [PagePool::builder(bytes), PagePool::builder(MIB).reserve(bytes)] {
            let error = builder.build().expect_err("impossible settings").to_string();
            assert!(
                error
                    .starts_with(&format!("cannot build a pool of {bytes} bytes: the size is out of range; try 1 to ")),
                "{error}"
            );
        }
        assert!(matches!(pool.grow(bytes), Err(PoolError::GrowSize { .. })));
        assert!(matches!(pool.shrink(bytes), Err(PoolError::ShrinkSize { .. })));
    }
    assert_eq!(pageset_host::order_for(usize::MAX), None);
    let highest = pointer_to(NonZero::new(usize::MAX & !(PAGE_BYTES - 1)).expect("not 0"));
    // SAFETY: nothing is freed.
    let error = unsafe { pool.free(highest, Order::MAX) }.expect_err("foreign");
    assert!(error.to_string().ends_with("the address is not in this pool; try the pool that allocated it"), "{error}");
    // SAFETY: nothing is freed.
    let error = unsafe { pool.free_contig(NonNull::slice_from_raw_parts(highest, PAGE_BYTES)) }.expect_err("foreign");
    assert!(error.to_string().ends_with("the address is not in this pool; try the pool that allocated it"), "{error}");
    assert_eq!(pool.stats().size_bytes, 8 * MIB);
}

/// A child process locks all memory that it maps, and may lock less than the pool needs.
#[test]
fn locked_memory_beyond_the_limit() {
    const TEST: &str = "locked_memory_beyond_the_limit";
    if !is_child(TEST) {
        let out = child(TEST, "ulimit -l 4096");
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
        assert!(text.contains("SKIPPED") || text.contains("cannot reserve address space (67108864 bytes): "), "{text}");
        assert!(text.contains("SKIPPED") || text.contains("ulimit -l") && text.contains("MCL_FUTURE"), "{text}");
        return println!("{}", text.lines().find(|line| line.contains("SKIPPED")).unwrap_or_default());
    }
    // SAFETY: the calls give up root and lock later mappings. Both affect only this process.
    let locked = unsafe { (libc::geteuid() != 0 || libc::setuid(65534) == 0) && libc::mlockall(libc::MCL_FUTURE) == 0 };
    if !locked {
        return println!("SKIPPED {TEST}: {}", std::io::Error::last_os_error());
    }
    println!("{}", PagePool::builder(64 * MIB).build().expect_err("the limit is 4 MiB"));
    // SAFETY: the call only unlocks memory.
    unsafe { libc::munlockall() };
    PagePool::builder(64 * MIB).build().expect("memory is no longer locked");
}

/// The environment variable that tells a child process which test to run.
const CHILD: &str = "PAGESET_TEST_CHILD";

fn is_child(test: &str) -> bool {
    std::env::var_os(CHILD).is_some_and(|name| name == test)
}

/// Runs one test in a child process. The shell command `limit` sets its limits.
fn child(test: &str, limit: &str) -> Output {
    let exe = std::env::current_exe().expect("this test");
    let command = format!("{limit}; exec '{}' --exact bad_use::{test} --nocapture", exe.display());
    Command::new("sh").args(["-c", &command]).env(CHILD, test).output().expect("a shell")
}
