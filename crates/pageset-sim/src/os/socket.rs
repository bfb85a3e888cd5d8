//! Sockets between two tasks: the sender's CPU allocates what the receiver's frees.

use std::cell::RefCell;
use std::collections::VecDeque;

use pageset::{AllocError, Block, MigrateType, Order};

use super::System;
use super::costs::{COPY_PAGE, MESSAGE, SLEEP, SYSCALL, WAKE, WAKE_OTHER};
use crate::engine::LockId;
use crate::time::Time;

/// The memory of one message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Blocks of each order, in the order of their allocation.
    pub blocks: &'static [Order],
    /// A block that the sender takes for itself and gives back when the message has been acknowledged.
    pub kept: Option<Order>,
    /// What the protocol does on either side, beside copying.
    pub protocol: Time,
    /// Messages that wait in the socket at most: its buffer over the size of a message.
    pub room: usize,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Vec<Block>>,
    /// What the sender keeps for messages that are not acknowledged yet.
    kept: VecDeque<Block>,
    sender_sleeps: Option<u32>,
    receiver_sleeps: Option<u32>,
}

/// One direction of a socket.
#[derive(Debug)]
pub struct Socket {
    shape: Shape,
    lock: LockId,
    queue: RefCell<Queue>,
}

impl Socket {
    /// A socket for messages of one shape.
    #[must_use]
    pub fn new(system: &System<'_>, shape: Shape) -> Self {
        Socket { shape, lock: system.new_lock(), queue: RefCell::default() }
    }

    /// Allocates a message, copies data into it and queues it; sleeps while there is no room.
    ///
    /// # Errors
    /// There is no memory.
    pub fn send(&self, system: &System<'_>) -> Result<(), AllocError> {
        let engine = system.engine();
        engine.work(SYSCALL + MESSAGE + self.shape.protocol);
        self.keep(system)?;
        let mut message = Vec::with_capacity(self.shape.blocks.len());
        for &order in self.shape.blocks {
            let pfn = system.alloc_block(order, MigrateType::Unmovable)?;
            system.machine().touch_page(pfn);
            message.push(Block { pfn, order });
            write_block(system, Block { pfn, order });
        }
        loop {
            engine.acquire(self.lock, 0);
            let mut queue = self.queue.borrow_mut();
            let room = queue.messages.len() < self.shape.room;
            let mut woken = None;
            if room {
                queue.messages.push_back(std::mem::take(&mut message));
                woken = queue.receiver_sleeps.take();
            } else {
                queue.sender_sleeps = Some(engine.cpu());
            }
            drop(queue);
            engine.release(self.lock);
            wake(system, woken);
            if room {
                return Ok(());
            }
            sleep(system);
        }
    }

    /// The sender takes a block for itself, and gives back those whose messages the receiver has had.
    fn keep(&self, system: &System<'_>) -> Result<(), AllocError> {
        let Some(order) = self.shape.kept else { return Ok(()) };
        let pfn = system.alloc_block(order, MigrateType::Unmovable)?;
        system.machine().touch_page(pfn);
        let mut queue = self.queue.borrow_mut();
        queue.kept.push_back(Block { pfn, order });
        let acknowledged = queue.kept.len().saturating_sub(queue.messages.len() + 1);
        let given_back: Vec<Block> = queue.kept.drain(..acknowledged).collect();
        drop(queue);
        given_back.into_iter().for_each(|block| system.free_block(block));
        Ok(())
    }

    /// Takes a message out of the queue, copies its data and frees it; sleeps while there is none.
    pub fn receive(&self, system: &System<'_>) {
        let engine = system.engine();
        engine.work(SYSCALL + MESSAGE + self.shape.protocol);
        let message = loop {
            engine.acquire(self.lock, 0);
            let mut queue = self.queue.borrow_mut();
            let message = queue.messages.pop_front();
            let mut woken = None;
            if message.is_none() {
                queue.receiver_sleeps = Some(engine.cpu());
            } else if queue.messages.len() <= self.shape.room / 2 {
                // Half of the room is free: it is not woken for each message.
                woken = queue.sender_sleeps.take();
            }
            drop(queue);
            engine.release(self.lock);
            wake(system, woken);
            match message {
                Some(message) => break message,
                None => sleep(system),
            }
        };
        for &block in &message {
            write_block(system, block);
        }
        for block in message {
            system.free_block(block);
        }
    }
}

/// Wakes a task, if it is to be woken.
fn wake(system: &System<'_>, task: Option<u32>) {
    if let Some(cpu) = task {
        system.engine().work(WAKE_OTHER);
        system.engine().wake(cpu, WAKE);
    }
}

/// Sleeps until woken.
fn sleep(system: &System<'_>) {
    system.engine().sleep();
    system.engine().work(SLEEP);
}

/// The data of a block is copied, in or out.
fn write_block(system: &System<'_>, block: Block) {
    system.engine().work(COPY_PAGE.times(block.order.pages()));
    let pages = (0..block.order.pages()).map(|page| block.pfn.offset(page));
    pages.for_each(|page| system.machine().write_page(page));
}
