//! What a drain will look at, told ahead to a machine that follows picks: see [`Machine::expect`].

use core::sync::atomic::AtomicU32;

use super::Pageset;
use crate::frame::MigrateType;
use crate::frame::{Order, start_of};
use crate::machine::Machine;
use crate::sync::Held;
use crate::zone::Zone;

/// So many pages before a page's turn its buddies are told of, and those on both sides of one that is free. Measured.
const BUDDIES: usize = 8;
const SIDES: usize = 4;
/// Orders whose buddies are: of a hundred drained pages one merges further.
const ORDERS: usize = 4;

impl<M: Machine> Zone<'_, M> {
    /// Tells of the first single pages that a drain is about to pick, those that lie together, and of their buddies. The
    /// zone lock need not be held.
    #[inline(always)]
    pub(super) fn expect_picks(&self, machine: &M, pcp: &Pageset<M::Lock>, wanted: u32) {
        if machine.follows_picks() {
            for list in &pcp.lists[..MigrateType::PCP_COUNT] {
                for page in list.oldest(self.arrays).iter().take(wanted as usize).map(Held::get) {
                    self.expect(machine, page);
                    self.expect(machine, page ^ 1);
                }
            }
        }
    }

    /// Single pages that are given to the buddy one after the other; of what that will look at is told in time.
    #[inline(always)]
    pub(super) fn expecting(&self, machine: &M, run: &[AtomicU32]) -> impl Iterator<Item = u32> {
        if machine.follows_picks() {
            run.iter().take(BUDDIES).for_each(|page| self.expect_buddies(machine, page.get()));
            run.iter().take(SIDES).for_each(|page| self.expect_sides(machine, page.get()));
        }
        run.iter().enumerate().map(move |(i, page)| {
            if machine.follows_picks() {
                run.get(i + BUDDIES).into_iter().for_each(|page| self.expect_buddies(machine, page.get()));
                run.get(i + SIDES).into_iter().for_each(|page| self.expect_sides(machine, page.get()));
            }
            page.get()
        })
    }

    fn expect_buddies(&self, machine: &M, page: u32) {
        for order in Order::all().take(ORDERS) {
            self.expect(machine, start_of(page, order) ^ order.pages() as u32);
        }
    }

    fn expect_sides(&self, machine: &M, page: u32) {
        let buddy = page ^ 1;
        if self.is_free(buddy, Order::ZERO) {
            self.frames.links.pair(buddy).iter().for_each(|link| self.expect(machine, link.get()));
        }
    }

    fn expect(&self, machine: &M, page: u32) {
        if let Some(link) = self.frames.links.pair(page).first() {
            machine.expect(self.frames.pfn(page), link);
        }
    }
}
