//! Allocations other than the common one: where the pages come from, how many, and who may be asked for them.

use core::fmt;

use crate::admin::owner::{Immovable, Owner};
use crate::alloc::Allocator;
use crate::alloc::error::AllocError;
use crate::alloc::request::{AllocFrom, Request};
use crate::frame::Pfn;
use crate::machine::Machine;

/// An allocation for [`Allocator::alloc_with`]: a request, the number of pages, where they come from, and their owner.
///
/// ```
/// use pageset::{Alloc, AllocFrom, Immovable, MigrateType, Order, Request};
///
/// let request = Request::new(Order::ZERO, MigrateType::Unmovable);
/// let long_lived = Alloc::new(&request).from(AllocFrom::Buddy);
/// let three_pages = Alloc::new(&request).pages(3);
/// let one_gib = Alloc::new(&request).pages(1 << 18).aligned(1 << 18).owner(&Immovable);
/// # let _ = (long_lived, three_pages, one_gib);
/// ```
#[derive(Clone, Copy)]
pub struct Alloc<'r, O = Immovable> {
    request: &'r Request,
    /// The number of pages and their alignment; `None` for a block of the request's order.
    run: Option<(u64, u64)>,
    from: AllocFrom,
    owner: Option<&'r O>,
}

impl<'r> Alloc<'r> {
    /// A block of the request's order, from the caller's pageset where the order is cached.
    #[inline(always)]
    #[must_use]
    pub const fn new(request: &'r Request) -> Self {
        Alloc { request, run: None, from: AllocFrom::Pageset, owner: None }
    }
}

impl<'r, O> Alloc<'r, O> {
    /// Any number of neighbouring pages. The request's order then does not matter.
    #[inline(always)]
    #[must_use]
    pub const fn pages(mut self, pages: u64) -> Self {
        self.run = Some((
            pages,
            match self.run {
                Some((_, align_pages)) => align_pages,
                None => 1,
            },
        ));
        self
    }

    /// The first page is a multiple of a power of two. For a number of [`Self::pages`].
    #[inline(always)]
    #[must_use]
    pub const fn aligned(mut self, align_pages: u64) -> Self {
        self.run = Some((
            match self.run {
                Some((pages, _)) => pages,
                None => self.request.order.pages(),
            },
            align_pages,
        ));
        self
    }

    /// Where the pages come from.
    #[inline(always)]
    #[must_use]
    pub const fn from(mut self, from: AllocFrom) -> Self {
        self.from = from;
        self
    }

    /// The owner of the pages in use, for a request with [`Wait::Memory`](crate::Wait::Memory): for a block it may free or move some, for
    /// a number of [`Self::pages`] it may move some. [`Immovable`] does neither. A block for which the owner freed pages comes through
    /// the pageset, also from [`AllocFrom::Buddy`].
    #[inline(always)]
    #[must_use]
    pub const fn owner<P: Owner>(self, owner: &'r P) -> Alloc<'r, P> {
        Alloc { request: self.request, run: self.run, from: self.from, owner: Some(owner) }
    }
}

impl<O> fmt::Debug for Alloc<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Alloc");
        debug.field("request", self.request).field("run", &self.run).field("from", &self.from);
        debug.field("has_owner", &self.owner.is_some()).finish()
    }
}

impl<M: Machine> Allocator<'_, M> {
    /// Allocates a block or any number of pages: see [`Alloc`].
    ///
    /// **A block, with an owner.** If no memory is free, a request that may wait for memory compacts, asks [`Owner::reclaim`] for pages
    /// up to 16 times, and drains the pagesets. Calls the owner without a lock; the owner may allocate and free. Specification 1.7.
    ///
    /// **A number of pages.** Up to the pages of [`Order::MAX`](crate::Order::MAX), also for the alignment, they are the first part of one
    /// block, whose rest is freed at once. With an owner, a larger run, and one of more than a pageblock that no free block holds, is
    /// found by a search: see [`AllocFrom::Search`]. Without an owner there is no search. The pages are blocks in use, the largest
    /// first. [`Self::free_range`] frees all of them or any part.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// // 1,500 neighbouring pages, at a multiple of 512.
    /// let run = allocator.alloc_with(Alloc::new(&MOVABLE).pages(1500).aligned(512).owner(&Immovable))?;
    /// allocator.free_range(PageRange::new(run, 1500))?;
    /// // A page that is kept for long.
    /// let table = allocator.alloc_with(Alloc::new(&MOVABLE).from(AllocFrom::Buddy))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// An invalid request; no pages, or an alignment that is no power of two; no such run; no memory, with the state of the zones and
    /// the reason.
    // Inlined: only the part that the specification asks for remains of it.
    #[inline(always)]
    pub fn alloc_with(&self, alloc: Alloc<'_, impl Owner>) -> Result<Pfn, AllocError> {
        let Alloc { request, run, from, owner } = alloc;
        match (from, run, owner) {
            (AllocFrom::Search, run, owner) => {
                let block = request.order.pages();
                let (pages, align) = run.unwrap_or((block, block));
                match owner {
                    Some(owner) => self.search_run(request, pages, align, owner),
                    None => self.search_run(request, pages, align, &Immovable),
                }
            }
            (_, Some((pages, align)), Some(owner)) => self.alloc_run(request, pages, align, from, owner),
            (_, Some((pages, align)), None) => self.alloc_block(request, pages, align, from),
            (AllocFrom::Pageset, None, Some(owner)) => self.alloc_or_reclaim(request, owner),
            (AllocFrom::Pageset, None, None) => self.alloc(request),
            (AllocFrom::Buddy, None, None) => self.alloc_direct(request),
            (AllocFrom::Buddy, None, Some(owner)) => match self.alloc_direct(request) {
                Err(AllocError::OutOfMemory(_)) => self.alloc_or_reclaim(request, owner),
                result => result,
            },
        }
    }
}
