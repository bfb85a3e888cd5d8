//! Frees one block into a pageset.
//!
//! Specification: `linux-page-allocator.md` 2.5, 4.11.

use super::{CachedZone, MachineGuard};
use crate::buddy::Env;
use crate::frame::{CpuId, Order};
use crate::machine::Machine;
use crate::sync;

impl<M: Machine> CachedZone<'_, M> {
    /// Puts a block whose tag is Cached into a CPU's pageset, and drains the pages that are due. If `drain` is false,
    /// only a pageset that may keep nothing is drained. Returns false if the pageset is busy or has no room: the block
    /// then still belongs to the caller.
    #[inline]
    pub(crate) fn free_cached(
        &self,
        env: Env<'_, M>,
        cpu: CpuId,
        list: usize,
        page: u32,
        order: Order,
        drain: bool,
    ) -> bool {
        let Some(mut pcp) = self.try_lock_pageset(env, cpu) else { return false };
        if !pcp.push(list, page) {
            return false;
        }
        let due = env.tuning.commit(&mut pcp, order, self.shared.pressure());
        pcp.update_threshold();
        sync::add(&pcp.free_pages, order.pages());
        if due > 0 && (drain || !pcp.may_keep()) {
            drop(self.drain_after_free(env, pcp, due, list, cpu));
        }
        true
    }

    /// Drains the pages that are due after a free, and clears "below high" of a zone that is above its high mark again.
    /// Returns the lock of the pageset to the caller, unless another thread took it between two chunks.
    #[cold]
    pub(super) fn drain_after_free<'p>(
        &'p self,
        env: Env<'p, M>,
        pcp: MachineGuard<'p, M::Lock>,
        due: u32,
        list: usize,
        cpu: CpuId,
    ) -> Option<MachineGuard<'p, M::Lock>> {
        let pageset = pcp.pageset;
        // Chunked: the drain stops early if another thread holds the pageset meanwhile, or if the caller has moved to
        // another CPU.
        let relock = || if env.machine.cpu() == cpu { self.try_lock_again(env, pageset, cpu) } else { None };
        let pcp = self.drain_in_holds(env, pcp, due, list, relock);
        self.shared.clear_below_high();
        pcp
    }
}
