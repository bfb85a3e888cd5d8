//! What the pagesets of a zone may keep together, under the rule [`Tuning::kept_fraction`](crate::Tuning::kept_fraction), where each of
//! many CPUs has a small share.
//!
//! Half of it is divided among the online CPUs. The other half is lent: a pageset that has reached its bound borrows when it refills or
//! frees, and returns at a tick what its `high` no longer needs. So CPUs that are idle cost the busy ones at most half of what they may
//! keep, and all together never keep more. No call reads another CPU's pageset.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use super::{CachedZone, PcpGuard};
use crate::machine::Machine;
use crate::policy::Bounds;
use crate::policy::sizes::{MAX_HIGH, MAX_SHARE, Share};
use crate::sync::{LockedWord, const_new};
use crate::zone::Env;

/// The least that a pageset borrows, in pages: about a batch. A guess: less is not worth a change of the bounds.
const LEAST_LOAN: u32 = 64;

/// The largest loan: one page of so many that may be lent. A guess: one busy CPU leaves as much to all others.
const LARGEST_LOAN: u32 = 2;

/// The shares of a zone's pagesets, in pages. All words but `left` are written under the lock of changes.
#[derive(Debug)]
pub(crate) struct Shares {
    /// What each pageset may keep without a loan.
    each: AtomicU32,
    /// The batch and the lower bound of high of a pageset whose loan is large.
    batch: AtomicU32,
    high_min: AtomicU32,
    /// What may be lent.
    lent: AtomicU32,
    /// The part of it that nobody has borrowed: a signed number, below 0 while pagesets have more than a new `lent`.
    left: AtomicU32,
    /// The most that a pageset may keep with a loan: [`MAX_SHARE`], or the capacity that the embedder gave. Written when the zone is built.
    most: AtomicU32,
}

impl Shares {
    const_new! {
        #[inline]
        pub(super) fn new() -> Self {
            Shares {
                each: AtomicU32::new(0),
                batch: AtomicU32::new(0),
                high_min: AtomicU32::new(0),
                lent: AtomicU32::new(0),
                left: AtomicU32::new(0),
                most: AtomicU32::new(MAX_SHARE),
            }
        }
    }

    /// Limits what a pageset may keep with a loan.
    pub(crate) fn limit(&self, capacity: u32) {
        self.most.set(capacity.min(MAX_SHARE));
    }

    /// Sets the shares. `bounds` are those of a pageset that may keep all. Loans stay until each pageset gets its bounds.
    pub(crate) fn decide(&self, share: Share, bounds: Bounds) {
        self.each.set(share.each);
        self.batch.set(bounds.batch);
        self.high_min.set(bounds.high_min);
        // Relaxed, as below: the sum of `left` and all loans is what counts, and each change of it is one atomic operation.
        self.left.fetch_add(share.lent.wrapping_sub(self.lent.get()), Relaxed);
        self.lent.set(share.lent);
    }

    /// What may be lent, and what nobody has borrowed.
    pub(crate) fn lent_and_left(&self) -> [i64; 2] {
        [self.lent.get().into(), i64::from(self.left.load(Relaxed) as i32)]
    }

    /// What a pageset with a loan may keep.
    pub(crate) fn with_loan(&self, loan: u32) -> u32 {
        self.each.get().saturating_add(loan).min(self.most.get())
    }

    /// Lends at most `wanted` pages, and half of what is left: others borrow later. 0 if that is not worth it.
    fn lend(&self, wanted: u32) -> u32 {
        let mut loan = 0;
        let _ = self.left.fetch_update(Relaxed, Relaxed, |left| {
            loan = wanted.min((left as i32).max(0) as u32 / 2);
            (loan >= LEAST_LOAN).then(|| left - loan)
        });
        if loan >= LEAST_LOAN { loan } else { 0 }
    }
}

impl<M: Machine> CachedZone<'_, M> {
    /// Borrows for a pageset that is about to keep `pages` pages, if it may not.
    #[inline]
    pub(super) fn borrow_for<G>(&self, env: Env<'_, M>, pcp: &PcpGuard<'_, M::Lock, G>, pages: u32) {
        if env.tuning.kept_fraction > 0 && pages > pcp.high_max.get() {
            self.borrow(env, pcp, pages);
        }
    }

    #[cold]
    #[inline(never)]
    fn borrow<G>(&self, env: Env<'_, M>, pcp: &PcpGuard<'_, M::Lock, G>, pages: u32) {
        if !pcp.may_keep() || self.shares.left.load(Relaxed) as i32 <= 0 {
            return;
        }
        let has = self.shares.with_loan(pcp.loan.get());
        // Twice as much each time, and room for the batch that a pageset may keep beyond its high.
        let most = self.shares.with_loan(self.shares.lent.get() / LARGEST_LOAN);
        let wanted = has.max(pages.saturating_mul(2).saturating_sub(has)).min(most.saturating_sub(has));
        let loan = self.shares.lend(wanted);
        if loan > 0 {
            pcp.loan.set(pcp.loan.get() + loan);
            self.set_bounds_with_loan(env, pcp);
        }
    }

    /// Returns at a tick what a pageset has borrowed and does not need.
    #[inline]
    pub(super) fn return_loan<G>(&self, env: Env<'_, M>, pcp: &PcpGuard<'_, M::Lock, G>) {
        let loan = pcp.loan.get();
        if loan == 0 {
            return;
        }
        // At its lower bound, high says nothing: the pages that are there count.
        let high = if pcp.high.get() > pcp.high_min.get() { pcp.high.get() } else { 0 };
        let needed = (high.max(pcp.count()) + pcp.batch.get()).saturating_sub(self.shares.each.get());
        if needed < loan {
            self.shares.left.fetch_add(loan - needed, Relaxed);
            pcp.loan.set(needed);
            self.set_bounds_with_loan(env, pcp);
        }
    }

    /// Returns all that a pageset has borrowed. Its bounds are then set anew.
    pub(crate) fn end_loan<G>(&self, pcp: &PcpGuard<'_, M::Lock, G>) {
        self.shares.left.fetch_add(pcp.loan.get(), Relaxed);
        pcp.loan.set(0);
    }

    fn set_bounds_with_loan<G>(&self, env: Env<'_, M>, pcp: &PcpGuard<'_, M::Lock, G>) {
        let bounds = match pcp.loan.get() {
            // Without the lock of changes: who decides other bounds meanwhile sets them after this.
            0 => pcp.within_capacity(self.bounds.get()),
            loan => {
                let (batch, high_min) = (self.shares.batch.get(), self.shares.high_min.get());
                Bounds { batch, high_min, high_max: MAX_HIGH }.within(self.shares.with_loan(loan))
            }
        };
        pcp.set_bounds(bounds, env.tuning, pcp.large_cache.get());
    }
}
