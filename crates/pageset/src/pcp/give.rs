//! One block given to a pageset.
//!
//! Specification: `linux-page-allocator.md` 2.5, 4.11.

use super::Pageset;
use crate::frame::{CpuId, Order};
use crate::machine::{Guard, Machine};
use crate::policy::Tuning;
use crate::sync::{self, Held};
use crate::zone::Zone;

impl<M: Machine> Zone<'_, M> {
    /// Puts a block whose tag is Cached into a pageset and drains what is due. False when the pageset is busy or
    /// has no room: the block is then the caller's.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "all of a free's inputs")]
    pub(crate) fn free_cached(
        &self,
        machine: &M,
        tuning: &Tuning,
        cpu: CpuId,
        list: usize,
        page: u32,
        order: Order,
        drain: bool,
    ) -> bool {
        let pcp = self.pageset(machine, cpu);
        let Some(guard) = pcp.try_lock(machine, cpu) else { return false };
        if !pcp.lists[list].push(self.arrays, &pcp.pool, page) {
            return false;
        }
        let due = tuning.commit(&mut &*pcp, order, self.pressure());
        pcp.note_calm();
        sync::add(&pcp.free_pages, order.pages());
        // A pageset that may keep nothing is drained even for those who drain nothing else.
        if due == 0 || !drain && pcp.high_max.get() > 0 {
            return true;
        }
        drop(self.drain_committed(machine, tuning, pcp, guard, due, list, cpu));
        true
    }

    /// Drains what is due after a free, and looks whether the zone is above its high mark again. Gives the lock back to
    /// the caller unless it was given up.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "all of a drain's inputs")]
    pub(super) fn drain_committed<'p>(
        &self,
        machine: &M,
        tuning: &Tuning,
        pcp: &'p Pageset<M::Lock>,
        guard: Guard<'p, M::Lock>,
        due: u32,
        list: usize,
        cpu: CpuId,
    ) -> Option<Guard<'p, M::Lock>> {
        // Chunked: what is left is given up when another holds the pageset meanwhile, or this is another CPU by now.
        let relock = || (machine.cpu() == cpu).then(|| pcp.try_lock(machine, cpu)).flatten();
        let guard = self.drain_due(machine, tuning, pcp, guard, due, list, relock);
        self.clear_below_high();
        guard
    }
}
