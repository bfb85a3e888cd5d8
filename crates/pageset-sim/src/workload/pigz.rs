//! pigz: threads compress blocks that a reader passes to them through pipes.

use pageset::{AllocError, Order};

use super::Job;
use crate::os::{Needs, Shape, Socket, System};
use crate::time::Time;

/// Compression of a block of 128 KiB at 20 MB a second. Unit: picoseconds, here 6.5 ms.
const COMPRESS: Time = Time::from_ps(6_500_000_000);
const BLOCK_PAGES: u64 = 32;
/// A pipe holds 16 pages.
const PIPE: Shape = Shape { blocks: &[Order::ZERO], kept: None, protocol: Time::ZERO, room: 16 };

/// One pipe per task.
pub(super) fn needs(tasks: u32) -> Needs {
    Needs { objects: tasks, ..Needs::NOTHING }
}

/// Each task reads a block from its pipe, page by page, and compresses it. Operations are KiB of input.
pub(super) fn set_up<'s>(system: &'s System<'_>, tasks: u32) -> Result<Job<'s>, AllocError> {
    let pipes: Vec<Socket> = (0..tasks).map(|_| Socket::new(system, PIPE)).collect();
    Ok(Box::new(move |task| {
        let pipe = &pipes[task as usize];
        loop {
            for _ in 0..BLOCK_PAGES {
                pipe.send(system)?;
                pipe.receive(system);
                system.engine().work(Time::from_ps(COMPRESS.ps() / BLOCK_PAGES));
                system.count_many(4);
            }
        }
    }))
}
