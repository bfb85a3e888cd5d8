//! The allocator behind C functions, as `module/host.c` calls them.
//!
//! A page is its page frame number; [`NO_PAGE`] stands for none. Functions with a result return 0 for success and -1 for an error,
//! unless they say otherwise. All functions but [`core_build`] and [`core_drop`] may run on several CPUs at once. Their callers have
//! preemption off, except where the function takes no lock, and where no other call runs.
#![no_std]

mod lock;

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::fmt::{self, Write};
use core::mem::MaybeUninit;
use core::panic::PanicInfo;
use core::ptr;
use core::slice;

use pageset::admin::audit::AuditError;
use pageset::{
    Allocator, Config, CpuId, Free, FreeTo, Immovable, Machine, MigrateType, NodeId, Order, PageRange, Pfn, Request,
    Wait, ZoneKind, ZoneSpec,
};

use crate::lock::KernelLock;

/// The most nodes: the specifications of their zones lie on the stack of a kernel thread.
const MAX_NODES: usize = 16;
/// The most CPUs.
const MAX_CPUS: usize = 512;

/// What stands for no page.
const NO_PAGE: u64 = u64::MAX;

unsafe extern "C" {
    /// The current CPU. Preemption is off.
    safe fn host_cpu() -> u32;
    /// Adds `length` bytes of text to what a reader of a file gets.
    fn host_write(to: *mut c_void, text: *const u8, length: usize);
}

/// The machine, as the allocator sees it.
struct Kernel;

impl Machine for Kernel {
    type Lock = KernelLock;

    #[inline(always)]
    fn cpu(&self) -> CpuId {
        CpuId(host_cpu())
    }

    #[inline(always)]
    fn try_lock_pageset(&self, lock: &KernelLock, _cpu: CpuId) -> bool {
        lock.try_lock_pageset()
    }

    fn lock_pageset(&self, lock: &KernelLock, _cpu: CpuId) {
        while !lock.try_lock_pageset() {
            core::hint::spin_loop();
        }
    }
}

/// A value that the module writes while it loads and unloads, when no other call runs.
struct Loaded<T>(UnsafeCell<T>);

// SAFETY: only `core_build` and `core_drop` write, and their callers promise that no other call runs.
unsafe impl<T> Sync for Loaded<T> {}

static ALLOCATOR: Loaded<Option<Allocator<'static, Kernel>>> = Loaded(UnsafeCell::new(None));
/// What the configuration refers to: a kernel's stack has no room for it.
static ZONES: Loaded<[ZoneSpec<'static>; MAX_NODES]> = {
    let none = ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: PageRange::new(Pfn(0), 0), ranges: &[] };
    Loaded(UnsafeCell::new([none; MAX_NODES]))
};
static NODES: Loaded<[NodeId; MAX_CPUS]> = Loaded(UnsafeCell::new([NodeId(0); MAX_CPUS]));

#[inline(always)]
fn allocator() -> &'static Allocator<'static, Kernel> {
    // SAFETY: written only when no other call runs.
    unsafe { &*ALLOCATOR.0.get() }.as_ref().expect("called between core_build and core_drop")
}

/// The memory that a node gives: its number, and the first page and the pages of the span of its blocks.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Span {
    node: u32,
    start: u64,
    pages: u64,
}

/// Runs `work` with the configuration of one zone for each span, without memory. `None` for too many spans or CPUs.
///
/// # Safety
/// `spans` are `count` values and `nodes` are `cpus` values. No other call runs.
unsafe fn configured<R>(
    spans: *const Span,
    count: usize,
    nodes: *const u32,
    cpus: usize,
    work: impl FnOnce(&Config<'_>) -> Option<R>,
) -> Option<R> {
    // SAFETY: the caller vouches for both.
    let (spans, nodes) = unsafe { (slice::from_raw_parts(spans, count), slice::from_raw_parts(nodes, cpus)) };
    // SAFETY: no other call runs.
    let of_cpus = unsafe { &mut *NODES.0.get() }.get_mut(..cpus)?;
    of_cpus.iter_mut().zip(nodes).for_each(|(to, &from)| *to = NodeId(from));
    // SAFETY: no other call runs.
    let zones = unsafe { &mut *ZONES.0.get() }.get_mut(..count)?;
    for (zone, span) in zones.iter_mut().zip(spans) {
        zone.node = NodeId(span.node);
        zone.span = PageRange::new(Pfn(span.start), span.pages);
    }
    // Written in place: with `..` a second configuration lies on the stack.
    let mut config = Config::new(zones, of_cpus);
    // The first CPU stands for all until the module hears of them.
    config.online_cpus = &[CpuId(0)];
    work(&config)
}

/// The bytes of metadata that the spans need; 0 for spans or CPUs that the allocator refuses.
///
/// # Safety
/// As [`core_build`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn core_metadata(spans: *const Span, count: usize, nodes: *const u32, cpus: usize) -> usize {
    // SAFETY: the caller vouches for the arguments.
    unsafe { configured(spans, count, nodes, cpus, |config| config.metadata_bytes::<Kernel>().ok()) }.unwrap_or(0)
}

/// Builds the allocator, without memory and with CPU 0 alone.
///
/// # Safety
/// `spans` are `count` values, and `nodes` has the node of each of `cpus` CPUs. The memory is the allocator's until [`core_drop`]. No
/// other call runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn core_build(
    spans: *const Span,
    count: usize,
    nodes: *const u32,
    cpus: usize,
    memory: *mut u8,
    bytes: usize,
) -> i32 {
    let build = |config: &Config<'_>| {
        // SAFETY: the caller vouches for the memory.
        let memory = unsafe { slice::from_raw_parts_mut(memory.cast::<MaybeUninit<u8>>(), bytes) };
        match Allocator::from_bytes(Kernel, config, memory) {
            // SAFETY: no other call runs.
            Ok(built) => unsafe { *ALLOCATOR.0.get() = Some(built) },
            Err(_) => return None,
        }
        Some(())
    };
    // SAFETY: the caller vouches for the arguments.
    status(unsafe { configured(spans, count, nodes, cpus, build) }.is_some())
}

/// Forgets the allocator.
///
/// # Safety
/// No other call runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn core_drop() {
    // SAFETY: no other call runs.
    unsafe { *ALLOCATOR.0.get() = None };
}

const fn status(done: bool) -> i32 {
    if done { 0 } else { -1 }
}

/// Gives pages to the allocator.
#[unsafe(no_mangle)]
pub extern "C" fn core_online(start: u64, pages: u64) -> i32 {
    status(allocator().online(PageRange::new(Pfn(start), pages)).is_ok())
}

/// Takes pages from the allocator; an error if one of them is in use. Drains all pagesets of the zone. At most one call of this function,
/// [`core_online`] and [`core_cpu`] runs at a time: each may wait for another.
#[unsafe(no_mangle)]
pub extern "C" fn core_offline(start: u64, pages: u64) -> i32 {
    status(allocator().offline(PageRange::new(Pfn(start), pages), &Immovable).is_ok())
}

/// Whether pages lie in one free block, at a recent moment. Takes no lock.
#[unsafe(no_mangle)]
pub extern "C" fn core_is_free(start: u64, pages: u64) -> bool {
    allocator().free_block_around(Pfn(start)).is_some_and(|block| block.end().0 >= start + pages)
}

/// The pages of a zone that nobody uses, at a recent moment. Takes no lock.
#[unsafe(no_mangle)]
pub extern "C" fn core_idle(zone: u32) -> u64 {
    allocator().zone(zone as usize).map_or(0, |zone| zone.unused_pages())
}

/// Counts a CPU among those that run, or no longer. A CPU that is counted already, and the last one, stay as they are.
#[unsafe(no_mangle)]
pub extern "C" fn core_cpu(cpu: u32, online: bool) {
    let (allocator, cpu) = (allocator(), CpuId(cpu));
    let changed = if online { allocator.cpu_online(cpu) } else { allocator.cpu_offline(cpu) };
    changed.ok();
}

/// What the caller may wait for: 0 nothing, 1 a zone's lock, 2 memory. `node` is a node's number, or `u32::MAX` for the caller's.
#[inline(always)]
fn request(order: u32, node: u32, wait: u32, movable: bool, this_node_only: bool) -> Option<Request> {
    let migratetype = if movable { MigrateType::Movable } else { MigrateType::Unmovable };
    let order = Order::new(u8::try_from(order).ok()?)?;
    let wait = match wait {
        0 => Wait::Nothing,
        1 => Wait::Lock,
        _ => Wait::Memory,
    };
    let node = (node != u32::MAX).then_some(NodeId(node));
    Some(Request { node, wait, this_node_only, ..Request::new(order, migratetype) })
}

/// A block, by its first page; or [`NO_PAGE`].
#[unsafe(no_mangle)]
pub extern "C" fn core_alloc(order: u32, node: u32, wait: u32, movable: bool, this_node_only: bool) -> u64 {
    let request = request(order, node, wait, movable, this_node_only);
    request.and_then(|request| allocator().alloc(&request).ok()).map_or(NO_PAGE, |page| page.0)
}

/// Frees a block. An error changes nothing.
#[unsafe(no_mangle)]
pub extern "C" fn core_free(page: u64, order: u32) -> i32 {
    let order = u8::try_from(order).ok().and_then(Order::new);
    status(order.is_some_and(|order| allocator().free(Pfn(page), order).is_ok()))
}

/// Frees a block without waiting, from a handler that no lock keeps out.
#[unsafe(no_mangle)]
pub extern "C" fn core_free_deferred(page: u64, order: u32) -> i32 {
    let order = u8::try_from(order).ok().and_then(Order::new);
    status(order.is_some_and(|order| allocator().free_with(Free::block(Pfn(page), order).to(FreeTo::Deferred)).is_ok()))
}

/// Single pages. Returns how many it wrote.
///
/// # Safety
/// `pages` are `count` words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn core_alloc_bulk(pages: *mut Pfn, count: usize, wait: u32, movable: bool) -> usize {
    // SAFETY: the caller vouches for the words.
    let pages = unsafe { slice::from_raw_parts_mut(pages, count) };
    let request = request(0, u32::MAX, wait, movable, false);
    request.and_then(|request| allocator().alloc_bulk(&request, pages).ok()).unwrap_or(0)
}

/// Frees single pages.
///
/// # Safety
/// `pages` are `count` words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn core_free_bulk(pages: *const Pfn, count: usize) -> i32 {
    // SAFETY: the caller vouches for the words.
    status(allocator().free_bulk_of(Order::ZERO, unsafe { slice::from_raw_parts(pages, count) }).is_ok())
}

/// The once-a-second tick of a CPU.
#[unsafe(no_mangle)]
pub extern "C" fn core_tick(cpu: u32) {
    allocator().tick_cpu(CpuId(cpu));
}

/// Drains the pagesets of all CPUs.
#[unsafe(no_mangle)]
pub extern "C" fn core_drain() {
    allocator().drain_all();
}

/// What an audit of a zone found.
#[repr(C)]
pub struct Books {
    free: u64,
    cached: u64,
    in_use: u64,
    /// How often the lock of the zone was taken.
    holds: u64,
    /// The property that does not hold, not terminated by a null byte; null if all hold.
    what: *const u8,
    length: usize,
    expected: u64,
    found: u64,
}

/// Audits a zone. Returns 0 if it is consistent.
///
/// # Safety
/// `books` is a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn core_audit(zone: u32, books: *mut Books) -> i32 {
    // SAFETY: the caller vouches for the value.
    let books = unsafe { &mut *books };
    (books.what, books.length, books.expected, books.found) = (ptr::null(), 0, 0, 0);
    let Some(zone) = allocator().zone(zone as usize) else { return -1 };
    let what = match zone.audit() {
        Ok(found) => {
            (books.free, books.cached, books.in_use) = (found.free, found.cached, found.in_use);
            books.holds = zone.stats().lock_acquisitions();
            return 0;
        }
        Err(AuditError::Inconsistent(error)) => {
            (books.expected, books.found) = (error.expected, error.found);
            error.what
        }
        Err(AuditError::Busy { .. }) => "other calls changed the zone during the audit",
    };
    (books.what, books.length) = (what.as_ptr(), what.len());
    -1
}

/// A file in debugfs while somebody reads it.
struct File(*mut c_void);

impl Write for File {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: whoever made the value vouches for the file; the text is `len` bytes.
        unsafe { host_write(self.0, text.as_ptr(), text.len()) };
        Ok(())
    }
}

/// Writes the zones and pagesets in the form of `/proc/zoneinfo`. Takes no lock.
///
/// # Safety
/// `to` is what `host_write` takes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn core_zoneinfo(to: *mut c_void) {
    write!(File(to), "{}", allocator().zoneinfo()).ok();
}

/// Writes the counters of each zone, one a line, in pages unless the name says otherwise (`refills`, `drains`, `lock_*`). Takes no lock.
/// While no call runs, managed = free + cached + in use.
///
/// # Safety
/// `to` is what `host_write` takes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn core_counters(to: *mut c_void) {
    let mut file = File(to);
    for zone in allocator().zones() {
        let stats = zone.stats();
        let sets = stats.pagesets;
        writeln!(file, "Node {}, zone {:>8}", stats.node.0, stats.kind).ok();
        for (name, value) in [
            ("managed", stats.managed),
            ("free", stats.nr_free_pages),
            ("cached", stats.cached_pages()),
            // The counters are read one after the other, so a page may be freed in between.
            ("in_use", stats.pgalloc().saturating_sub(stats.pgfree())),
            ("pgalloc", stats.pgalloc()),
            ("pgfree", stats.pgfree()),
            ("refills", sets.refills),
            ("refill_pages", sets.refill_pages),
            ("drains", sets.drains),
            ("drain_pages", sets.drain_pages),
            ("depot_in_pages", stats.depot_in_pages),
            ("depot_out_pages", stats.depot_out_pages),
            ("bitmap_pages", stats.bitmap_pages),
            ("claims", stats.claims),
            ("steals", stats.steals),
            ("lock_refill", stats.lock_refill),
            ("lock_drain", stats.lock_drain),
            ("lock_direct_alloc", stats.lock_direct_alloc),
            ("lock_direct_free", stats.lock_direct_free),
            ("lock_map", stats.lock_map),
        ] {
            writeln!(file, "  {name} {value}").ok();
        }
    }
}

/// Not called: a panic is an illegal instruction where it happens. See `.cargo/config.toml`.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
