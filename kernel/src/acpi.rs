//! The ACPI tables: which CPUs there are (MADT), and which node each CPU and each part of memory belongs to (SRAT).

use core::slice;

use arrayvec::ArrayVec;
use pageset::{NodeId, PageRange, Pfn};

use crate::cpu::MAX_CPUS;
use crate::pvh::MAX_RANGES;

/// The lengths of the parts before the entries of the MADT and the SRAT.
const MADT_HEADER: usize = 44;
const SRAT_HEADER: usize = 48;
/// The types of the entries that are read.
const MADT_LOCAL_APIC: u8 = 0;
const SRAT_CPU: u8 = 0;
const SRAT_MEMORY: u8 = 1;

/// A CPU that the machine can start.
#[derive(Clone, Copy, Debug)]
pub struct CpuEntry {
    pub apic_id: u32,
    pub node: NodeId,
}

/// A part of the address space and its node.
#[derive(Clone, Copy, Debug)]
pub struct NodeMemory {
    pub node: NodeId,
    pub range: PageRange,
}

/// The machine's CPUs and nodes.
pub struct Topology {
    pub cpus: ArrayVec<CpuEntry, MAX_CPUS>,
    /// Empty on a machine without an SRAT: all memory is in node 0.
    pub memory: ArrayVec<NodeMemory, MAX_RANGES>,
}

/// Reads the tables.
///
/// # Safety
/// `rsdp` is the address of the ACPI root pointer, and the tables have not been overwritten.
///
/// # Panics
/// The machine has more CPUs than [`MAX_CPUS`], or none.
pub unsafe fn read(rsdp: u64) -> Topology {
    let mut topology = Topology { cpus: ArrayVec::new(), memory: ArrayVec::new() };
    // SAFETY: the caller vouches for the address. 36 bytes is the length of the newer form; the memory is mapped in any case.
    let root = unsafe { slice::from_raw_parts(rsdp as *const u8, 36) };
    // From revision 2 on there is a table of 64-bit addresses, before that one of 32-bit addresses.
    let (list, width) = if root[15] >= 2 { (number(root, 24, 8), 8) } else { (number(root, 16, 4), 4) };
    // SAFETY: the root pointer and its list name valid tables.
    let tables =
        unsafe { table(list) }[36..].chunks_exact(width).map(|entry| unsafe { table(number(entry, 0, width)) });
    for table in tables.clone().filter(|table| table.starts_with(b"APIC")) {
        for entry in entries(table, MADT_HEADER) {
            if entry[0] == MADT_LOCAL_APIC && entry[4] & 1 == 1 {
                topology.cpus.push(CpuEntry { apic_id: entry[3].into(), node: NodeId(0) });
            }
        }
    }
    for table in tables.filter(|table| table.starts_with(b"SRAT")) {
        for entry in entries(table, SRAT_HEADER) {
            match entry[0] {
                SRAT_CPU if entry[4] & 1 == 1 => {
                    let node = number(entry, 2, 1) | number(entry, 9, 3) << 8;
                    for cpu in topology.cpus.iter_mut().filter(|cpu| cpu.apic_id == entry[3].into()) {
                        cpu.node = NodeId(node as u32);
                    }
                }
                SRAT_MEMORY if entry[28] & 1 == 1 && number(entry, 16, 8) > 0 => {
                    let range = PageRange::new(Pfn(number(entry, 8, 8) / 4096), number(entry, 16, 8) / 4096);
                    topology.memory.push(NodeMemory { node: NodeId(number(entry, 2, 4) as u32), range });
                }
                _ => {}
            }
        }
    }
    assert!(!topology.cpus.is_empty(), "cannot start: the ACPI tables have no CPU");
    topology
}

/// The bytes of a table.
///
/// # Safety
/// An ACPI table is at the address, and nobody writes it.
unsafe fn table(address: u64) -> &'static [u8] {
    let start = address as *const u8;
    // SAFETY: each table begins with its signature and its length, 4 bytes each.
    let length = number(unsafe { slice::from_raw_parts(start, 8) }, 4, 4);
    // SAFETY: the table has this length.
    unsafe { slice::from_raw_parts(start, length as usize) }
}

/// The entries of a table. Each begins with its type and its length, one byte each.
fn entries(table: &'static [u8], header: usize) -> impl Iterator<Item = &'static [u8]> {
    let mut rest = &table[header..];
    core::iter::from_fn(move || {
        let (entry, after) = rest.split_at(usize::from(*rest.get(1)?));
        rest = after;
        Some(entry)
    })
}

/// A little-endian number of up to 8 bytes.
fn number(bytes: &[u8], offset: usize, width: usize) -> u64 {
    bytes[offset..offset + width].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
