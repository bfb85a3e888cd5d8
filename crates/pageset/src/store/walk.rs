//! The audit's walk of the free lists of all regions.

use crate::frame::{Frames, List, MigrateType, Order, PageState, Tag};
use crate::machine::Machine;
use crate::zone::region::FreePages;
use crate::zone::{Mismatch, Zone};

/// Walks all free lists, and compares them with the counters of the regions, whose sums are those of the zone. Returns the pages on
/// them.
pub(super) fn audit_lists<M: Machine>(zone: &Zone<'_, M>) -> Result<u64, Mismatch> {
    let mut all = 0;
    for (number, region) in zone.regions.iter().enumerate() {
        let (mut free, mut isolated) = (FreePages { all: 0, cma: 0, highatomic: 0 }, 0);
        for order in Order::all() {
            for migratetype in MigrateType::ALL {
                let pages = audit_list(zone, number, region.list(order, migratetype), order, migratetype)?;
                match migratetype {
                    MigrateType::Isolate => isolated += pages,
                    MigrateType::Cma => free.cma += pages,
                    MigrateType::HighAtomic => free.highatomic += pages,
                    _ => {}
                }
                free.all += pages;
            }
        }
        all += free.all;
        free.all -= isolated;
        let counted = region.free();
        equal("the free pages of a region", counted.all, free.all)?;
        equal("the free CMA pages of a region", counted.cma, free.cma)?;
        equal("the free HIGHATOMIC pages of a region", counted.highatomic, free.highatomic)?;
    }
    Ok(all)
}

/// Walks one free list of a region; returns the pages on it.
fn audit_list<M: Machine>(
    zone: &Zone<'_, M>,
    region: usize,
    list: &List,
    order: Order,
    migratetype: MigrateType,
) -> Result<u64, Mismatch> {
    let frames = &zone.frames;
    let (mut slot, mut before, mut len) = (list.first(), None, 0);
    let number = |slot: Option<u32>| slot.map_or(0, |slot| u64::from(slot) + 1);
    // A corrupt list may be circular.
    while let Some(at) = slot.filter(|_| len <= u64::from(list.len())) {
        let Some(page) = frames.page_with_slot(at, order) else { return Err(outside(at)) };
        let wrong = |what, expected, found| Err((Some(page), what, expected, found));
        if zone.list_of(page) != migratetype {
            return wrong("the list of a block", migratetype as u64, zone.list_of(page) as u64);
        }
        check_tag(frames, page, order, PageState::Free)?;
        if zone.region_of(page) != region {
            return wrong("the region of a block on a list", region as u64, zone.region_of(page) as u64);
        }
        let found = list.before(frames.links, at);
        if found != before {
            return wrong("the link of a block to the one before it", number(before), number(found));
        }
        len += 1;
        before = slot;
        slot = list.after(frames.links, at);
    }
    equal("the length of a free list", list.len().into(), len)?;
    equal("the tail of a free list", number(before), number(list.last()))?;
    Ok(len * order.pages())
}

/// Checks the tag of a block on a list, or in a pageset.
pub(crate) fn check_tag(frames: &Frames<'_>, page: u32, order: Order, state: PageState) -> Result<(), Mismatch> {
    if page >= frames.len() {
        return Err(outside(page));
    }
    let tag = frames.tag(page);
    if !tag.is(state, order) {
        let expected = Tag::new(state, order, MigrateType::Unmovable).0 & 0x3f;
        return Err((Some(page), "the tag of a listed block", expected.into(), tag.0.into()));
    }
    Ok(())
}

fn outside(number: u32) -> Mismatch {
    (None, "a free list or pageset has a page outside the zone", 0, number.into())
}

fn equal(what: &'static str, expected: u64, found: u64) -> Result<(), Mismatch> {
    if expected == found { Ok(()) } else { Err((None, what, expected, found)) }
}
