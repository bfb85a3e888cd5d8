//! Free pages that are on no free list, and their way there. All who need every free page call [`CachedZone::settle`], or
//! [`Locked::settle`](crate::buddy::Locked::settle) with the lock of a region held.

use super::CachedZone;
use crate::buddy::Env;
use crate::frame::{CpuId, Order};
use crate::machine::{LockPath, Machine};
use crate::store::{Batches, Parts, Store};

/// Whose pages [`CachedZone::settle`] moves to free lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// Of the whole zone: of pagesets, of deferred frees, of depots and of bitmaps.
    Zone,
    /// Of depots: whole batches.
    Batches,
    /// Of bitmaps: free parts of pageblocks, from the pageblock of this number on. One call looks after 64 pageblocks.
    Parts(u32),
    /// Of the bitmap of the pageblock that begins at this page, if it may have free parts.
    Pageblock(u32),
    /// Of moves between pagesets and bitmaps that have begun: such a page is nowhere for a moment. The call waits for their end.
    Moves,
}

impl<M: Machine> CachedZone<'_, M> {
    /// Moves the free pages of a scope to the free lists. Waits for the locks of pagesets and regions, one at a time. The caller holds none.
    /// Pages that other CPUs free meanwhile may stay. Returns the scope of what is left to do.
    pub(crate) fn settle(&self, env: Env<'_, M>, scope: Scope) -> Option<Scope> {
        match scope {
            Scope::Zone => {
                self.shared.complete_deferred(env);
                // An empty pageset of an offline CPU costs one read.
                self.cpus().for_each(|cpu| self.drain_cpu(env, cpu));
                self.settle_all(env, Scope::Batches);
                self.settle_all(env, Scope::Parts(0));
            }
            Scope::Batches => {
                // All of them in one step.
                let left = Batches.settle(&self.shared, env, 0);
                debug_assert_eq!(left, None, "depots are settled at once");
            }
            Scope::Parts(from) => return Parts.settle(&self.shared, env, from).map(Scope::Parts),
            Scope::Pageblock(page) => {
                if self.shared.buddy.has_parts(page) {
                    self.shared.lock(env, LockPath::Map, page).settle(page, Order::PAGEBLOCK);
                }
            }
            Scope::Moves => self.cpus().for_each(|cpu| drop(self.lock_pageset(env, cpu))),
        }
        None
    }

    /// As [`Self::settle`], until nothing is left to do.
    pub(crate) fn settle_all(&self, env: Env<'_, M>, scope: Scope) {
        let mut left = Some(scope);
        while let Some(scope) = left {
            left = self.settle(env, scope);
        }
    }

    /// Whether the depots have pages, at a recent moment.
    pub(crate) fn has_batches(&self) -> bool {
        Batches.pages(&self.shared) > 0
    }

    /// Whether the bitmaps have pages, at a recent moment.
    pub(crate) fn has_parts(&self) -> bool {
        Parts.pages(&self.shared) > 0
    }

    /// Whether pages move between pagesets and bitmaps: a free page may be on no list, and in no block.
    pub(crate) fn moves_parts(&self) -> bool {
        Parts.are_kept(&self.shared)
    }

    fn cpus(&self) -> impl Iterator<Item = CpuId> + use<M> {
        (0..self.pagesets.len() as u32).map(CpuId)
    }
}
