//! The part of the programs that adds words of a CPU's element to a table.

use super::code::{Code, Helper, R0, R1, R2, R3, R4, R8, When, offset};

/// `BPF_NOEXIST`: adds an element only if the key has none.
const ONLY_NEW: i32 = 1;

/// What is added, in the order of such words wherever they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// Pages taken from the free lists, of cached orders.
    RefillPages,
    /// Pages drained.
    DrainPages,
    /// Duration of waits for zone locks. Unit: nanoseconds.
    WaitNs,
}

/// Words of a CPU's element that are added to a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Added {
    /// The first word of the key.
    pub(super) key: usize,
    /// The first of the added words.
    pub(super) values: usize,
    /// The number of added words.
    pub(super) count: usize,
    /// The first of the words to add to if the table is full.
    pub(super) lost: usize,
}

impl Code {
    /// Adds words of R8, this CPU's element, to the element of their key in the table. Clobbers R0 to R5.
    pub(super) fn add_to_table(&mut self, table: i32, words: Added) -> &mut Self {
        let [found, full, done] = [(); 3].map(|()| self.label());
        self.key(table, words).call(Helper::MapLookupElem).jump_if(R0, When::NotEqual, 0, found);
        self.key(table, words).copy(R3, R8).add_number(R3, offset(words.values).into());
        self.set(R4, ONLY_NEW).call(Helper::MapUpdateElem).jump_if(R0, When::Equal, 0, done);
        // Another CPU may have added the key meanwhile.
        self.key(table, words).call(Helper::MapLookupElem).jump_if(R0, When::Equal, 0, full).here(found);
        for word in 0..words.count {
            self.load(R1, R8, offset(words.values + word)).add_atomic(R0, offset(word), R1);
        }
        self.jump(done).here(full);
        for word in 0..words.count {
            self.load(R1, R8, offset(words.values + word)).load(R2, R8, offset(words.lost + word)).add(R1, R2);
            self.store(R8, offset(words.lost + word), R1);
        }
        self.here(done)
    }

    /// Sets R1 to the table and R2 to the key.
    fn key(&mut self, table: i32, words: Added) -> &mut Self {
        self.set_map(R1, table).copy(R2, R8).add_number(R2, offset(words.key).into())
    }
}
