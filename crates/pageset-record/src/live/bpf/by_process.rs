//! The part of the programs that adds to the current process.
//!
//! A refill moves many pages of one process, one event each, and a lookup in the table of processes for each would cost
//! five times as much as the rest of the program. So each CPU's element has the key and the words of the process that
//! moved the CPU's last pages. They go to the table if another process moves pages on the CPU, and after
//! [`PENDING_PAGES`].
//!
//! | words of the element from [`LOST`] on | contents |
//! | --- | --- |
//! | 0 to 2 | what belongs to no process because the table of processes is full: see [`Of`] |
//! | 3 to 5 | the key of the process that moved the CPU's last pages |
//! | 6 to 8 | what that process moved and is not yet in the table: see [`Of`] |
//! | 9 | the process and thread of the last pages plus one; 0 before the first page |
//!
//! A thread whose name changes, as at the start of another program, has its old name for at most the next
//! [`PENDING_PAGES`].

use super::by_site::SITES;
use super::code::{Code, Helper, Label, R0, R1, R2, R7, R8, R9, When, offset};
use super::table::{Added, Of};

/// The number of words of a process.
pub(super) const OF_PROCESS: usize = 3;
/// The number of words of a process's key: its number, and the name of the thread in two words.
pub(super) const PROCESS_KEY: usize = 3;

/// The pages of a process, in or out, that a CPU adds to the table at once. A refill moves many pages of one process, one
/// event each, and a lookup in the table for each would cost five times as much as the rest. A guess: a batch.
pub(super) const PENDING_PAGES: i32 = 64;

/// The first of these words: they end where those of call sites begin.
pub(super) const LOST: usize = SITES - (2 * OF_PROCESS + PROCESS_KEY + 1);
const OWNER: usize = LOST + OF_PROCESS;
const PENDING: usize = OWNER + PROCESS_KEY;
const THREAD: usize = PENDING + OF_PROCESS;

/// The size of a thread's name with its zero byte.
const NAME: i32 = 16;

impl Code {
    /// Adds R7 to a word of the current process. R8 is this CPU's element. Clobbers R9. Jumps to `out` if the process's words stay
    /// in the element.
    ///
    /// The current process is the one that the CPU runs. In an interrupt, that is the interrupted process.
    pub(super) fn add_to_process(&mut self, table: i32, of: Of, out: Label) -> &mut Self {
        let add = self.label();
        let pending = offset(PENDING + of as usize);
        self.call(Helper::GetCurrentPidTgid).add_number(R0, 1).copy(R9, R0);
        self.load(R1, R8, offset(THREAD)).jump_if(R1, When::Equal, R9, add).flush(table);
        self.store(R8, offset(THREAD), R9).shift_right(R9, 32).store(R8, offset(OWNER), R9).name();
        self.here(add).load(R1, R8, pending).add(R1, R7).store(R8, pending, R1);
        if of != Of::WaitNs {
            self.jump_if(R1, When::Less, PENDING_PAGES, out);
        }
        self.flush(table).name()
    }

    /// Sets the name of the element's owner to that of the current thread.
    fn name(&mut self) -> &mut Self {
        self.copy(R1, R8).add_number(R1, offset(OWNER + 1).into()).set(R2, NAME).call(Helper::GetCurrentComm)
    }

    /// Adds the element's pending words to its owner in the table, and clears them.
    fn flush(&mut self, table: i32) -> &mut Self {
        let done = self.label();
        self.load(R1, R8, offset(PENDING));
        for word in 1..OF_PROCESS {
            self.load(R2, R8, offset(PENDING + word)).add(R1, R2);
        }
        let words = Added { key: OWNER, values: PENDING, count: OF_PROCESS, lost: LOST };
        self.jump_if(R1, When::Equal, 0, done).add_to_table(table, words).set(R1, 0);
        for word in 0..OF_PROCESS {
            self.store(R8, offset(PENDING + word), R1);
        }
        self.here(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_processes_have_their_places() {
        assert_eq!([Of::RefillPages, Of::DrainPages, Of::WaitNs].map(|of| of as usize), [0, 1, 2]);
        assert_eq!((LOST, OWNER, PENDING, THREAD), (585, 588, 591, 594));
    }
}
