//! Which of a fixed number of slots is due first: a row of those that are due at all, in order.

use std::cell::{Cell, RefCell};

use crate::time::Time;

/// When each slot is due. Of equal times the slot with the lower number is first.
///
/// Where locks are fought for most slots are not due, being those of CPUs that wait in a queue; and what becomes due
/// mostly does so soon: few in the row make way for it.
#[derive(Debug)]
pub(crate) struct Earliest {
    /// The keys of the slots that are due, the first last.
    row: RefCell<Vec<Key>>,
    /// When each slot is due.
    times: Box<[Cell<Time>]>,
}

/// A time, and below it a slot: of two keys the lesser is due first.
type Key = u128;
/// Bits of the slot.
const SLOT_BITS: u32 = 64;

fn key(time: Time, slot: usize) -> Key {
    Key::from(time.ps()) << SLOT_BITS | slot as Key
}

/// So many of the first are asked one by one whether they make way: mostly the place is among them. A guess. Beyond, it
/// is searched for by halves, and all that follow are moved at once: where a thousand CPUs come to no lock, the row is
/// that long. (A tournament took two thirds of the time there, and 1.04 to 1.3 times as much where locks are fought for.)
const NEAR: usize = 16;

impl Earliest {
    /// Slots that are all never due.
    pub(crate) fn new(slots: usize) -> Self {
        Earliest { row: RefCell::new(Vec::with_capacity(slots)), times: vec![Cell::new(Time::NEVER); slots].into() }
    }

    /// Sets when a slot is due.
    #[inline]
    pub(crate) fn set(&self, slot: usize, time: Time) {
        let before = self.times[slot].replace(time);
        let mut row = self.row.borrow_mut();
        if before != Time::NEVER {
            take_out(&mut row, key(before, slot));
        }
        if time != Time::NEVER {
            put_in(&mut row, key(time, slot));
        }
    }

    /// The first slot and when it is due; slot 0 where none ever is.
    #[inline]
    pub(crate) fn first(&self) -> (Time, usize) {
        match self.row.borrow().last() {
            None => (Time::NEVER, 0),
            Some(first) => (Time::from_ps((first >> SLOT_BITS) as u64), *first as u64 as usize),
        }
    }
}

#[inline]
fn take_out(row: &mut Vec<Key>, key: Key) {
    if row.last() == Some(&key) {
        row.pop();
    } else {
        row.remove(row.partition_point(|other| *other > key));
    }
}

#[inline]
fn put_in(row: &mut Vec<Key>, key: Key) {
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
        fn the_first_is_the_least(slots in 1..80_usize, sets in prop::collection::vec((0..80_usize, 0..6_u64), 0..300)) {
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
