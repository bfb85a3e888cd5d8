//! Runs of neighbouring pages of any length and alignment, as the frame allocator traits of kernels ask for them.

use pageset::{
    AllocError, Allocator, FreeError, Immovable, Machine, Order, PageRange, PageState, Pfn, Request, WrongFree,
};

/// Allocates `pages` neighbouring pages. The first page is a multiple of `align_pages`. The request's order does not matter.
///
/// A run of up to 1,024 pages with an alignment of up to 1,024 pages is part of one block: the call takes the block and frees
/// the rest. A larger run is a range of free memory that the call searches in steps of its alignment, at least 2 MiB. The
/// search does not move pages in use. It drains all pagesets if no range is free at first, so it may not run in an interrupt.
///
/// `None` where no such run is free. The call waits for locks, whatever the request's `wait` says: not for NMIs.
///
/// # Panics
/// `pages` is 0, or `align_pages` is no power of two.
#[inline]
pub fn alloc_run<M: Machine>(
    allocator: &Allocator<'_, M>,
    request: &Request,
    pages: u64,
    align_pages: u64,
) -> Option<Pfn> {
    assert!(pages > 0, "cannot allocate a run of 0 pages; allowed: 1 and more");
    assert!(align_pages.is_power_of_two(), "cannot align a run to {align_pages} pages; allowed: powers of two");
    // The compiler makes a shorter fast path for a constant request, if it is not copied.
    if pages == 1 && align_pages == 1 && request.order == Order::ZERO {
        return allocator.alloc(request).ok();
    }
    match Order::holding(pages.max(align_pages)) {
        Some(order) => alloc_part(allocator, request, order, pages).ok(),
        None => find_run(allocator, request, pages, align_pages),
    }
}

/// Allocates the first `pages` pages of a block.
#[inline]
fn alloc_part<M: Machine>(
    allocator: &Allocator<'_, M>,
    request: &Request,
    order: Order,
    pages: u64,
) -> Result<Pfn, AllocError> {
    let pfn = allocator.alloc(&Request { order, ..*request })?;
    let rest = order.pages() - pages;
    if rest > 0 {
        let freed = allocator.free_part(pfn.offset(pages), rest);
        debug_assert!(freed.is_ok(), "the caller does not have the block yet: {freed:?}");
    }
    Ok(pfn)
}

/// Takes the first range of free memory that is large enough.
#[cold]
fn find_run<M: Machine>(allocator: &Allocator<'_, M>, request: &Request, pages: u64, align_pages: u64) -> Option<Pfn> {
    let step = align_pages.max(Order::PAGEBLOCK.pages());
    let node_of = |zone| allocator.zone_stats(zone).node;
    // Without a node, the caller's.
    let home = request.node.or_else(|| allocator.zones_from_here().next().map(node_of));
    let find = || {
        let zones = || allocator.zones_from_here().filter(|&zone| serves(allocator, request, zone));
        let near = zones().filter(|&zone| Some(node_of(zone)) == home);
        let far = zones().filter(|&zone| Some(node_of(zone)) != home && !request.this_node_only);
        near.chain(far).find_map(|zone| find_run_in(allocator, request, allocator.zone_span(zone), pages, step))
    };
    find().or_else(|| {
        // Cached pages keep their blocks from merging.
        allocator.drain_all();
        find()
    })
}

/// Whether a request may use a zone, as far as the zone's kind decides.
fn serves<M: Machine>(allocator: &Allocator<'_, M>, request: &Request, zone: usize) -> bool {
    let stats = allocator.zone_stats(zone);
    stats.kind <= request.highest && request.zone.is_none_or(|only| only == zone)
}

fn find_run_in<M: Machine>(
    allocator: &Allocator<'_, M>,
    request: &Request,
    span: PageRange,
    pages: u64,
    step: u64,
) -> Option<Pfn> {
    let mut start = Pfn(span.start.0.next_multiple_of(step));
    while start.0.checked_add(pages).is_some_and(|end| end <= span.end().0) {
        let range = PageRange::new(start, pages);
        let obstacle = match first_busy(allocator, range) {
            Some(pfn) => pfn,
            None => match allocator.alloc_range(range, request.migratetype, &Immovable) {
                Ok(()) => return Some(start),
                Err(error) => error.pfn,
            },
        };
        // The block in the way may begin before the range.
        start = Pfn((obstacle.max(start).0 + 1).next_multiple_of(step));
    }
    None
}

/// The first page of a range that is in no free block, at a recent moment.
fn first_busy<M: Machine>(allocator: &Allocator<'_, M>, range: PageRange) -> Option<Pfn> {
    let mut pfn = range.start;
    while pfn < range.end() {
        match allocator.free_block_around(pfn) {
            Some(block) if block.end() > pfn => pfn = block.end(),
            _ => return Some(pfn),
        }
    }
    None
}

/// Frees `pages` pages from `pfn` on: a run of [`alloc_run`], any part of one, or several that are neighbours.
///
/// # Errors
/// The first page that is not in use, or a run of 0 pages. Nothing has changed then, unless another caller freed a page of the
/// run at the same time.
#[inline]
pub fn free_run<M: Machine>(allocator: &Allocator<'_, M>, pfn: Pfn, pages: u64) -> Result<(), FreeError> {
    // As in `alloc_run`.
    if pages == 1 && allocator.free(pfn, Order::ZERO).is_ok() {
        return Ok(());
    }
    if let Some(order) = Order::holding(pages)
        && order.pages() == pages
        && allocator.free(pfn, order).is_ok()
    {
        return Ok(());
    }
    free_pieces(allocator, pfn, pages)
}

#[cold]
fn free_pieces<M: Machine>(allocator: &Allocator<'_, M>, pfn: Pfn, pages: u64) -> Result<(), FreeError> {
    let run = PageRange::new(pfn, pages);
    if pages == 0 {
        return allocator.free_part(pfn, 0);
    }
    for_each_piece(allocator, run, |_, _| Ok(()))?;
    for_each_piece(allocator, run, |start, pages| allocator.free_part(start, pages))
}

/// Calls `visit` with the part of each block in use that lies in a run.
fn for_each_piece<M: Machine>(
    allocator: &Allocator<'_, M>,
    run: PageRange,
    mut visit: impl FnMut(Pfn, u64) -> Result<(), FreeError>,
) -> Result<(), FreeError> {
    let mut at = run.start;
    while at < run.end() {
        let wrong = |reason| Err(FreeError { pfn: at, order: Order::ZERO, reason });
        let end = match allocator.block_of(at) {
            Some((block, PageState::Allocated)) => block.pfn.offset(block.order.pages()).min(run.end()),
            Some((block, state)) if block.pfn == at => return wrong(WrongFree::NotAllocated(state)),
            Some((block, state)) => return wrong(WrongFree::Inside { head: block.pfn, order: block.order, state }),
            None if allocator.zone_of(at).is_some() => return wrong(WrongFree::NotAllocated(PageState::Inside)),
            None => return wrong(WrongFree::NotOurs),
        };
        visit(at, end.0 - at.0)?;
        at = end;
    }
    Ok(())
}
