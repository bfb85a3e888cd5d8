//! The semaphore of an address space: many readers or one writer, first come, first served.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::System;
use super::costs::WAKE;
use crate::engine::LockId;

#[derive(Clone, Copy, Debug)]
struct Waiter {
    cpu: u32,
    writes: bool,
}

#[derive(Debug, Default)]
struct State {
    readers: u32,
    writing: bool,
    queue: VecDeque<Waiter>,
}

/// A readers-writer semaphore. Its word is one line that every taker writes. An engine lock models this write; no CPU
/// polls the line.
#[derive(Debug)]
pub(super) struct Semaphore {
    word: LockId,
    state: RefCell<State>,
}

impl Semaphore {
    pub(super) fn new(system: &System<'_>) -> Self {
        Semaphore { word: system.new_lock(), state: RefCell::default() }
    }

    /// Takes the semaphore for reading, together with other readers.
    pub(super) fn read(&self, system: &System<'_>) {
        self.take(system, false);
    }

    /// Takes the semaphore for writing, alone.
    pub(super) fn write(&self, system: &System<'_>) {
        self.take(system, true);
    }

    fn take(&self, system: &System<'_>, writes: bool) {
        let engine = system.engine();
        engine.acquire(self.word, 0);
        let mut state = self.state.borrow_mut();
        let free = !state.writing && state.queue.is_empty() && !(writes && state.readers > 0);
        if free {
            state.grant(writes);
        } else {
            state.queue.push_back(Waiter { cpu: engine.cpu(), writes });
        }
        drop(state);
        engine.release_word(self.word);
        if !free {
            // The waker grants the semaphore before the wake-up.
            engine.sleep();
        }
    }

    /// Releases the semaphore and grants it to the first waiters that fit.
    pub(super) fn give(&self, system: &System<'_>) {
        let engine = system.engine();
        engine.acquire(self.word, 0);
        let mut state = self.state.borrow_mut();
        if state.writing {
            state.writing = false
        } else {
            state.readers -= 1
        }
        while let Some(&next) = state.queue.front() {
            if state.writing || (next.writes && state.readers > 0) {
                break;
            }
            state.queue.pop_front();
            state.grant(next.writes);
            engine.wake(next.cpu, WAKE);
        }
        drop(state);
        engine.release_word(self.word);
    }
}

impl State {
    fn grant(&mut self, writes: bool) {
        if writes { self.writing = true } else { self.readers += 1 }
    }
}
