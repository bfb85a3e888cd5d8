//! One block freed into a pageset.
//!
//! Specification: `linux-page-allocator.md` 2.5, 4.11.

use super::{CachedZone, MachineGuard};
use crate::buddy::Env;
use crate::frame::{CpuId, Order};
use crate::machine::Machine;
use crate::sync;

impl<M: Machine> CachedZone<'_, M> {
    /// Puts a block whose tag is Cached into a CPU's pageset and drains what is due; where `drain` is false, only a pageset
    /// that may keep nothing is drained. False when the pageset is busy or has no room: the block is then the caller's.
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
        let due = env.tuning.commit(&mut pcp, order, self.zone.pressure());
        pcp.update_threshold();
        sync::add(&pcp.free_pages, order.pages());
        if due > 0 && (drain || !pcp.may_keep()) {
            drop(self.drain_after_free(env, pcp, due, list, cpu));
        }
        true
    }

    /// Drains what is due after a free, and clears "below high" of a zone that is above its high mark again. Gives the lock
    /// of the pageset back to the caller, unless another took it between two chunks.
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
        // Chunked: the rest is given up when another holds the pageset meanwhile, or this is another CPU by now.
        let relock = || if env.machine.cpu() == cpu { self.try_lock_again(env, pageset, cpu) } else { None };
        let pcp = self.drain_due(env, pcp, due, list, relock);
        self.zone.clear_below_high();
        pcp
    }
}
