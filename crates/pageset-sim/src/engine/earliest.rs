//! Which of a fixed number of slots is due first: a tournament of their times.

use std::cell::Cell;

use crate::time::Time;

/// A time for each slot. Finding the first is one look, changing a time one walk to the root. Of equal times the slot with
/// the lower number is first.
#[derive(Debug)]
pub(crate) struct Earliest {
    /// The least key of each pair, the root at 1; the slots' own follow from `leaves` on. Keys rather than slots, so that
    /// no step of a walk waits for what the one before has read.
    keys: Box<[Cell<Key>]>,
    leaves: usize,
}

/// A time, and below it a slot: of two keys the lesser is due first.
type Key = u128;
/// Bits of the slot.
const SLOT_BITS: u32 = 64;

fn key(time: Time, slot: usize) -> Key {
    Key::from(time.ps()) << SLOT_BITS | slot as Key
}

impl Earliest {
    /// Slots that are all never due.
    pub(crate) fn new(slots: usize) -> Self {
        let leaves = slots.next_power_of_two().max(2);
        let order = Earliest { keys: vec![Cell::new(Key::MAX); 2 * leaves].into(), leaves };
        (0..leaves).for_each(|slot| order.set(slot, Time::NEVER));
        order
    }

    /// Sets when a slot is due.
    #[inline]
    pub(crate) fn set(&self, slot: usize, time: Time) {
        let mut node = self.leaves + slot;
        let mut least = key(time, slot);
        self.keys[node].set(least);
        while node > 1 {
            least = least.min(self.keys[node ^ 1].get());
            node /= 2;
            if self.keys[node].replace(least) == least {
                // Further up nobody sees a change.
                break;
            }
        }
    }

    /// The first slot and when it is due.
    #[inline]
    pub(crate) fn first(&self) -> (Time, usize) {
        let first = self.keys[1].get();
        (Time::from_ps((first >> SLOT_BITS) as u64), first as u64 as usize)
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
