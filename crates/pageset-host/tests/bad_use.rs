//! Everything that a caller can do wrong and the pool can see: an error that says what, and nothing changed. `ci/asan.sh`
//! and `ci/memcheck.sh` run this under address sanitizer and valgrind.

use std::num::NonZero;
use std::process::{Command, Output};
use std::ptr::NonNull;

use pageset_host::{FreeReason, HugePages, NodeId, Order, PAGE_BYTES, PagePool, PoolError};

const MIB: u64 = 1 << 20;

fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

fn at_address(address: NonZero<usize>) -> NonNull<u8> {
    NonNull::dangling().map_addr(|_| address)
}

#[test]
fn wrong_frees_say_what_is_wrong_and_change_nothing() {
    // Caches of a pool of this size keep what the test frees.
    let mut pool = PagePool::builder(1024 * MIB).build().expect("a pool");
    // The first begins where 4 MiB do, the second does not.
    let first = pool.alloc(order(2)).expect("memory").cast::<u8>();
    let run = pool.alloc(order(2)).expect("memory").cast::<u8>();
    #[repr(align(4096))]
    struct Page([u8; PAGE_BYTES]);
    let foreign = Box::new(Page([0; PAGE_BYTES]));
    let foreign = NonNull::from(&foreign.0).cast::<u8>();
    let at = |pages: usize| run.map_addr(|a| a.saturating_add(pages * PAGE_BYTES));
    let start = run.addr();
    let before = pool.stats();
    for (address, n, text) in [
        (run.map_addr(|a| a.saturating_add(8)), 2, "it is not a multiple of 4096".to_owned()),
        (run, 1, "the run there has order 2".to_owned()),
        (run, 10, "no run of that order starts there".to_owned()),
        (at(1), 0, format!("it is inside the run of order 2 at {start:#x}, which is in use")),
        (at(1), 2, "no run of that order starts there".to_owned()),
        (foreign, 0, "it is not in this pool".to_owned()),
        (at_address(NonZero::new(PAGE_BYTES).expect("one")), 0, "it is not in this pool".to_owned()),
    ] {
        // SAFETY: nothing is freed.
        let error = unsafe { pool.free(address, order(n)) }.expect_err("a wrong free");
        let text = format!("{:#x} cannot be freed as a run of order {n}: {text}", address.addr());
        assert_eq!(error.to_string(), text);
    }
    assert_eq!(pool.stats(), before, "nothing has changed");
    // SAFETY: ours, and not referred to.
    [first, run].into_iter().for_each(|run| unsafe { pool.free(run, order(2)).expect("was allocated") });
    // SAFETY: nothing is freed.
    let error = unsafe { pool.free(run, order(2)) }.expect_err("a second free");
    assert!(error.to_string().ends_with("it is free already"), "{error}");
    assert!(matches!(error.reason, FreeReason::Wrong(_)));
    pool.drain();
    // SAFETY: nothing is freed.
    let error = unsafe { pool.free(run, order(2)) }.expect_err("a second free, merged since");
    assert!(error.to_string().ends_with("which is free"), "{error}");
    pool.audit().expect("the books add up");
}

#[test]
fn pools_that_cannot_be_had() {
    let size = |bytes| PagePool::builder(bytes).build().expect_err("cannot be had").to_string();
    assert!(size(0).starts_with("a pool of 0 bytes cannot be had; allowed: 1 to "), "{}", size(0));
    assert!(size(u64::MAX).starts_with("a pool of 18446744073709551615 bytes cannot be had"));
    for (builder, text) in [
        (PagePool::builder(8 * MIB).reserve(MIB), "the pool begins with 8388608 bytes but may grow to 1048576 only"),
        (PagePool::builder(8 * MIB).nodes(&[]), "nodes [] were asked for; allowed: one or more of ["),
        (
            PagePool::builder(8 * MIB).nodes(&[NodeId(0), NodeId(0)]),
            "nodes [0, 0] were asked for; allowed: one or more of [",
        ),
        (
            PagePool::builder(8 * MIB).huge_pages(HugePages::Explicit).reserve(16 * MIB),
            "a pool of explicit huge pages cannot grow: they are reserved at once",
        ),
    ] {
        let error = builder.build().expect_err("cannot be had").to_string();
        assert!(error.starts_with(text), "{error}");
    }
    let tuning = pageset_host::Tuning { batch_scale_max: 7, ..Default::default() };
    let error = PagePool::builder(8 * MIB).tuning(tuning).build().expect_err("no such rules");
    assert!(matches!(error, PoolError::Config(_)), "{error}");
}

/// More huge pages than any machine has set apart.
#[test]
fn huge_pages_that_nobody_set_apart() {
    let error = PagePool::builder(8 << 40).huge_pages(HugePages::Explicit).build().expect_err("8 TiB of huge pages");
    assert!(error.to_string().starts_with("reserving huge pages of 8796093022208 bytes failed: "), "{error}");
    assert!(error.to_string().contains("vm.nr_hugepages"), "{error}");
}

/// The limit on address space is that of a process of its own.
#[test]
fn no_address_space() {
    const TEST: &str = "no_address_space";
    if is_child(TEST) {
        println!("{}", PagePool::builder(64 << 30).build().expect_err("64 GiB in 1 GiB of address space"));
        // And a smaller one can be had all the same.
        PagePool::builder(8 * MIB).build().expect("8 MiB");
        return;
    }
    let out = child(TEST, "ulimit -v 1048576");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("reserving address space of 68719476736 bytes failed: "), "{text}");
    assert!(text.contains("ulimit -v"), "{text}");
}

#[test]
fn sizes_that_overflow() {
    let pool = PagePool::builder(8 * MIB).reserve(16 * MIB).build().expect("a pool");
    for bytes in [u64::MAX, u64::MAX - 1, 1 << 63, 1 << 52] {
        for builder in [PagePool::builder(bytes), PagePool::builder(MIB).reserve(bytes)] {
            let error = builder.build().expect_err("cannot be had").to_string();
            assert!(error.starts_with(&format!("a pool of {bytes} bytes cannot be had; allowed: 1 to ")), "{error}");
        }
        assert!(matches!(pool.grow(bytes), Err(PoolError::GrowSize { .. })));
        assert!(matches!(pool.shrink(bytes), Err(PoolError::ShrinkSize { .. })));
    }
    assert_eq!(pageset_host::order_for(usize::MAX), None);
    let highest = at_address(NonZero::new(usize::MAX & !(PAGE_BYTES - 1)).expect("not 0"));
    // SAFETY: nothing is freed.
    let error = unsafe { pool.free(highest, Order::MAX) }.expect_err("foreign");
    assert!(error.to_string().ends_with("it is not in this pool"), "{error}");
    // SAFETY: as above.
    let error = unsafe { pool.free_contig(NonNull::slice_from_raw_parts(highest, PAGE_BYTES)) }.expect_err("foreign");
    assert!(error.to_string().ends_with("it is not in this pool"), "{error}");
    assert_eq!(pool.stats().size_bytes, 8 * MIB);
}

/// Memory that is locked as it comes is more than an unprivileged process may lock.
#[test]
fn locked_memory_beyond_the_limit() {
    const TEST: &str = "locked_memory_beyond_the_limit";
    if !is_child(TEST) {
        let out = child(TEST, "ulimit -l 4096");
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
        assert!(
            text.contains("SKIPPED") || text.contains("reserving address space of 67108864 bytes failed: "),
            "{text}"
        );
        assert!(text.contains("SKIPPED") || text.contains("ulimit -l") && text.contains("MCL_FUTURE"), "{text}");
        return println!("{}", text.lines().find(|line| line.contains("SKIPPED")).unwrap_or_default());
    }
    // SAFETY: root is given up, and what is mapped from now on is locked: both are this process's own.
    let locked = unsafe { (libc::geteuid() != 0 || libc::setuid(65534) == 0) && libc::mlockall(libc::MCL_FUTURE) == 0 };
    if !locked {
        return println!("SKIPPED {TEST}: {}", std::io::Error::last_os_error());
    }
    println!("{}", PagePool::builder(64 * MIB).build().expect_err("4 MiB may be locked"));
    // SAFETY: unlocks what the line above locked.
    unsafe { libc::munlockall() };
    PagePool::builder(64 * MIB).build().expect("nothing is locked any more");
}

/// Says to a copy of this test which part of it is the child's.
const CHILD: &str = "PAGESET_TEST_CHILD";

fn is_child(test: &str) -> bool {
    std::env::var_os(CHILD).is_some_and(|name| name == test)
}

/// Runs one test in a process of its own, under limits that a shell sets.
fn child(test: &str, limit: &str) -> Output {
    let exe = std::env::current_exe().expect("this test");
    let command = format!("{limit}; exec '{}' --exact {test} --nocapture", exe.display());
    Command::new("sh").args(["-c", &command]).env(CHILD, test).output().expect("a shell")
}
