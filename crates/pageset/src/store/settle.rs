//! The way of pages from the stores to the free lists. All who need every free page settle a scope.

use super::{Batches, Parts, Store};
use crate::buddy::Env;
use crate::frame::Order;
use crate::machine::{LockPath, Machine};
use crate::zone::Zone;

/// Whose pages [`settle`] moves to free lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// Of all stores of the zone: of depots, then of bitmaps. [`CachedZone::settle`](crate::pcp::CachedZone::settle) also moves those of
    /// pagesets and of deferred frees.
    Zone,
    /// Of depots: whole batches.
    Batches,
    /// Of bitmaps: free parts of pageblocks, from the pageblock of this number on. One call looks after 64 pageblocks.
    Parts(u32),
    /// Of the bitmap of the pageblock that begins at this page, if it may have free parts.
    Pageblock(u32),
}

/// Moves the free pages of a scope to the free lists. Waits for the locks of regions, one at a time; the caller holds none. Pages that
/// other CPUs free meanwhile may stay. Returns the scope of what is left to do.
pub(crate) fn settle<M: Machine>(zone: &Zone<'_, M>, env: Env<'_, M>, scope: Scope) -> Option<Scope> {
    match scope {
        Scope::Zone => settle(zone, env, Scope::Batches).or(Some(Scope::Parts(0))),
        Scope::Batches => {
            // All of them in one step.
            let left = Batches.settle(zone, env, 0);
            debug_assert_eq!(left, None, "depots are settled at once");
            None
        }
        Scope::Parts(from) => Parts.settle(zone, env, from).map(Scope::Parts),
        Scope::Pageblock(page) => {
            if zone.buddy.has_parts(page) {
                zone.lock(env, LockPath::Map, page).settle(page, Order::PAGEBLOCK);
            }
            None
        }
    }
}
