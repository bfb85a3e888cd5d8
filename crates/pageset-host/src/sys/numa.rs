//! Binding the memory of a mapping to a NUMA node.

use std::io;

use super::mapping::Mapping;

/// `MPOL_PREFERRED`: from that node while it has memory, else from other nodes. Source: `mbind(2)`.
const PREFERRED: libc::c_int = 1;

/// Makes the system take memory for part of a mapping from `node` while that has memory. Resident pages do not move.
///
/// # Errors
/// The error of `mbind`, and `InvalidInput` for a node above 1023.
///
/// # Panics
/// If the range reaches beyond the mapping.
pub(crate) fn prefer_node(map: &Mapping, offset: usize, bytes: usize, node: u32) -> io::Result<()> {
    assert!(
        offset <= map.bytes() && bytes <= map.bytes() - offset,
        "cannot bind bytes {offset} to {offset} + {bytes}: the mapping is shorter"
    );
    // One bit for each node below 1024. The topology has no others.
    let mut mask = [0 as libc::c_ulong; 16];
    let bits = libc::c_ulong::BITS;
    *mask.get_mut((node / bits) as usize).ok_or(io::ErrorKind::InvalidInput)? |= 1 << (node % bits);
    // The kernel uses one bit less than `max_node`.
    let max_node = mask.len() as libc::c_ulong * libc::c_ulong::from(bits) + 1;
    // SAFETY: (1) the range is inside the mapping; (2) the mask has at least the bits that `max_node` announces to the
    // kernel; (3) the call changes only where memory comes from, not its contents.
    let result = unsafe {
        let start = map.pointer_to(map.start()).as_ptr().add(offset);
        libc::syscall(libc::SYS_mbind, start, bytes, PREFERRED, mask.as_ptr(), max_node, 0)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::mapping::Backing;

    #[test]
    fn binding_works_for_online_nodes_only() {
        let map = Mapping::reserve(1 << 21, 1 << 21, Backing::Lazy).expect("address space");
        let node = crate::topology::Topology::of_this_machine().nodes[0];
        match prefer_node(&map, 0, 1 << 21, node.0) {
            Ok(()) => {}
            // A kernel without NUMA, or a container that forbids mbind.
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => println!("SKIPPED mbind: {e}"),
            Err(e) => panic!("{e}"),
        }
        prefer_node(&map, 0, 1 << 21, 1023).expect_err("no machine has node 1023");
        prefer_node(&map, 0, 1 << 21, 1 << 20).expect_err("the mask has no such node");
    }
}
