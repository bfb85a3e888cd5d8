//! Network receive: one CPU of each pair serves a queue of the network card, the other runs the program that reads the socket.
//! The first allocates the pages that the card fills, the second frees them.

use pageset::{AllocError, Pfn};

use super::Job;
use crate::os::{Channel, Needs, System};
use crate::time::Time;

/// Packets that one round of polling takes from the card. Source: the kernel's budget of a poll.
const BUDGET: usize = 64;
/// Rounds that may wait in a socket's buffer: 1 MiB with pages of 4 KiB. A guess.
const ROOM: usize = 4;
/// Work for a packet in the driver and the protocol, in picoseconds: 600 ns. A guess; a core carries 1 to 2 million packets a
/// second.
const PACKET: Time = Time::from_ps(600_000);

/// One channel per pair.
pub(super) fn needs(tasks: u32) -> Needs {
    Needs { objects: tasks.div_ceil(2), ..Needs::NOTHING }
}

/// Tasks 0 and 1 are a pair, tasks 2 and 3 are a pair, and so on. A task without a partner does both.
pub(super) fn set_up<'s>(system: &'s System<'_>, tasks: u32) -> Result<Job<'s>, AllocError> {
    let sockets: Vec<Channel<Vec<Pfn>>> = (0..tasks.div_ceil(2)).map(|_| Channel::new(system, ROOM)).collect();
    Ok(Box::new(move |task| {
        let socket = &sockets[task as usize / 2];
        let (polls, alone) = (task % 2 == 0, task % 2 == 0 && task + 1 == tasks);
        loop {
            if polls {
                socket.send(system, poll(system)?);
            }
            if !polls || alone {
                read(system, &socket.receive(system));
            }
        }
    }))
}

/// Takes a round of packets from the card and fills its ring with new pages. The card has written the data, so no CPU has its
/// lines.
fn poll(system: &System<'_>) -> Result<Vec<Pfn>, AllocError> {
    let pages = system.alloc_pages(BUDGET)?;
    for &page in &pages {
        system.engine().work(PACKET);
        system.machine().touch_page(page);
    }
    Ok(pages)
}

/// Copies the packets to the program and frees their pages.
fn read(system: &System<'_>, pages: &[Pfn]) {
    for &page in pages {
        system.read_page(page);
        system.count();
    }
    for &page in pages {
        system.free_page(page);
    }
}
