//! What a small kernel calls of the allocator, with C's calling convention: construction, pages one by one and in bulk, memory and CPUs
//! that come, ticks, drains. ci/no-std.sh measures its code.
#![no_std]

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::panic::PanicInfo;
use core::slice;

use pageset::{
    Allocator, Config, CpuId, Machine, MigrateType, NodeId, Order, PageRange, Pfn, Request, SpinLock, ZoneKind,
    ZoneSpec,
};

unsafe extern "C" {
    fn kernel_cpu() -> u32;
    fn kernel_panic() -> !;
}

struct Kernel;

impl Machine for Kernel {
    type Lock = SpinLock;

    #[inline]
    fn cpu(&self) -> CpuId {
        // SAFETY: the kernel's function has no preconditions.
        CpuId(unsafe { kernel_cpu() })
    }
}

struct Frames(UnsafeCell<Option<Allocator<'static, Kernel>>>);

// SAFETY: written once, before other CPUs start.
unsafe impl Sync for Frames {}

static FRAMES: Frames = Frames(UnsafeCell::new(None));

fn frames() -> &'static Allocator<'static, Kernel> {
    // SAFETY: only `frames_build` writes, and no other call runs meanwhile.
    match unsafe { &*FRAMES.0.get() } {
        Some(frames) => frames,
        // SAFETY: the kernel's function has no preconditions.
        None => unsafe { kernel_panic() },
    }
}

/// Runs `work` with the configuration of one zone without memory.
fn configured<R>(start: u64, pages: u64, cpus: usize, work: impl FnOnce(&Config<'_>) -> R) -> R {
    let zones =
        [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: PageRange::new(Pfn(start), pages), ranges: &[] }];
    static NODES: [NodeId; 64] = [NodeId(0); 64];
    work(&Config::new(&zones, &NODES[..cpus.min(64)]))
}

#[unsafe(no_mangle)]
pub extern "C" fn frames_metadata(start: u64, pages: u64, cpus: usize) -> usize {
    configured(start, pages, cpus, |config| config.metadata_bytes::<Kernel>().unwrap_or(0))
}

/// # Safety
/// The memory is the allocator's for good, and no other CPU runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frames_build(start: u64, pages: u64, cpus: usize, memory: *mut u8, bytes: usize) -> bool {
    configured(start, pages, cpus, |config| {
        // SAFETY: the caller vouches for the memory.
        let memory = unsafe { slice::from_raw_parts_mut(memory.cast::<MaybeUninit<u8>>(), bytes) };
        let built = Allocator::from_bytes(Kernel, config, memory).ok();
        // SAFETY: the caller runs no other CPU, so no other call reads.
        unsafe { *FRAMES.0.get() = built };
        frames().zone(0).is_some()
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn frames_online(start: u64, pages: u64) -> bool {
    frames().online(PageRange::new(Pfn(start), pages)).is_ok()
}

#[unsafe(no_mangle)]
pub extern "C" fn frames_alloc(order: u8) -> u64 {
    let page = Order::new(order).and_then(|order| frames().alloc(&Request::new(order, MigrateType::Movable)).ok());
    page.map_or(u64::MAX, |page| page.0)
}

#[unsafe(no_mangle)]
pub extern "C" fn frames_free(page: u64, order: u8) -> bool {
    Order::new(order).is_some_and(|order| frames().free(Pfn(page), order).is_ok())
}

/// # Safety
/// `pages` are `count` words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frames_alloc_bulk(pages: *mut Pfn, count: usize) -> usize {
    // SAFETY: the caller vouches for the words.
    let pages = unsafe { slice::from_raw_parts_mut(pages, count) };
    frames().alloc_bulk(&Request::new(Order::ZERO, MigrateType::Movable), pages).unwrap_or(0)
}

/// # Safety
/// `pages` are `count` words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frames_free_bulk(pages: *const Pfn, count: usize) -> bool {
    // SAFETY: the caller vouches for the words.
    frames().free_bulk_of(Order::ZERO, unsafe { slice::from_raw_parts(pages, count) }).is_ok()
}

#[unsafe(no_mangle)]
pub extern "C" fn frames_cpu_online(cpu: u32) -> bool {
    frames().cpu_online(CpuId(cpu)).is_ok()
}

#[unsafe(no_mangle)]
pub extern "C" fn frames_cpu_offline(cpu: u32) -> bool {
    frames().cpu_offline(CpuId(cpu)).is_ok()
}

#[unsafe(no_mangle)]
pub extern "C" fn frames_tick() -> bool {
    frames().tick()
}

#[unsafe(no_mangle)]
pub extern "C" fn frames_drain_all() {
    frames().drain_all();
}

#[unsafe(no_mangle)]
pub extern "C" fn frames_free_pages() -> u64 {
    frames().zones().map(|zone| zone.stats().nr_free_pages).sum()
}

#[panic_handler]
fn panic(_info: &PanicInfo<'_>) -> ! {
    // SAFETY: the kernel's function has no preconditions.
    unsafe { kernel_panic() }
}
