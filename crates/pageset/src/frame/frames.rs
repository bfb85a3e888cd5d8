//! The metadata of a zone's pages: one tag byte per page, one byte per pageblock, two links per block on a list; and the lists.
//!
//! A *slot* is the number of a pair of links: the block's first page; for pageblocks and larger blocks a dense number of its own
//! ([`Frames::slot`]).

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use super::{MigrateType, Order, PageState, Pageblock, Pfn, Tag, pageblocks};
use crate::sync::LockedWord;

/// The metadata of one zone's pages. Page numbers count from `base`, which is aligned to the largest order. The arrays
/// extend to the next such boundary after the zone. Pages outside the span read as `Inside`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frames<'a> {
    pub(crate) base: Pfn,
    /// The first page of the zone's span, and the page after its last.
    pub(crate) first: u32,
    pub(crate) end: u32,
    /// One byte per page.
    pub(crate) tags: &'a [AtomicU8],
    /// One byte per pageblock: see [`Pageblock`].
    pub(crate) types: &'a [AtomicU8],
    pub(crate) links: Links<'a>,
}

impl Frames<'_> {
    /// The metadata of no pages.
    pub(crate) const EMPTY: Self = Frames { base: Pfn(0), first: 0, end: 0, tags: &[], types: &[], links: Links(&[]) };

    /// The length of the arrays.
    pub(crate) fn len(&self) -> u32 {
        self.tags.len() as u32
    }

    /// The pages of the zone's span, holes included.
    pub(crate) fn spanned(&self) -> u64 {
        u64::from(self.end - self.first)
    }

    /// The page's number in the zone; `None` outside the zone's span.
    #[inline]
    pub(crate) fn page(&self, pfn: Pfn) -> Option<u32> {
        let page = pfn.0.wrapping_sub(self.base.0);
        (page >= u64::from(self.first) && page < u64::from(self.end)).then_some(page as u32)
    }

    pub(crate) fn pfn(&self, page: u32) -> Pfn {
        self.base.offset(u64::from(page))
    }

    #[inline]
    pub(crate) fn tag(&self, page: u32) -> Tag {
        let tag = self.plain_tag(page);
        if tag == Tag::INSIDE { self.largest_tag(page) } else { tag }
    }

    /// As [`Self::tag`], but `Inside` for a free block of the largest order.
    #[inline(always)]
    pub(crate) fn plain_tag(&self, page: u32) -> Tag {
        Tag(self.tags[page as usize].get())
    }

    /// The tag of a free block of the largest order, if one begins at a page.
    #[cold]
    fn largest_tag(&self, page: u32) -> Tag {
        match self.pageblock(page).largest() {
            Some(kind) if u64::from(page) % Order::MAX.pages() == 0 => {
                Tag::from_parts(PageState::Free, Order::MAX, kind)
            }
            _ => Tag::INSIDE,
        }
    }

    /// Tags a block that enters a free list. A block of the largest order is recorded in its pageblock's byte instead,
    /// so that bringing a large range online does not touch the tags' memory.
    pub(crate) fn set_free(&self, page: u32, order: Order, list: MigrateType) {
        let tag = Tag::new(PageState::Free, order, list);
        if order == Order::MAX {
            self.set_pageblock(page, self.pageblock(page).with_largest(tag.kind_bits()));
        } else {
            self.set_tag(page, tag);
        }
    }

    /// Sets the tag of a block that leaves a free list to `Inside`.
    pub(crate) fn set_not_free(&self, page: u32, order: Order) {
        if order == Order::MAX {
            self.set_pageblock(page, self.pageblock(page).without_largest());
        } else {
            self.set_tag(page, Tag::INSIDE);
        }
    }

    /// Claims an allocated block for a free: of all callers, one succeeds. Its tag then has the state Cached, so that a
    /// second free of it fails. Returns false, with nothing changed, if no allocated block of this order begins here.
    #[inline]
    pub(crate) fn claim(&self, page: u32, order: Order) -> bool {
        let now = self.plain_tag(page);
        now.is(PageState::Allocated, order)
            && exchange(&self.tags[page as usize], now, now.with_state(PageState::Cached))
    }

    /// Lends a block as the target of a move: it is in use, and its owner may free it.
    ///
    /// Its tag has no type, unlike that of every allocated block. So it differs from that of a block that the owner has
    /// freed and somebody has allocated again.
    pub(crate) fn lend(&self, page: u32, order: Order) {
        self.set_tag(page, Tag::lent(order));
    }

    /// Gives a lent block its type, unless the owner has freed it.
    pub(crate) fn keep_lent(&self, page: u32, order: Order, kind: MigrateType) {
        exchange(&self.tags[page as usize], Tag::lent(order), Tag::new(PageState::Allocated, order, kind));
    }

    /// Takes a lent block back, unless the owner has freed it. Its tag then has the state Cached.
    pub(crate) fn take_back(&self, page: u32, order: Order) -> bool {
        let lent = Tag::lent(order);
        exchange(&self.tags[page as usize], lent, lent.with_state(PageState::Cached))
    }

    #[cfg_attr(feature = "rules", inline(always))]
    #[cfg_attr(not(feature = "rules"), inline(never))]
    pub(crate) fn set_tag(&self, page: u32, tag: Tag) {
        self.tags[page as usize].set(tag.0);
    }

    /// The byte of the pageblock around a page.
    #[inline]
    pub(crate) fn pageblock(&self, page: u32) -> Pageblock {
        Pageblock(self.types[(page >> Order::PAGEBLOCK.get()) as usize].get())
    }

    /// Writes the byte of the pageblock around a page. The zone lock is held, since the byte is read, changed and
    /// written.
    pub(crate) fn set_pageblock(&self, page: u32, pageblock: Pageblock) {
        self.types[(page >> Order::PAGEBLOCK.get()) as usize].set(pageblock.0);
    }

    /// The type of the pageblock around a page.
    #[inline]
    pub(crate) fn block_type(&self, page: u32) -> MigrateType {
        self.pageblock(page).migratetype()
    }

    /// Sets a pageblock's type. Only `Zone::set_block_type` calls this, because it keeps the counters.
    pub(crate) fn set_block_type(&self, page: u32, migratetype: MigrateType) {
        self.set_pageblock(page, self.pageblock(page).with_type(migratetype));
    }

    /// Records that a block of pages is online. It may be smaller than a pageblock.
    pub(crate) fn set_online(&self, page: u32, order: Order) {
        for at in pageblocks(page, order) {
            self.set_pageblock(at, self.pageblock(at).with_online(true));
        }
    }

    /// The slot of a block's links. The links of pageblocks and larger blocks lie together after all others: bringing a
    /// large range online touches few cache lines, and alternating huge pages do not each use a page of links.
    pub(crate) fn slot(&self, page: u32, order: Order) -> u32 {
        if order >= Order::PAGEBLOCK { self.len() + (page >> Order::PAGEBLOCK.get()) } else { page }
    }

    /// The block of a slot on a list of `order`.
    pub(crate) fn page_of_slot(&self, slot: u32, order: Order) -> u32 {
        if order >= Order::PAGEBLOCK { (slot - self.len()) << Order::PAGEBLOCK.get() } else { slot }
    }

    /// As [`Self::page_of_slot`], for a number that may be no slot of the order.
    pub(crate) fn page_with_slot(&self, slot: u32, order: Order) -> Option<u32> {
        let is_large = slot >= self.len();
        let page = (is_large == (order >= Order::PAGEBLOCK)).then(|| self.page_of_slot(slot, order))?;
        (page < self.len()).then_some(page)
    }
}

/// Changes a tag with one atomic exchange. Returns false, with nothing changed, if it is no longer `from`.
#[inline(always)]
pub(crate) fn exchange(tag: &AtomicU8, from: Tag, to: Tag) -> bool {
    // Relaxed: only the exchange decides. The lock of the pageset or zone that the block enters orders all else.
    tag.compare_exchange(from.0, to.0, Relaxed, Relaxed).is_ok()
}

/// The links of one zone: two words per slot, next and previous. Valid only while a block is on a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links<'a>(pub(crate) &'a [AtomicU32]);

impl Links<'_> {
    pub(crate) fn next(&self, slot: u32) -> &AtomicU32 {
        &self.0[2 * slot as usize]
    }

    pub(crate) fn prev(&self, slot: u32) -> &AtomicU32 {
        &self.0[2 * slot as usize + 1]
    }
}

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// One free list, linked through the pages' links: its ends and its length in blocks. All calls are made with the zone lock held.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) head: AtomicU32,
    pub(crate) tail: AtomicU32,
    pub(crate) len: AtomicU32,
}

/// An end of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The end where blocks are taken.
    Head,
    /// The end for blocks that are likely to merge soon.
    Tail,
}

impl Default for List {
    fn default() -> Self {
        List::new()
    }
}

impl List {
    #[inline]
    pub(crate) const fn new() -> Self {
        List { head: AtomicU32::new(NONE), tail: AtomicU32::new(NONE), len: AtomicU32::new(0) }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len.get()
    }

    /// The slot at the head.
    pub(crate) fn first(&self) -> Option<u32> {
        some(self.head.get())
    }

    /// The slot at the tail.
    pub(crate) fn last(&self) -> Option<u32> {
        some(self.tail.get())
    }

    /// The slot after `slot`.
    pub(crate) fn after(&self, links: Links<'_>, slot: u32) -> Option<u32> {
        some(links.next(slot).get())
    }

    /// The slot before `slot`.
    pub(crate) fn before(&self, links: Links<'_>, slot: u32) -> Option<u32> {
        some(links.prev(slot).get())
    }

    /// Inserts a slot at one end. Calls `touch` with the neighbour, whose links also change.
    pub(crate) fn push(&self, links: Links<'_>, slot: u32, end: End, touch: impl Fn(u32)) {
        let (outer, inner, this_end, other_end) = match end {
            End::Head => (links.prev(slot), links.next(slot), &self.head, &self.tail),
            End::Tail => (links.next(slot), links.prev(slot), &self.tail, &self.head),
        };
        let old = this_end.get();
        outer.set(NONE);
        inner.set(old);
        this_end.set(slot);
        match some(old) {
            None => other_end.set(slot),
            Some(old) => {
                touch(old);
                match end {
                    End::Head => links.prev(old).set(slot),
                    End::Tail => links.next(old).set(slot),
                }
            }
        }
        self.len.set(self.len.get() + 1);
    }

    /// Removes a slot. Calls `touch` with its neighbours, whose links also change.
    pub(crate) fn remove(&self, links: Links<'_>, slot: u32, touch: impl Fn(u32)) {
        let (next, prev) = (links.next(slot).get(), links.prev(slot).get());
        match some(prev) {
            Some(prev) => {
                touch(prev);
                links.next(prev).set(next);
            }
            None => self.head.set(next),
        }
        match some(next) {
            Some(next) => {
                touch(next);
                links.prev(next).set(prev);
            }
            None => self.tail.set(prev),
        }
        self.len.set(self.len.get() - 1);
    }
}

pub(crate) fn some(slot: u32) -> Option<u32> {
    (slot != NONE).then_some(slot)
}
