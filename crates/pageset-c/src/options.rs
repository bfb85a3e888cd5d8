//! What a pool is made from.

use std::time::Duration;

use pageset_host::{GiveBack, HugePages, NodeId, OnFork, PagePool, PoolBuilder};

use crate::error::{Failure, code, pageset_error, slow_code};
use crate::handle::pageset_pool;
use crate::sized::{read_sized, write_sized};

/// Pages of the system's base size only.
pub const PAGESET_HUGE_NONE: u32 = 0;
/// Huge pages where the system finds them. The default.
pub const PAGESET_HUGE_TRANSPARENT: u32 = 1;
/// Huge pages that an administrator has set apart (vm.nr_hugepages), reserved when the pool is made.
pub const PAGESET_HUGE_EXPLICIT: u32 = 2;

/// A forked child sees a copy of the pages. The default.
pub const PAGESET_FORK_COPY: u32 = 0;
/// A forked child has no pages: touching them ends it, or once it has mapped something else at those addresses, touches
/// that. Forking is cheaper.
pub const PAGESET_FORK_ABSENT: u32 = 1;

/// What a pool is made from. To be filled in by pageset_options_init, then changed. Later versions may have more members,
/// at its end: programs that were built before go on as they did.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct pageset_options {
    /// `sizeof(pageset_options)`, as pageset_options_init was told.
    pub size: usize,
    /// Bytes to begin with, 1 to 16 TiB for each node; rounded up to 2 MiB for each node.
    pub bytes: u64,
    /// Bytes that it may grow to, at least `bytes`; 0 for no more than that.
    pub reserve_bytes: u64,
    /// PAGESET_HUGE_NONE, PAGESET_HUGE_TRANSPARENT or PAGESET_HUGE_EXPLICIT.
    pub huge_pages: u32,
    /// PAGESET_FORK_COPY or PAGESET_FORK_ABSENT.
    pub on_fork: u32,
    /// Not 0: all memory is there from the start, instead of coming as it is touched.
    pub prefault: u32,
    /// How many nodes `nodes` has; 0 for all nodes that have memory.
    pub node_count: u32,
    /// The numbers of the nodes whose memory it has, each once; may be NULL where there are none. Only read by
    /// pageset_pool_create.
    pub nodes: *const u32,
    /// The time between two scans for memory that goes back to the system, in milliseconds; by default 1000.
    pub give_back_interval_ms: u32,
    /// How many scans in a row must find memory free before it goes back, 1 to 250; by default 5.
    pub give_back_after_scans: u32,
    /// The most that one scan gives back, in bytes; by default 64 MiB. 0: only pageset_give_back does.
    pub give_back_bytes_per_scan: u64,
}

/// Fills options in: a pool of `bytes`, and the default of everything else. `size` is `sizeof *options`.
///
/// PAGESET_ERR_ARGUMENT where `options` is NULL or `size` is less than that of the first version.
///
/// # Safety
/// `options` is NULL or has `size` bytes that can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_options_init(options: *mut pageset_options, size: usize, bytes: u64) -> pageset_error {
    code(|| {
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
        };
        if options.is_null() {
            return Err(Failure::argument("options is NULL"));
        }
        // SAFETY: not NULL, so it has `size` bytes, says the caller.
        unsafe { write_sized(options, value, size, "options") }
    })
}

/// # Safety
/// `options.nodes` has `options.node_count` numbers, or is NULL.
unsafe fn builder(options: &pageset_options) -> Result<PoolBuilder, Failure> {
    let mut builder = PagePool::builder(options.bytes).prefault(options.prefault != 0);
    if options.reserve_bytes > 0 {
        builder = builder.reserve(options.reserve_bytes);
    }
    builder = builder.huge_pages(match options.huge_pages {
        PAGESET_HUGE_NONE => HugePages::None,
        PAGESET_HUGE_TRANSPARENT => HugePages::Transparent,
        PAGESET_HUGE_EXPLICIT => HugePages::Explicit,
        other => return Err(Failure::argument(format!("huge_pages is {other}; allowed: 0 to 2"))),
    });
    builder = builder.on_fork(match options.on_fork {
        PAGESET_FORK_COPY => OnFork::Copy,
        PAGESET_FORK_ABSENT => OnFork::Absent,
        other => return Err(Failure::argument(format!("on_fork is {other}; allowed: 0 and 1"))),
    });
    let after_scans = options.give_back_after_scans;
    if !(1..=250).contains(&after_scans) {
        return Err(Failure::argument(format!("give_back_after_scans is {after_scans}; allowed: 1 to 250")));
    }
    builder = builder.give_back(GiveBack {
        interval: Duration::from_millis(options.give_back_interval_ms.into()),
        after_scans: after_scans as u8,
        bytes_per_scan: options.give_back_bytes_per_scan,
    });
    if options.node_count > 0 {
        if options.nodes.is_null() || options.node_count > 1024 {
            let text = format!("node_count is {}; allowed: 0 to 1024, with as many nodes", options.node_count);
            return Err(Failure::argument(text));
        }
        // SAFETY: not NULL, so it has that many numbers, says the caller.
        let nodes = unsafe { std::slice::from_raw_parts(options.nodes, options.node_count as usize) };
        builder = builder.nodes(&nodes.iter().copied().map(NodeId).collect::<Vec<_>>());
    }
    Ok(builder)
}

/// Makes a pool and puts it into `*pool`; to be ended with pageset_pool_destroy.
///
/// PAGESET_ERR_ARGUMENT for options that are NULL, out of range or of no known size, PAGESET_ERR_NO_NODE for nodes that
/// there are not, PAGESET_ERR_SYSTEM where the system refuses; `*pool` is NULL then.
///
/// # Safety
/// `options` is NULL or was filled in by pageset_options_init; `pool` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_pool_create(
    options: *const pageset_options,
    pool: *mut *mut pageset_pool,
) -> pageset_error {
    slow_code(|| {
        if !pool.is_null() {
            // SAFETY: not NULL, so it can be written, says the caller.
            unsafe { pool.write(std::ptr::null_mut()) };
        }
        if options.is_null() || pool.is_null() {
            return Err(Failure::argument("options or pool is NULL"));
        }
        // SAFETY: neither is NULL, so they are what the caller says.
        unsafe {
            let options = read_sized(options, (*options).size, "options")?;
            pool.write(pageset_pool::new(builder(&options)?.build()?));
        }
        Ok(())
    })
}
