//! A kernel that runs all tests that it contains, and ends. See ../README.md.
#![no_std]
#![no_main]

// The main function and the panic handler of the tests.
use osdk_test_kernel as _;

use core::alloc::Layout;

use osdk_heap_allocator::{HeapAllocator, type_from_layout};
use ostd::mm::heap::SlotInfo;

#[cfg(not(feature = "baseline"))]
#[ostd::global_frame_allocator]
static FRAMES: pageset_ostd::PagesetFrames = pageset_ostd::PagesetFrames::on(TOPOLOGY);

/// Two nodes, which QEMU's memory does not know: the second begins 128 MiB behind 4 GiB, where `run.sh` puts half of the memory.
#[cfg(not(feature = "baseline"))]
const TOPOLOGY: pageset_ostd::Topology = {
    use pageset_ostd::{NodeId, PageRange, Pfn};
    let second = Pfn(((4 << 30) + (128 << 20)) / ostd::mm::PAGE_SIZE as u64);
    pageset_ostd::Topology {
        memory: &[(NodeId(0), PageRange::new(Pfn(0), second.0)), (NodeId(1), PageRange::new(second, 1 << 30))],
        cpus: &[NodeId(0), NodeId(0), NodeId(1), NodeId(1)],
    }
};

#[cfg(feature = "baseline")]
#[ostd::global_frame_allocator]
static FRAMES: osdk_frame_allocator::FrameAllocator = osdk_frame_allocator::FrameAllocator;

#[ostd::global_heap_allocator]
static HEAP: HeapAllocator = HeapAllocator;

#[ostd::global_heap_allocator_slot_map]
const fn slot(layout: Layout) -> Option<SlotInfo> {
    type_from_layout(layout)
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "Rust" {
        fn __ostd_panic_handler(info: &core::panic::PanicInfo<'_>) -> !;
    }
    // SAFETY: osdk-test-kernel defines this function, with this type.
    unsafe { __ostd_panic_handler(info) }
}

/// The tests to run: all.
#[unsafe(no_mangle)]
static KTEST_TEST_WHITELIST: Option<&[&str]> = None;
/// The crates whose tests run: all.
#[unsafe(no_mangle)]
static KTEST_CRATE_WHITELIST: Option<&[&str]> = None;

/// The tests of Asterinas' frame allocator that need nothing but the trait, from the source of that crate. They call
/// `super::FrameAllocator`.
#[cfg(all(ktest, not(feature = "baseline")))]
#[expect(dead_code, reason = "the file also has helpers for tests of other modules")]
mod asterinas {
    use core::alloc::Layout;

    use ostd::mm::Paddr;
    use ostd::mm::frame::GlobalFrameAllocator;

    /// The name that the tests use for the allocator.
    struct FrameAllocator;

    impl GlobalFrameAllocator for FrameAllocator {
        fn alloc(&self, layout: Layout) -> Option<Paddr> {
            super::FRAMES.alloc(layout)
        }

        fn dealloc(&self, addr: Paddr, size: usize) {
            super::FRAMES.dealloc(addr, size);
        }

        fn add_free_memory(&self, addr: Paddr, size: usize) {
            super::FRAMES.add_free_memory(addr, size);
        }
    }

    include!(concat!(env!("OUT_DIR"), "/asterinas_tests.rs"));
}

#[cfg(all(ktest, not(feature = "baseline")))]
mod own;

#[cfg(ktest)]
mod costs;
