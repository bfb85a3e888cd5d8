//! Which of a fixed number of slots is due first: a tournament of their times.

use std::cell::Cell;

use crate::time::Time;

/// A time for each slot. Finding the first is one look, changing a time one walk to the root. Of equal times the slot with
/// the lower number is first.
#[derive(Debug)]
pub(crate) struct Earliest {
    times: Box<[Cell<Time>]>,
    /// The winner of each pair, the root at 1. The leaves are not stored: node `leaves + slot` is `slot`.
    winners: Box<[Cell<u32>]>,
    leaves: usize,
}

impl Earliest {
    /// Slots that are all never due.
    pub(crate) fn new(slots: usize) -> Self {
        let leaves = slots.next_power_of_two().max(2);
        let times = vec![Cell::new(Time::NEVER); leaves].into();
        let order = Earliest { times, winners: vec![Cell::new(0); leaves].into(), leaves };
        for node in (1..leaves).rev() {
            order.winners[node].set(order.winner(2 * node));
        }
        order
    }

    /// The slot that won at a node.
    fn winner(&self, node: usize) -> u32 {
        if node >= self.leaves { (node - self.leaves) as u32 } else { self.winners[node].get() }
    }

    /// Sets when a slot is due.
    #[inline]
    pub(crate) fn set(&self, slot: usize, time: Time) {
        self.times[slot].set(time);
        let mut node = (self.leaves + slot) / 2;
        while node > 0 {
            let (left, right) = (self.winner(2 * node), self.winner(2 * node + 1));
            let right_first = self.times[right as usize].get() < self.times[left as usize].get();
            let winner = if right_first { right } else { left };
            if self.winners[node].replace(winner) == winner && winner as usize != slot {
                // Further up nobody sees a change.
                break;
            }
            node /= 2;
        }
    }

    /// The first slot and when it is due.
    #[inline]
    pub(crate) fn first(&self) -> (Time, usize) {
        let slot = self.winners[1].get() as usize;
        (self.times[slot].get(), slot)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_is_the_least(slots in 1..40_usize, sets in prop::collection::vec((0..40_usize, 0..6_u64), 0..200)) {
            let order = Earliest::new(slots);
            let mut model = vec![Time::NEVER; slots];
            prop_assert_eq!(order.first(), (Time::NEVER, 0));
            for (slot, time) in sets {
                let (slot, time) = (slot % slots, if time == 5 { Time::NEVER } else { Time::from_ps(time) });
                order.set(slot, time);
                model[slot] = time;
                let least = model.iter().enumerate().min_by_key(|(slot, time)| (**time, *slot)).unwrap();
                prop_assert_eq!(order.first(), (*least.1, least.0));
            }
        }
    }
}
