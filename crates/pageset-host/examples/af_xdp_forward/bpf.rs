//! The XDP program that gives the packets of a queue to an AF_XDP socket, and the few calls of `bpf` that it needs.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Numbers of commands and kinds. Source: `linux/bpf.h`, which is the kernel's stable interface.
const MAP_CREATE: u32 = 0;
const MAP_UPDATE_ELEM: u32 = 2;
const PROG_LOAD: u32 = 5;
const LINK_CREATE: u32 = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;

/// An instruction in the kernel's layout, little-endian. Source: RFC 9669.
#[repr(C)]
struct Insn {
    code: u8,
    /// The destination in the low half, the source in the high.
    registers: u8,
    offset: i16,
    imm: i32,
}

const fn insn(code: u8, registers: u8, offset: i16, imm: i32) -> Insn {
    Insn { code, registers, offset, imm }
}

/// The first members of `union bpf_attr` for each command, with explicit padding only.
#[repr(C)]
struct MapCreate([u32; 4]);

#[repr(C)]
struct Update {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct Load {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log: [u32; 2],
    log_buf: u64,
}

#[repr(C)]
struct LinkCreate([u32; 4]);

/// Calls the kernel.
///
/// # Safety
/// `attr` has the layout of `command`, and each address in it is readable as far as the command reads.
unsafe fn bpf<T>(command: u32, attr: &T) -> io::Result<RawFd> {
    // SAFETY: (1) `attr` is plain data of that size; (2) the caller guarantees the addresses.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as RawFd) }
}

/// # Safety
/// As for [`bpf`], and the command creates a descriptor.
unsafe fn create<T>(command: u32, attr: &T) -> io::Result<OwnedFd> {
    // SAFETY: (1) the caller guarantees what `bpf` needs; (2) nothing else owns the new descriptor.
    unsafe { bpf(command, attr).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

fn address<T: ?Sized>(of: &T) -> u64 {
    std::ptr::from_ref(of).cast::<u8>().addr() as u64
}

/// An attached program. Dropping it detaches the program.
pub(crate) struct Attached {
    _link: OwnedFd,
    _map: OwnedFd,
}

/// Gives all packets that queue 0 of the interface receives to a bound AF_XDP socket.
pub(crate) fn attach(interface: u32, socket: RawFd) -> io::Result<Attached> {
    // SAFETY: the attribute has the layout of the command, and no addresses.
    let map = unsafe { create(MAP_CREATE, &MapCreate([MAP_TYPE_XSKMAP, 4, 4, 1]))? };
    let (key, value) = (0_u32, socket as u32);
    let update =
        Update { map_fd: map.as_raw_fd() as u32, padding: 0, key: address(&key), value: address(&value), flags: 0 };
    // SAFETY: the attribute has the layout of the command; key and value have 4 bytes, the sizes of the map.
    unsafe { bpf(MAP_UPDATE_ELEM, &update)? };
    // return bpf_redirect_map(&map, context->rx_queue_index, XDP_PASS);
    let program = [
        insn(0x61, 0x12, 16, 0),              // r2 = *(u32 *)(r1 + 16)
        insn(0x18, 0x11, 0, map.as_raw_fd()), // r1 = the map
        insn(0, 0, 0, 0),                     // the second half of the instruction above
        insn(0xb7, 0x03, 0, 2),               // r3 = XDP_PASS, for a queue without a socket
        insn(0x85, 0, 0, 51),                 // call bpf_redirect_map
        insn(0x95, 0, 0, 0),                  // exit
    ];
    let load = Load {
        prog_type: PROG_TYPE_XDP,
        insn_cnt: program.len() as u32,
        insns: address(&program),
        license: address(c"Dual MIT/GPL".to_bytes_with_nul()),
        log: [0; 2],
        log_buf: 0,
    };
    // SAFETY: the attribute has the layout of the command; it has the instructions and a licence that ends in a zero byte.
    let program = unsafe { create(PROG_LOAD, &load)? };
    let link = LinkCreate([program.as_raw_fd() as u32, interface, ATTACH_XDP, 0]);
    // SAFETY: the attribute has the layout of the command, and no addresses.
    Ok(Attached { _link: unsafe { create(LINK_CREATE, &link)? }, _map: map })
}
