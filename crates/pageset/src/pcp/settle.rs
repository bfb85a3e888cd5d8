//! Free pages that are on no free list, and their way there. All who need every free page call [`CachedZone::settle`], or
//! [`Locked::settle`](crate::buddy::Locked::settle) with the lock of a region held.

use super::CachedZone;
use crate::buddy::Env;
use crate::frame::CpuId;
use crate::machine::Machine;
use crate::store::{self, Batches, Parts, Scope, Store};

impl<M: Machine> CachedZone<'_, M> {
    /// Moves the free pages of a scope to the free lists; of a whole zone also those of pagesets and of deferred frees. Waits for the locks of
    /// pagesets and regions, one at a time. The caller holds none. Pages that other CPUs free meanwhile may stay. Returns the scope of what is
    /// left to do.
    pub(crate) fn settle(&self, env: Env<'_, M>, scope: Scope) -> Option<Scope> {
        if scope == Scope::Zone {
            self.shared.complete_deferred(env);
            // An empty pageset of an offline CPU costs one read.
            self.cpus().for_each(|cpu| self.drain_cpu(env, cpu));
        }
        store::settle(&self.shared, env, scope)
    }

    /// As [`Self::settle`], until nothing is left to do.
    pub(crate) fn settle_all(&self, env: Env<'_, M>, scope: Scope) {
        let mut left = Some(scope);
        while let Some(scope) = left {
            left = self.settle(env, scope);
        }
    }

    /// Waits for the end of moves between pagesets and bitmaps that have begun: such a page is nowhere for a moment. Returns whether pages
    /// move so in this zone: if not, there was nothing to wait for.
    pub(crate) fn await_moves(&self, env: Env<'_, M>) -> bool {
        if self.moves_parts() {
            self.cpus().for_each(|cpu| drop(self.lock_pageset(env, cpu)));
        }
        self.moves_parts()
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
