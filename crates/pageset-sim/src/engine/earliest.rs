//! A priority queue over a fixed number of slots: a sorted row of the slots that are due.

use std::cell::{Cell, RefCell};

use crate::time::Time;

/// When each slot is due. At equal times the slot with the lower number is first.
///
/// Under lock contention most slots are not due, because their CPUs wait in queues. New entries are mostly due soon, so
/// few entries of the row move for them.
#[derive(Debug)]
pub(crate) struct Earliest {
    /// The keys of the due slots, the earliest last.
    row: RefCell<Vec<Key>>,
    /// When each slot is due.
    times: Box<[Cell<Time>]>,
}

/// A time in the high bits and a slot in the low bits: the smaller key is due first.
type Key = u128;
/// Bits of the slot number in a key.
const SLOT_BITS: u32 = 64;

fn key(time: Time, slot: usize) -> Key {
    Key::from(time.ps()) << SLOT_BITS | slot as Key
}

/// Entries to shift one by one before a binary search: the position is mostly among them. A guess. A longer row, such
/// as that of a thousand CPUs without lock contention, is searched by bisection and moved at once. (A tournament tree
/// took two thirds of the time there, but 1.04 to 1.3 times the time under lock contention.)
const NEAR: usize = 16;

impl Earliest {
    /// An instance in which no slot is due.
    pub(crate) fn new(slots: usize) -> Self {
        Earliest { row: RefCell::new(Vec::with_capacity(slots)), times: vec![Cell::new(Time::NEVER); slots].into() }
    }

    /// Sets when a slot is due; [`Time::NEVER`] removes it from the row.
    #[inline]
    pub(crate) fn set(&self, slot: usize, time: Time) {
        let before = self.times[slot].replace(time);
        let mut row = self.row.borrow_mut();
        if before != Time::NEVER {
            remove(&mut row, key(before, slot));
        }
        if time != Time::NEVER {
            insert(&mut row, key(time, slot));
        }
    }

    /// The time and number of the earliest slot; slot 0 at [`Time::NEVER`] if no slot is due.
    #[inline]
    pub(crate) fn first(&self) -> (Time, usize) {
        match self.row.borrow().last() {
            None => (Time::NEVER, 0),
            Some(first) => (Time::from_ps((first >> SLOT_BITS) as u64), *first as u64 as usize),
        }
    }
}

#[inline]
fn remove(row: &mut Vec<Key>, key: Key) {
    if row.last() == Some(&key) {
        row.pop();
    } else {
        row.remove(row.partition_point(|other| *other > key));
    }
}

#[inline]
fn insert(row: &mut Vec<Key>, key: Key) {
    let mut at = row.len();
    row.push(key);
    let far = at.saturating_sub(NEAR);
    while at > far && row[at - 1] < key {
        row[at] = row[at - 1];
        at -= 1;
    }
    if at == far {
        at = row[..far].partition_point(|other| *other > key);
        row.copy_within(at..far, at + 1);
    }
    row[at] = key;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn first_is_the_earliest_slot(slots in 1..80_usize, sets in prop::collection::vec((0..80_usize, 0..6_u64), 0..300)) {
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
