//! What the boot loader tells: the memory map, the command line, and where the ACPI tables are.
//!
//! The boot protocol is PVH, which QEMU's `-kernel` speaks. Its structures lie below 1 MiB, and this kernel leaves the memory there
//! alone.

use core::ffi::CStr;
use core::slice;

use arrayvec::ArrayVec;
use pageset::{PageRange, Pfn};

/// The most ranges that the memory map may have. QEMU has fewer than ten.
pub const MAX_RANGES: usize = 32;
/// The first page that the kernel uses: 1 MiB.
const FIRST_USED: Pfn = Pfn(0x100);

const MAGIC: u32 = 0x336E_C578;
/// The type of usable memory in the memory map.
const USABLE: u32 = 1;

#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    module_count: u32,
    modules: u64,
    command_line: u64,
    rsdp: u64,
    memory_map: u64,
    memory_map_entries: u32,
    reserved: u32,
}

#[repr(C)]
struct MemoryMapEntry {
    address: u64,
    bytes: u64,
    kind: u32,
    reserved: u32,
}

/// What the boot loader tells.
pub struct BootInfo {
    /// Usable memory from 1 MiB on, in whole pages. The kernel's image lies in one of the ranges.
    pub usable: ArrayVec<PageRange, MAX_RANGES>,
    pub command_line: &'static str,
    /// The address of the ACPI root pointer.
    pub rsdp: u64,
}

/// Reads the start info.
///
/// # Safety
/// `start_info` is the address that a PVH boot loader passed, and nobody has written below 1 MiB since.
///
/// # Panics
/// The start info is of another protocol or too old, or the command line is not ASCII.
pub unsafe fn read(start_info: u64) -> BootInfo {
    // SAFETY: the caller vouches for the address; memory is mapped at its physical address, and nobody writes it.
    let info = unsafe { &*(start_info as *const StartInfo) };
    assert!(info.magic == MAGIC && info.version >= 1, "cannot boot: no PVH start info with a memory map");
    // SAFETY: from version 1 on, the boot loader gives this many entries there.
    let map =
        unsafe { slice::from_raw_parts(info.memory_map as *const MemoryMapEntry, info.memory_map_entries as usize) };
    // SAFETY: the boot loader gives a string that ends with a zero byte.
    let command_line = unsafe { CStr::from_ptr(info.command_line as *const _) };
    let usable = map.iter().filter(|entry| entry.kind == USABLE).filter_map(|entry| {
        let (start, end) = (entry.address.div_ceil(4096).max(FIRST_USED.0), (entry.address + entry.bytes) / 4096);
        (start < end).then(|| PageRange::new(Pfn(start), end - start))
    });
    BootInfo {
        usable: usable.collect(),
        command_line: command_line.to_str().expect("a command line in ASCII"),
        rsdp: info.rsdp,
    }
}
