//! A kernel's first minutes with the allocator: static memory, one CPU, a page taken and given back.
#![no_std]
#![no_main]

use core::mem::MaybeUninit;
use core::panic::PanicInfo;

use pageset::policy::presets::{LINUX_6_18, PAGESET};
use pageset::policy::{Backing, BulkFree, ClaimRule, FallbackRule, HAS_RESEARCH, Tuning, TuningError};
use pageset::{
    Allocator, Config, CpuId, Machine, MigrateType, NodeId, Order, PageRange, Pfn, Request, SpinLock, ZoneKind,
    ZoneSpec,
};

// This program is built without the feature `research`: rules that kernels dropped or never merged are refused, the default rules are not.
const _: () = assert!(!HAS_RESEARCH && Tuning::check(&PAGESET).is_ok() && Tuning::check(&LINUX_6_18).is_ok());
const REFUSED: [Tuning; 3] = [
    Tuning { backing: Backing::Kernel(BulkFree::TwoPass), ..LINUX_6_18 },
    Tuning { fallback: FallbackRule::Steal, ..LINUX_6_18 },
    Tuning { backing: Backing::Claims { chunked: true, blocks: ClaimRule::Merge }, ..PAGESET },
];
const _: () = assert!(matches!(REFUSED[0].check(), Err(TuningError::NeedsResearch { .. })));
const _: () = assert!(matches!(REFUSED[1].check(), Err(TuningError::NeedsResearch { .. })));
const _: () = assert!(matches!(REFUSED[2].check(), Err(TuningError::NeedsResearch { .. })));

struct Kernel;

impl Machine for Kernel {
    type Lock = SpinLock;

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }
}

/// Memory for the metadata.
static mut MEMORY: [MaybeUninit<u8>; 1 << 20] = [MaybeUninit::uninit(); 1 << 20];

/// Builds an allocator of 16 MiB, takes a page and gives it back; the page, or nothing when anything failed.
fn one_page() -> Option<Pfn> {
    let ranges = [PageRange::new(Pfn(0), 4096)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let config = Config::new(&zones, &[NodeId(0)]);
    // SAFETY: only this call, which is made once, uses the memory.
    let memory = unsafe { &mut *(&raw mut MEMORY) };
    let allocator = Allocator::from_bytes(Kernel, &config, memory).ok()?;
    let pfn = allocator.alloc(&Request::new(Order::ZERO, MigrateType::Unmovable)).ok()?;
    allocator.free(pfn, Order::ZERO).ok()?;
    Some(pfn)
}

/// Where the boot loader jumps to.
#[unsafe(no_mangle)]
pub extern "C" fn _start() -> ! {
    let _page = core::hint::black_box(one_page());
    loop {
        core::hint::spin_loop();
    }
}

#[panic_handler]
fn panic(_info: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
