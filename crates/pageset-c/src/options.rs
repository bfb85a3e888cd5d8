//! The settings of a pool, and its creation.

use std::ffi::{CStr, c_char};
use std::mem::offset_of;
use std::time::Duration;

use pageset_host::{
    FreeCheck, GiveBack, GiveBackParts, HugePages, Memory, NodeId, OnFork, Order, PagePool, PoolBuilder, Tuning,
};
use pageset_rules::RuleSet;

use crate::error::{Failure, catch_code, catch_uncancelled_code, not_null, pageset_error};
use crate::handle::pageset_pool;
use crate::versioned::{Versioned, read_sized, write_sized};

/// Base pages of the system only.
pub const PAGESET_HUGE_NONE: u32 = 0;
/// Huge pages where the system finds them. The default.
pub const PAGESET_HUGE_TRANSPARENT: u32 = 1;
/// Huge pages that an administrator has set apart (vm.nr_hugepages). Creating the pool reserves them.
pub const PAGESET_HUGE_EXPLICIT: u32 = 2;
/// Huge pages of 1 GiB that an administrator has set apart, in /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages or at
/// boot. Creating the pool reserves them, and rounds its size up to 1 GiB for each node. The pool gives no memory back, except
/// that pageset_shrink returns each whole page of 1 GiB in the memory that it takes out of use.
pub const PAGESET_HUGE_EXPLICIT_1GIB: u32 = 3;

/// Memory of this process only. The default.
pub const PAGESET_MEMORY_PRIVATE: u32 = 0;
/// A file in memory (memfd) that other processes can map. pageset_memory_fd returns its descriptor. Needs
/// PAGESET_FORK_ABSENT: a forked child would otherwise share the pages. With PAGESET_HUGE_EXPLICIT, only pageset_give_back and
/// pageset_shrink give memory back. It is then no longer reserved: if the system has no free huge page when the pool needs it
/// again, a touch ends the process (SIGBUS).
pub const PAGESET_MEMORY_SHARED: u32 = 1;

/// A forked child sees a copy of the pages. The default.
pub const PAGESET_FORK_COPY: u32 = 0;
/// A forked child does not see the pages, which makes forks cheaper. A touch ends the child. If the child has mapped other
/// memory at that address, the touch reaches that memory.
pub const PAGESET_FORK_ABSENT: u32 = 1;

/// All frees, except those of pageset_free_bulk. The default.
pub const PAGESET_CHECK_SINGLE: u32 = 0;
/// All frees. pageset_free_bulk then takes 1.1 to 1.5 ns more for each page (AMD EPYC).
pub const PAGESET_CHECK_ALL: u32 = 1;
/// Frees of orders 4 to 8 and 10, and frees that drain a cache. A free into a cache then takes 0.2 to 0.3 ns less.
pub const PAGESET_CHECK_BASIC: u32 = 2;

/// The settings of a pool. Fill them in with pageset_options_init, then change some. Later versions may add members at the
/// end. Programs that were built before then keep working.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct pageset_options {
    /// `sizeof(pageset_options)`. pageset_options_init sets it.
    pub size: usize,
    /// The initial size in bytes, above 0 and below 16 TiB for each node. It is rounded up to 2 MiB for each node.
    pub bytes: u64,
    /// The size in bytes up to which the pool can grow, at least `bytes`; 0 means `bytes`.
    pub reserve_bytes: u64,
    /// PAGESET_HUGE_NONE, PAGESET_HUGE_TRANSPARENT, PAGESET_HUGE_EXPLICIT or PAGESET_HUGE_EXPLICIT_1GIB.
    pub huge_pages: u32,
    /// PAGESET_FORK_COPY or PAGESET_FORK_ABSENT.
    pub on_fork: u32,
    /// If not 0, creating the pool makes all its memory resident. Default: 0.
    pub prefault: u32,
    /// The length of `nodes`, 0 to 1024; 0 means all nodes that have memory.
    pub node_count: u32,
    /// The numbers of the nodes that provide the memory, each once. May be NULL if `node_count` is 0. Only
    /// pageset_pool_create reads it.
    pub nodes: *const u32,
    /// The time between two scans for free memory to give back to the system, in milliseconds. Default: 1000.
    pub give_back_interval_ms: u32,
    /// How many scans in a row must find memory free before it goes back, 1 to 250. Default: 5.
    pub give_back_after_scans: u32,
    /// The most that one scan gives back in bytes. Default: 64 MiB. With 0, only pageset_give_back gives memory back.
    pub give_back_bytes_per_scan: u64,
    /// The rules by which caches refill, drain and size themselves: a name, or a file whose name ends in .toml, then perhaps
    /// changes, as in "linux-6.18 batch=31 decay=fifth". NULL, the default: the rules "pageset" with a batch that is a power of two.
    /// Only pageset_pool_create reads it.
    pub rules: *const c_char,
    /// If not 0, threads take the lock of a cache without restartable sequences. Default: 0.
    ///
    /// Set it for a program that later forbids itself membarrier, and under ThreadSanitizer. An allocation and its free then
    /// take 2 to 8 ns more each.
    pub no_restartable_sequences: u32,
    /// PAGESET_CHECK_SINGLE, PAGESET_CHECK_ALL or PAGESET_CHECK_BASIC: which frees are certain to notice another free of the
    /// same run at the same instant.
    pub free_check: u32,
    /// How many bytes can be in use at the same time, 1 to `bytes`; 0, the default, means all. See pageset_set_limit.
    pub limit_bytes: u64,
    /// If not 0, each free fills the run with zeros, so that no later owner reads what the last one wrote. Default: 0.
    pub zero_on_free: u32,
    /// If not 0, only whole blocks of 2 MiB go back to the system. Default: 0, so parts of blocks with runs in use also go back.
    pub no_give_back_parts: u32,
    /// How many times as many scans as `give_back_after_scans` must find a part of a block free, 1 to 255; 0 means 4.
    pub give_back_parts_after_scans_factor: u32,
    /// The smallest free run that goes back as a part of a block, order 0 to 10. Default: 0.
    pub give_back_parts_min_order: u32,
    /// How much of a 2 MiB block must have stayed free before parts of it go back, in bytes; 0 means 512 KiB, 1 means any.
    pub give_back_parts_min_free_bytes: u32,
    /// The most system calls that give parts back in one scan; 0 means 1024.
    pub give_back_parts_calls_per_scan: u32,
    /// The name of the memory in /proc/self/maps: 1 to 79 printable ASCII characters, except `[`, `]`, `\`, `$` and the
    /// backquote. NULL, the default: no name, of shared memory "pageset". Only pageset_pool_create reads it.
    ///
    /// Private memory needs Linux 5.17 with CONFIG_ANON_VMA_NAME, and no explicit huge pages. It has no name otherwise.
    pub name: *const c_char,
    /// PAGESET_MEMORY_PRIVATE or PAGESET_MEMORY_SHARED.
    pub memory: u32,
    /// If not 0, each page of the pool that is resident stays resident (mlock2 with MLOCK_ONFAULT), also a page that is first
    /// touched later. Default: 0. With `prefault`, all pages are resident and locked from the start.
    ///
    /// Scans then give no memory back, and the system refuses pageset_give_back and pageset_shrink. The whole address space
    /// counts, including the reserve: a process without CAP_IPC_LOCK may lock `ulimit -l` bytes. Creating the pool fails with
    /// PAGESET_ERR_SYSTEM above that.
    pub lock: u32,
}

// SAFETY: (1) any bytes are valid numbers and pointers; (2) each member starts where the one before ends, as asserted below.
unsafe impl Versioned for pageset_options {
    const FIRST_BYTES: usize = offset_of!(pageset_options, rules);
}

const _: () = assert!(size_of::<pageset_options>() == 128 && pageset_options::FIRST_BYTES == 64);

/// Fills in the options of a pool of `bytes`, with defaults for all other settings. `size` is `sizeof *options`.
///
/// PAGESET_ERR_ARGUMENT if `options` is NULL or `size` is less than that of the first version.
///
/// # Safety
/// `options` is NULL or has `size` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_options_init(options: *mut pageset_options, size: usize, bytes: u64) -> pageset_error {
    catch_code(|| {
        not_null(options, "options")?;
        let policy = GiveBack::default();
        let value = pageset_options {
            size,
            bytes,
            reserve_bytes: 0,
            huge_pages: PAGESET_HUGE_TRANSPARENT,
            on_fork: PAGESET_FORK_COPY,
            prefault: 0,
            node_count: 0,
            nodes: std::ptr::null(),
            give_back_interval_ms: policy.interval.as_millis() as u32,
            give_back_after_scans: policy.after_scans.into(),
            give_back_bytes_per_scan: policy.bytes_per_scan,
            rules: std::ptr::null(),
            no_restartable_sequences: 0,
            free_check: PAGESET_CHECK_SINGLE,
            limit_bytes: 0,
            zero_on_free: 0,
            no_give_back_parts: 0,
            give_back_parts_after_scans_factor: 0,
            give_back_parts_min_order: 0,
            give_back_parts_min_free_bytes: 0,
            give_back_parts_calls_per_scan: 0,
            name: std::ptr::null(),
            memory: PAGESET_MEMORY_PRIVATE,
            lock: 0,
        };
        // SAFETY: `options` is not NULL, so the program guarantees `size` writable bytes.
        unsafe { write_sized(options, value, size, "options") }
    })
}

/// Converts the options of a program.
///
/// # Safety
/// (1) `options.nodes` is NULL or has `options.node_count` readable numbers. (2) `options.rules` and
/// `options.name` are NULL or texts that end in a zero byte.
unsafe fn builder(options: &pageset_options) -> Result<PoolBuilder, Failure> {
    let mut builder = PagePool::builder(options.bytes).prefault(options.prefault != 0);
    if options.reserve_bytes > 0 {
        builder = builder.reserve(options.reserve_bytes);
    }
    builder = builder.huge_pages(match options.huge_pages {
        PAGESET_HUGE_NONE => HugePages::None,
        PAGESET_HUGE_TRANSPARENT => HugePages::Transparent,
        PAGESET_HUGE_EXPLICIT => HugePages::Explicit,
        PAGESET_HUGE_EXPLICIT_1GIB => HugePages::Explicit1GiB,
        value => return Err(out_of_range("huge_pages", value, "0 to 3")),
    });
    builder = builder.on_fork(match options.on_fork {
        PAGESET_FORK_COPY => OnFork::Copy,
        PAGESET_FORK_ABSENT => OnFork::Absent,
        value => return Err(out_of_range("on_fork", value, "0 or 1")),
    });
    let after_scans = options.give_back_after_scans;
    if !(1..=250).contains(&after_scans) {
        return Err(out_of_range("give_back_after_scans", after_scans, "1 to 250"));
    }
    builder = builder.give_back(GiveBack {
        interval: Duration::from_millis(options.give_back_interval_ms.into()),
        after_scans: after_scans as u8,
        // The system keeps locked memory.
        bytes_per_scan: if options.lock != 0 { 0 } else { options.give_back_bytes_per_scan },
    });
    builder = builder.restartable_sequences(options.no_restartable_sequences == 0);
    builder = builder.free_check(match options.free_check {
        PAGESET_CHECK_SINGLE => FreeCheck::Single,
        PAGESET_CHECK_ALL => FreeCheck::All,
        PAGESET_CHECK_BASIC => FreeCheck::Basic,
        value => return Err(out_of_range("free_check", value, "0 to 2")),
    });
    builder = builder.give_back_parts(parts(options)?).zero_on_free(options.zero_on_free != 0);
    if options.limit_bytes > 0 {
        builder = builder.limit(options.limit_bytes);
    }
    builder = builder.memory(match options.memory {
        PAGESET_MEMORY_PRIVATE => Memory::Private,
        PAGESET_MEMORY_SHARED => Memory::Shared,
        value => return Err(out_of_range("memory", value, "0 or 1")),
    });
    if options.memory == PAGESET_MEMORY_SHARED && options.on_fork == PAGESET_FORK_COPY {
        return Err(Failure::SharedCopy);
    }
    if !options.name.is_null() {
        // SAFETY: `name` is not NULL, so the caller guarantees a text that ends in a zero byte.
        let name = unsafe { CStr::from_ptr(options.name) };
        builder = builder.name(&name.to_string_lossy());
    }
    if !options.rules.is_null() {
        // SAFETY: `rules` is not NULL, so the caller guarantees a text that ends in a zero byte.
        let name = unsafe { CStr::from_ptr(options.rules) };
        builder = builder.tuning(rules(&name.to_string_lossy())?);
    }
    if options.node_count > 0 {
        not_null(options.nodes, "nodes")?;
        if options.node_count > 1024 {
            return Err(out_of_range("node_count", options.node_count, "0 to 1024"));
        }
        // SAFETY: `nodes` is not NULL, so the caller guarantees that many readable numbers.
        let nodes = unsafe { std::slice::from_raw_parts(options.nodes, options.node_count as usize) };
        builder = builder.nodes(&nodes.iter().copied().map(NodeId).collect::<Vec<_>>());
    }
    Ok(builder)
}

/// Locks the resident pages of a pool, and each other page when it is first touched.
fn lock(pool: &PagePool) -> Result<(), Failure> {
    let space = pool.memory().address_space();
    // SAFETY: the range is a mapping of the pool; the call changes neither contents nor access.
    if unsafe { libc::mlock2(space.cast().as_ptr(), space.len(), libc::MLOCK_ONFAULT as libc::c_uint) } == 0 {
        return Ok(());
    }
    let source = std::io::Error::last_os_error();
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    Err(Failure::Lock { bytes: space.len() as u64, limit_bytes: limit.rlim_cur, source })
}

/// Which parts of blocks go back. In each option, 0 means the default.
fn parts(options: &pageset_options) -> Result<GiveBackParts, Failure> {
    if options.no_give_back_parts != 0 {
        return Ok(GiveBackParts::OFF);
    }
    let or_default = |value: u32, default: u32| if value == 0 { default } else { value };
    let defaults = GiveBackParts::default();
    let factor = options.give_back_parts_after_scans_factor;
    let order = options.give_back_parts_min_order;
    Ok(GiveBackParts {
        after_scans_factor: or_default(factor, defaults.after_scans_factor.into())
            .try_into()
            .map_err(|_| out_of_range("give_back_parts_after_scans_factor", factor, "0 to 255"))?,
        min_order: order
            .try_into()
            .ok()
            .and_then(Order::new)
            .ok_or_else(|| out_of_range("give_back_parts_min_order", order, "0 to 10"))?,
        min_free_bytes: or_default(options.give_back_parts_min_free_bytes, defaults.min_free_bytes),
        calls_per_scan: or_default(options.give_back_parts_calls_per_scan, defaults.calls_per_scan),
    })
}

/// The rules of a set by its name, perhaps with changes. Rules that kernels dropped or never merged are not in this library.
fn rules(text: &str) -> Result<Tuning, Failure> {
    let wrong = |reason: String| Failure::Rules { text: text.to_owned(), reason };
    let set = RuleSet::parse(text).map_err(|error| wrong(error.to_string()))?;
    if let Some(rule) = set.tuning.research_rule() {
        return Err(wrong(format!(
            "this library does not have the rule {rule}, which kernels dropped or never merged"
        )));
    }
    if set.high_fraction.is_some() || set.cache_slice_pages.is_some() {
        return Err(wrong("a pool has no high_fraction and no cache_slice_pages".to_owned()));
    }
    Ok(set.tuning)
}

/// Creates a pool and writes its handle to `*pool`. The program destroys it with pageset_pool_destroy.
///
/// PAGESET_ERR_ARGUMENT if a pointer is NULL, or an option or the size of the options is out of range.
/// PAGESET_ERR_NO_NODE if a node has no memory for this process or is named twice. PAGESET_ERR_SYSTEM if the system
/// refuses memory. After an error, `*pool` is NULL.
///
/// # Safety
/// `options` is NULL or was filled in by pageset_options_init. `pool` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_pool_create(
    options: *const pageset_options,
    pool: *mut *mut pageset_pool,
) -> pageset_error {
    catch_uncancelled_code(|| {
        not_null(pool, "pool")?;
        // SAFETY: `pool` is not NULL, so the program guarantees that it is writable.
        unsafe { pool.write(std::ptr::null_mut()) };
        not_null(options, "options")?;
        // SAFETY: (1) `options` is not NULL, so the program guarantees that it has the bytes that its `size` says; (2)
        // `options.nodes`, `options.rules` and `options.name` are valid, and `pool` is writable, by the same guarantee.
        unsafe {
            let options = read_sized(options, (*options).size, "options")?;
            let built = builder(&options)?.build()?;
            if options.lock != 0 {
                lock(&built)?;
            }
            pool.write(pageset_pool::new(built));
        }
        Ok(())
    })
}

fn out_of_range(name: &'static str, value: u32, allowed: &'static str) -> Failure {
    Failure::OutOfRange { name, value: value.into(), allowed }
}
