//! Streams of messages between pairs of tasks: the receiver's CPU frees what the sender's CPU allocates.
//!
//! Tasks 0 and 1 are a pair, tasks 2 and 3 are a pair, and so on. A task without a partner sends to itself.

use pageset::{AllocError, Order};

use super::Job;
use crate::os::{Needs, Shape, Socket, System};
use crate::time::Time;

/// One socket per pair.
pub(super) fn needs(tasks: u32) -> Needs {
    Needs { objects: tasks.div_ceil(2), ..Needs::NOTHING }
}

/// lmbench's stream over an AF_UNIX socket. One write of 64 KiB allocates a block of each order from 3 to 0, in two
/// buffers. The blocks are freed in the same order. Source: the recording `traces/sock-q1`. At most three messages
/// wait: the default buffer of 208 KiB, counted with overhead.
const AF_UNIX: Shape =
    Shape { blocks: &[Order::COSTLY, ORDER_2, ORDER_1, Order::ZERO], kept: None, protocol: Time::ZERO, room: 3 };
/// netperf SCTP_STREAM_MANY with messages of 10 KiB. Each message is a chunk and the packet that carries it. Both are
/// too large for a slab and take a block of 16 KiB each. The sender keeps the chunk until it is acknowledged. A buffer
/// of 208 KiB holds 12 messages.
const SCTP: Shape = Shape { blocks: &[ORDER_2], kept: Some(ORDER_2), protocol: SCTP_PROTOCOL, room: 12 };
/// Protocol work of SCTP per message, on either side. Unit: picoseconds, here 12 us. Reason: a pair of tasks on
/// loopback carries about 3 to 4 Gbit a second where both threads of each core work, which is a message in 23 us.
const SCTP_PROTOCOL: Time = Time::from_ps(12_000_000);
/// netperf TCP_STREAM. The socket fills blocks of order 3; the receive window is some megabytes.
const TCP: Shape = Shape { blocks: &[Order::COSTLY], kept: None, protocol: TCP_PROTOCOL, room: 64 };
/// Protocol work of TCP per 32 KiB, on either side. Unit: picoseconds, here 2.5 us. Reason: a pair of tasks on loopback
/// carries about 40 Gbit a second.
const TCP_PROTOCOL: Time = Time::from_ps(2_500_000);
/// The order of blocks of 8 KiB.
const ORDER_1: Order = match Order::new(1) {
    Some(order) => order,
    None => Order::ZERO,
};
/// The order of blocks of 16 KiB.
const ORDER_2: Order = match Order::new(2) {
    Some(order) => order,
    None => Order::ZERO,
};

pub(super) fn af_unix<'s>(system: &'s System<'_>, tasks: u32) -> Result<Job<'s>, AllocError> {
    Ok(pairs(system, tasks, AF_UNIX))
}

pub(super) fn sctp<'s>(system: &'s System<'_>, tasks: u32) -> Result<Job<'s>, AllocError> {
    Ok(pairs(system, tasks, SCTP))
}

pub(super) fn tcp<'s>(system: &'s System<'_>, tasks: u32) -> Result<Job<'s>, AllocError> {
    Ok(pairs(system, tasks, TCP))
}

fn pairs<'s>(system: &'s System<'_>, tasks: u32, shape: Shape) -> Job<'s> {
    let sockets: Vec<Socket> = (0..tasks.div_ceil(2)).map(|_| Socket::new(system, shape)).collect();
    Box::new(move |task| {
        let socket = &sockets[task as usize / 2];
        let (sends, alone) = (task % 2 == 0, task % 2 == 0 && task + 1 == tasks);
        loop {
            if sends {
                socket.send(system)?;
            }
            if !sends || alone {
                socket.receive(system);
                system.count();
            }
        }
    })
}
