//! Memory of a mapping bound to a node.

use std::io;

use super::mapping::Mapping;

/// `MPOL_PREFERRED`: from that node while it has memory, else from others. Source: `mbind(2)`.
const PREFERRED: libc::c_int = 1;

/// Has the system take memory for part of a mapping from a node while it has some. Nothing that is resident moves.
pub(crate) fn prefer_node(map: &Mapping, offset: usize, bytes: usize, node: u32) -> io::Result<()> {
    assert!(offset <= map.bytes() && bytes <= map.bytes() - offset, "a binding beyond the mapping");
    // Nodes below 1024, which the topology keeps to.
    let mut mask = [0 as libc::c_ulong; 16];
    let bits = libc::c_ulong::BITS;
    *mask.get_mut((node / bits) as usize).ok_or(io::ErrorKind::InvalidInput)? |= 1 << (node % bits);
    // The kernel takes one bit less than it is told.
    let max_node = mask.len() as libc::c_ulong * libc::c_ulong::from(bits) + 1;
    // SAFETY: (1) the range is inside the mapping; (2) the mask has the bits that are announced; (3) only where memory
    // comes from changes, not what is in it.
    let result = unsafe {
        let start = map.at(map.start()).as_ptr().add(offset);
        libc::syscall(libc::SYS_mbind, start, bytes, PREFERRED, mask.as_ptr(), max_node, 0)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::mapping::Backing;

    #[test]
    fn binding_to_a_node_that_is_there_and_to_one_that_is_not() {
        let map = Mapping::reserve(1 << 21, 1 << 21, Backing::Lazy).expect("address space");
        let node = crate::topology::Topology::of_this_machine().nodes[0];
        match prefer_node(&map, 0, 1 << 21, node.0) {
            Ok(()) => {}
            // A kernel without NUMA, or a container that forbids it.
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => println!("SKIPPED mbind: {e}"),
            Err(e) => panic!("{e}"),
        }
        prefer_node(&map, 0, 1 << 21, 1023).expect_err("no machine has that node");
        prefer_node(&map, 0, 1 << 21, 1 << 20).expect_err("beyond the mask");
    }
}
