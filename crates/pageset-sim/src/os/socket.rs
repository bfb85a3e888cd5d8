//! Sockets between two tasks: the receiver's CPU frees what the sender's CPU allocates.

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
    /// Orders of the blocks, in the order of their allocation.
    pub blocks: &'static [Order],
    /// A block that the sender keeps until the message is acknowledged.
    pub kept: Option<Order>,
    /// Protocol work on either side, without copying.
    pub protocol: Time,
    /// Limit of queued messages: the socket's buffer divided by the size of a message.
    pub room: usize,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Vec<Block>>,
    /// Blocks that the sender keeps for unacknowledged messages.
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
    pub fn new(system: &System<'_>, shape: Shape) -> Self {
        Socket { shape, lock: system.new_lock(), queue: RefCell::default() }
    }

    /// Allocates a message, copies data into it and queues it. Sleeps while the queue is full.
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

    /// Allocates the block that the sender keeps, and frees the blocks of acknowledged messages.
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

    /// Dequeues a message, copies its data and frees it. Sleeps while the queue is empty.
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
                // The sender wakes only when half of the queue is free, not for each message.
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

pub(super) fn wake(system: &System<'_>, task: Option<u32>) {
    if let Some(cpu) = task {
        system.engine().work(WAKE_OTHER);
        system.engine().wake(cpu, WAKE);
    }
}

/// Sleeps until another task wakes this task.
pub(super) fn sleep(system: &System<'_>) {
    system.engine().sleep();
    system.engine().work(SLEEP);
}

fn write_block(system: &System<'_>, block: Block) {
    system.engine().work(COPY_PAGE.times(block.order.pages()));
    let pages = (0..block.order.pages()).map(|page| block.pfn.offset(page));
    pages.for_each(|page| system.machine().write_page(page));
}
