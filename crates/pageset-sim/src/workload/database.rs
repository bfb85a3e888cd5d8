//! A database under transactions (sysbench oltp): user work, and small messages between client and server.

use pageset::{AllocError, Order};

use super::Job;
use crate::os::{Needs, Shape, Socket, System};
use crate::time::Time;

/// Work of one transaction: 18 statements of 10 us in the server. Unit: picoseconds, here 180 us.
const TRANSACTION: Time = Time::from_ps(180_000_000);
/// A request or answer too large for a slab object: one page.
const MESSAGE: Shape = Shape { blocks: &[Order::ZERO], kept: None, protocol: Time::ZERO, room: 16 };
/// Messages per transaction that need a page.
const MESSAGES: u32 = 4;

/// One socket per pair of client and server.
pub(super) fn needs(tasks: u32) -> Needs {
    Needs { objects: tasks, ..Needs::NOTHING }
}

/// Each task is a client's thread in the server and sends its messages through its own socket.
pub(super) fn set_up<'s>(system: &'s System<'_>, tasks: u32) -> Result<Job<'s>, AllocError> {
    let sockets: Vec<Socket> = (0..tasks).map(|_| Socket::new(system, MESSAGE)).collect();
    Ok(Box::new(move |task| {
        let socket = &sockets[task as usize];
        loop {
            for _ in 0..MESSAGES {
                socket.send(system)?;
                system.engine().work(Time::from_ps(TRANSACTION.ps() / u64::from(MESSAGES)));
                socket.receive(system);
            }
            system.count();
        }
    }))
}
