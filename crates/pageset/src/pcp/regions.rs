//! Which region of a zone serves a request. See [`RegionRule`](crate::policy::RegionRule).

use super::{CachedZone, Pageset};
use crate::buddy::{Env, Wanted};
use crate::machine::{LockPath, Machine};
use crate::store::{self, Store};
use crate::zone::ZoneGuard;

/// What a pass over the regions accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Locks that are free, and blocks of the wanted type or whole pageblocks.
    Easy,
    /// Everything that the request allows.
    All,
}

impl<'a, M: Machine> CachedZone<'a, M> {
    /// Takes something from a region: from the pageset's region if that has something, else from the next one. The first pass
    /// waits for no lock and mixes no types. The region that serves becomes the pageset's, unless its own was only busy.
    pub(crate) fn take_from_regions<'z, T>(
        &'z self,
        env: Env<'z, M>,
        path: LockPath,
        pageset: &Pageset<M::Lock>,
        wanted: Wanted,
        mut take: impl FnMut(&ZoneGuard<'_, '_, M>, Wanted) -> Option<T>,
    ) -> Option<T> {
        let (zone, buddy) = (&self.shared, &self.shared.buddy);
        if let [_] = buddy.regions {
            return take(&zone.lock_for(env, path, wanted, 0)?, wanted);
        }
        if wanted.waits {
            zone.complete_some_deferred(env);
        }
        let own = pageset.region();
        let mut busy = false;
        for pass in [Pass::Easy, Pass::All] {
            for number in buddy.regions_from(own) {
                if !store::ALL.may_serve(zone, number, wanted.order.pages()) {
                    continue;
                }
                let guard = if pass == Pass::All && wanted.waits {
                    Some(zone.lock_region(env, path, number))
                } else {
                    zone.try_lock_region(env, path, number)
                };
                let Some(guard) = guard else {
                    busy |= number == own;
                    continue;
                };
                let wanted = Wanted { no_fragment: wanted.no_fragment || pass == Pass::Easy, ..wanted };
                if let Some(taken) = take(&guard, wanted) {
                    if number != own && !busy {
                        pageset.prefer_region(number);
                    }
                    return Some(taken);
                }
            }
        }
        None
    }

    /// Takes something from one region, as the first pass of [`Self::take_from_regions`].
    pub(crate) fn take_from_region<'z, T>(
        &'z self,
        env: Env<'z, M>,
        path: LockPath,
        number: usize,
        wanted: Wanted,
        mut take: impl FnMut(&ZoneGuard<'_, '_, M>, Wanted) -> Option<T>,
    ) -> Option<T> {
        debug_assert!(number < self.shared.buddy.regions.len(), "region {number}");
        let guard = self.shared.try_lock_region(env, path, number.min(self.shared.buddy.regions.len() - 1))?;
        take(&guard, Wanted { no_fragment: true, ..wanted })
    }
}
