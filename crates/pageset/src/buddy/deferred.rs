//! Completes frees that were deferred: whoever takes a zone's lock next, and waits for it, frees some of their blocks first.

use super::Wanted;
use crate::machine::{LockPath, Machine};
use crate::sync::LockedWord;
use crate::zone::{Env, Zone, ZoneGuard};

/// The most deferred frees that one hold of the lock completes, in blocks: about as much work as a refill. A guess.
const DEFERRED_PER_HOLD: u32 = 32;

impl<'a, M: Machine> Zone<'a, M> {
    /// Takes the lock of the region that a page is in, waits for it, and counts the hold. First completes some of the deferred
    /// frees.
    pub(crate) fn lock<'z>(&'z self, env: Env<'z, M>, path: LockPath, page: u32) -> ZoneGuard<'z, 'a, M> {
        self.complete_some_deferred(env);
        self.lock_region(env, path, self.region_of(page))
    }

    /// Takes the lock of a zone's only region for a request. Waits for it, unless the request waits for nothing.
    pub(crate) fn lock_for<'z>(
        &'z self,
        env: Env<'z, M>,
        path: LockPath,
        wanted: Wanted,
    ) -> Option<ZoneGuard<'z, 'a, M>> {
        if wanted.waits {
            self.complete_some_deferred(env);
        }
        self.lock_or_try(env, path, 0, wanted.waits)
    }

    /// Completes some of the deferred frees.
    #[inline]
    pub(crate) fn complete_some_deferred(&self, env: Env<'_, M>) {
        if !self.deferred.is_empty() {
            self.free_deferred(env);
        }
    }

    /// Completes all deferred frees, in as many holds as that takes. The caller does not hold the lock.
    pub(crate) fn complete_deferred(&self, env: Env<'_, M>) {
        while !self.deferred.is_empty() {
            self.free_deferred(env);
        }
    }

    /// Frees some of the blocks whose free was deferred, in a hold of its own: the first region's. A block of another region
    /// takes that region's lock as well. No other call takes two regions' locks.
    #[cold]
    fn free_deferred(&self, env: Env<'_, M>) {
        let path = LockPath::DirectFree;
        let first = self.lock_region(env, path, 0);
        let mut pages = 0;
        for _ in 0..DEFERRED_PER_HOLD {
            let Some(page) = self.deferred.take(|page| self.deferred_link(page).get()) else { break };
            let other = (!first.covers(page)).then(|| self.lock_region(env, path, self.region_of(page)));
            let guard = other.as_ref().unwrap_or(&first);
            let order = self.frames.tag(page).order();
            guard.free_direct(page, order);
            pages += order.pages() as u32;
        }
        self.sub_deferred(pages);
    }
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Goes on with the region of a page: keeps the lock if it is the same region.
    pub(crate) fn at(self, page: u32) -> Self {
        let (zone, env) = (self.zone, self.env);
        if self.covers(page) {
            return self;
        }
        drop(self);
        zone.lock(env, LockPath::Map, page)
    }
}
