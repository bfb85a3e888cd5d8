//! `FrameAllocator` and `FrameDeallocator` of the crate `x86_64`, for frames of 4 KiB, 2 MiB and 1 GiB.
#![allow(unsafe_code, reason = "the trait is unsafe to implement, and so is its promise that frames are unused")]

use core::fmt;

use pageset::{Alloc, Allocator, Immovable, Machine, MigrateType, Order, PageRange, Pfn, Request};
use x86_64::PhysAddr;
use x86_64::structures::paging::{FrameAllocator, FrameDeallocator, PageSize, PhysFrame};

/// The bytes of a page of the allocator.
const PAGE_BYTES: u64 = 4096;
const _: () =
    assert!(PAGE_BYTES == pageset::Pfn::PAGE_BYTES, "x86-64 has pages of 4 KiB; build without PAGESET_PAGE_KIB");
/// The request of [`Frames::new`].
const UNMOVABLE: Request = Request::new(Order::ZERO, MigrateType::Unmovable);

/// Frames for page tables and mappings, from an allocator whose page numbers are physical frame numbers.
///
/// The trait asks for `&mut self`. So each user has a value of its own: a copy costs nothing, and copies can allocate on many
/// CPUs at once.
///
/// Frames of 4 KiB and 2 MiB are blocks of orders 0 and 9 and come from the pagesets. A frame of 1 GiB is larger than the
/// largest block, 4 MiB: the call searches for a free range, as [`pageset::AllocFrom::Search`] describes.
pub struct Frames<'m, 'a, M: Machine> {
    allocator: &'m Allocator<'a, M>,
    /// `None` for [`UNMOVABLE`]: the compiler makes a shorter fast path for a constant.
    request: Option<Request>,
}

impl<'m, 'a, M: Machine> Frames<'m, 'a, M> {
    /// Frames that do not move, such as those of page tables.
    ///
    /// # Safety
    /// Until the last frame is freed: (1) page `n` of the allocator is the physical frame at `n` times 4 KiB, and nothing outside
    /// the allocator uses it; (2) no other allocator gives out these frames; (3) a page in use is freed only when nothing uses it.
    pub unsafe fn new(allocator: &'m Allocator<'a, M>) -> Self {
        Frames { allocator, request: None }
    }

    /// Frames for a request, for example of another migratetype or zone. The size of the frame replaces the request's order.
    ///
    /// # Safety
    /// As [`Self::new`].
    pub unsafe fn with(allocator: &'m Allocator<'a, M>, request: Request) -> Self {
        Frames { allocator, request: Some(request) }
    }
}

impl<M: Machine> Copy for Frames<'_, '_, M> {}

impl<M: Machine> Clone for Frames<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> fmt::Debug for Frames<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frames").field("request", &self.request).finish_non_exhaustive()
    }
}

// SAFETY: the allocator gives out a page once until it is freed. By the promise of `new`, the page is a frame that nothing uses.
unsafe impl<S: PageSize, M: Machine> FrameAllocator<S> for Frames<'_, '_, M> {
    #[inline]
    fn allocate_frame(&mut self) -> Option<PhysFrame<S>> {
        let pages = S::SIZE / PAGE_BYTES;
        let pfn = match &self.request {
            None => self.allocator.alloc_with(Alloc::new(&UNMOVABLE).pages(pages).aligned(pages).owner(&Immovable)),
            Some(request) => {
                self.allocator.alloc_with(Alloc::new(request).pages(pages).aligned(pages).owner(&Immovable))
            }
        };
        let pfn = pfn.ok()?;
        Some(PhysFrame::containing_address(PhysAddr::new(pfn.0 * PAGE_BYTES)))
    }
}

/// # Panics
/// The frame is not in use, which the caller's promise excludes. The message names the page.
impl<S: PageSize, M: Machine> FrameDeallocator<S> for Frames<'_, '_, M> {
    #[inline]
    unsafe fn deallocate_frame(&mut self, frame: PhysFrame<S>) {
        let pfn = Pfn(frame.start_address().as_u64() / PAGE_BYTES);
        if let Err(error) = self.allocator.free_range(PageRange::new(pfn, S::SIZE / PAGE_BYTES)) {
            panic!("cannot free the frame of {} bytes at {:#x}: {error}", S::SIZE, frame.start_address());
        }
    }
}
