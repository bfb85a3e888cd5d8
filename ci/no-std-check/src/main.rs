//! A kernel's first minutes with the allocator: static memory, one CPU, a page taken and given back.
#![no_std]
#![no_main]

use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU8, AtomicU32};

use pageset::pcp::Pageset;
use pageset::policy::presets::{LINUX_6_18, PAGESET};
use pageset::policy::{BulkFree, FallbackRule, HAS_RESEARCH, Tuning, TuningError};
use pageset::{
    Allocator, CachedZone, Config, CpuId, Machine, Metadata, MigrateType, NodeId, Order, PageRange, Pfn, Region,
    Request, SpinLock, ZoneKind, ZoneMetadata, ZoneSpec,
};

// This program is built without the feature `research`: rules that kernels dropped or never merged are refused, the default rules are not.
const _: () = assert!(!HAS_RESEARCH && Tuning::check(&PAGESET).is_ok() && Tuning::check(&LINUX_6_18).is_ok());
const REFUSED: [Tuning; 3] = [
    Tuning { bulk_free: BulkFree::TwoPass, ..LINUX_6_18 },
    Tuning { fallback: FallbackRule::Steal, ..LINUX_6_18 },
    Tuning { merge_blocks: true, ..PAGESET },
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

static TAGS: [AtomicU8; 1 << 14] = [const { AtomicU8::new(0) }; 1 << 14];
static WORDS: [AtomicU32; 1 << 17] = [const { AtomicU32::new(0) }; 1 << 17];
static COMMON: [AtomicU32; 1 << 6] = [const { AtomicU32::new(0) }; 1 << 6];
static REGIONS: [Region<SpinLock>; 1] = [Region::new(SpinLock::new())];
static PAGESETS: [Pageset<SpinLock>; 1] = [Pageset::new(SpinLock::new())];

/// Builds an allocator of 16 MiB, takes a page and gives it back; the page, or nothing when anything failed.
fn one_page() -> Option<Pfn> {
    let ranges = [PageRange::new(Pfn(0), 4096)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let config = Config::new(&zones, &[NodeId(0)]);
    let size = config.zone_metadata_size(0).ok()?;
    let metadata = ZoneMetadata {
        tags: TAGS.get(..size.tags)?,
        words: WORDS.get(..size.words)?,
        pagesets: PAGESETS.get(..size.pagesets)?,
        regions: REGIONS.get(..size.regions)?,
    };
    let mut zones = [CachedZone::new(metadata)];
    let metadata = Metadata { words: COMMON.get(..config.metadata_size().ok()?.words)?, zones: &mut zones };
    let allocator = Allocator::new(Kernel, &config, metadata).ok()?;
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
