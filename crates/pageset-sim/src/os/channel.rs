//! A bounded channel between tasks: senders sleep while it is full, receivers sleep while it is empty.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::System;
use super::costs::SYSCALL;
use super::socket::{sleep, wake};
use crate::engine::LockId;

#[derive(Debug)]
struct Queue<T> {
    items: VecDeque<T>,
    /// CPUs of sleeping senders and receivers, the longest sleeper first.
    senders: VecDeque<u32>,
    receivers: VecDeque<u32>,
}

/// A queue with its own lock, for any number of senders and receivers. Costs: the hold of the lock, and the wake-ups.
#[derive(Debug)]
pub struct Channel<T> {
    room: usize,
    lock: LockId,
    queue: RefCell<Queue<T>>,
}

impl<T> Channel<T> {
    /// An empty channel for up to `room` items, at least 1. It is one of the workload's objects.
    pub fn new(system: &System<'_>, room: usize) -> Self {
        let queue = Queue { items: VecDeque::new(), senders: VecDeque::new(), receivers: VecDeque::new() };
        Channel { room: room.max(1), lock: system.new_lock(), queue: RefCell::new(queue) }
    }

    /// Queues an item. Sleeps while the channel is full.
    pub fn send(&self, system: &System<'_>, item: T) {
        let mut item = Some(item);
        self.pass(system, |queue, cpu| {
            if queue.items.len() >= self.room {
                queue.senders.push_back(cpu);
                return None;
            }
            queue.items.extend(item.take());
            Some(((), queue.receivers.pop_front()))
        });
    }

    /// Dequeues the oldest item. Sleeps while the channel is empty.
    pub fn receive(&self, system: &System<'_>) -> T {
        self.pass(system, |queue, cpu| match queue.items.pop_front() {
            Some(item) => Some((item, queue.senders.pop_front())),
            None => {
                queue.receivers.push_back(cpu);
                None
            }
        })
    }

    /// Tries `act` under the lock until it succeeds, and wakes the task that it returns. `act` fails after it has added
    /// the CPU to a queue of sleepers; the CPU then sleeps until a task of the other side wakes it.
    fn pass<R>(&self, system: &System<'_>, mut act: impl FnMut(&mut Queue<T>, u32) -> Option<(R, Option<u32>)>) -> R {
        let engine = system.engine();
        loop {
            engine.work(SYSCALL);
            engine.acquire(self.lock, 0);
            let done = act(&mut self.queue.borrow_mut(), engine.cpu());
            engine.release(self.lock);
            match done {
                Some((result, woken)) => {
                    wake(system, woken);
                    return result;
                }
                None => sleep(system),
            }
        }
    }
}
