//! The owners of pageblocks, and for each CPU the owned pageblocks that have free blocks in the zone: the rule
//! [`OwnerRule`](crate::OwnerRule).
//!
//! A CPU that claims a whole free pageblock owns it until all of it is free in the zone again, or until its type changes.
//! All calls but [`Owners::of`] are made with the zone lock held. Specification: `frontier.md` 1.2, 1.6.

use core::sync::atomic::AtomicU32;

use crate::frame::{CpuId, Order};
use crate::sync::LockedWord;

/// The words of one zone's owners; none without the rule.
///
/// The lists are rings: of a pageblock's slot, or of a CPU's, which comes after all pageblocks'. A link is the slot plus one, and
/// 0 in a slot that is on no list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owners<'a> {
    /// The owner of each pageblock plus one; 0 for none.
    cpus: &'a [AtomicU32],
    /// Two links for each slot: next, previous.
    links: &'a [AtomicU32],
}

impl<'a> Owners<'a> {
    /// No owners.
    pub(crate) const NONE: Self = Owners { cpus: &[], links: &[] };

    /// The words for a zone.
    pub(crate) const fn words(pageblocks: usize, cpus: usize) -> usize {
        3 * pageblocks + 2 * cpus
    }

    /// The owners in some words, which are zero.
    pub(crate) fn new(words: &'a [AtomicU32], pageblocks: usize) -> Self {
        debug_assert!(pageblocks <= words.len(), "{pageblocks} owners in {} words", words.len());
        let (cpus, links) = words.split_at(pageblocks.min(words.len()));
        Owners { cpus, links }
    }

    /// Whether pageblocks may have owners.
    #[inline(always)]
    pub(crate) fn are_kept(&self) -> bool {
        !self.cpus.is_empty()
    }

    /// The number of pageblocks.
    pub(crate) fn pageblocks(&self) -> u32 {
        self.cpus.len() as u32
    }

    /// The owner of the pageblock around a page, at a recent moment.
    #[inline]
    pub(crate) fn of(&self, page: u32) -> Option<CpuId> {
        self.cpus.get((page >> Order::PAGEBLOCK.get()) as usize)?.get().checked_sub(1).map(CpuId)
    }

    /// Makes a CPU the owner of a pageblock.
    pub(crate) fn claim(&self, page: u32, cpu: CpuId) {
        if let Some(word) = self.cpus.get((page >> Order::PAGEBLOCK.get()) as usize) {
            word.set(cpu.0 + 1);
        }
    }

    /// Ends the ownership of a pageblock.
    pub(crate) fn end(&self, page: u32) {
        if self.of(page).is_some() {
            self.unlist(page >> Order::PAGEBLOCK.get());
            self.cpus[(page >> Order::PAGEBLOCK.get()) as usize].set(0);
        }
    }

    /// Puts the pageblock around a page at the end of its owner's list, if it has an owner and is not there.
    pub(crate) fn list(&self, page: u32) {
        let slot = page >> Order::PAGEBLOCK.get();
        let Some(cpu) = self.of(page).filter(|_| self.links[2 * slot as usize].get() == 0) else { return };
        let ring = self.ring(cpu);
        let last = self.previous(ring);
        self.join(last, slot);
        self.join(slot, ring);
    }

    /// Takes a pageblock off its owner's list, if it is there.
    pub(crate) fn unlist(&self, slot: u32) {
        let (previous, next) = (self.previous(slot), self.next(slot));
        if next != slot {
            self.join(previous, next);
            self.links[2 * slot as usize].set(0);
            self.links[2 * slot as usize + 1].set(0);
        }
    }

    /// The pageblock after another one on a CPU's list, or the first.
    pub(crate) fn after(&self, cpu: CpuId, slot: Option<u32>) -> Option<u32> {
        let ring = self.ring(cpu);
        Some(self.next(slot.unwrap_or(ring))).filter(|&next| next != ring)
    }

    fn ring(&self, cpu: CpuId) -> u32 {
        self.pageblocks() + cpu.0
    }

    fn next(&self, slot: u32) -> u32 {
        self.links[2 * slot as usize].get().checked_sub(1).unwrap_or(slot)
    }

    fn previous(&self, slot: u32) -> u32 {
        self.links[2 * slot as usize + 1].get().checked_sub(1).unwrap_or(slot)
    }

    fn join(&self, first: u32, second: u32) {
        self.links[2 * first as usize].set(second + 1);
        self.links[2 * second as usize + 1].set(first + 1);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec::Vec;

    #[test]
    fn lists_of_two_owners() {
        let words: Vec<AtomicU32> = (0..Owners::words(6, 2)).map(|_| AtomicU32::new(0)).collect();
        let owners = Owners::new(&words, 6);
        let page = |slot: u32| slot << Order::PAGEBLOCK.get();
        let listed = |cpu| {
            core::iter::successors(owners.after(CpuId(cpu), None), |&slot| owners.after(CpuId(cpu), Some(slot)))
                .collect::<Vec<_>>()
        };
        for (slot, cpu) in [(4, 0), (1, 1), (0, 0), (5, 1), (2, 0)] {
            owners.claim(page(slot), CpuId(cpu));
        }
        for slot in [4, 1, 0, 3, 4, 5, 2] {
            owners.list(page(slot) + 7);
        }
        assert_eq!((listed(0), listed(1)), (Vec::from([4, 0, 2]), Vec::from([1, 5])));
        owners.end(page(0) + 1);
        owners.end(page(3));
        owners.unlist(1);
        owners.unlist(1);
        assert_eq!((listed(0), listed(1)), (Vec::from([4, 2]), Vec::from([5])));
        assert_eq!((owners.of(page(0)), owners.of(page(1))), (None, Some(CpuId(1))));
        owners.unlist(5);
        owners.list(page(1));
        assert_eq!(listed(1), [1]);
        owners.unlist(1);
        assert_eq!(listed(1), []);
    }
}
