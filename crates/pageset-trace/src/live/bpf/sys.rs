//! The system call `bpf`, as much of it as counting takes: the only unsafe code of the crate.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use super::code::Insn;

/// Words of a map's element.
pub(super) const WORDS: usize = 64;

/// What a map holds for each CPU.
pub(super) type Words = [u64; WORDS];

/// Numbers of commands and kinds. Source: `linux/bpf.h`, which is the kernel's stable interface.
const MAP_CREATE: u32 = 0;
const MAP_LOOKUP_ELEM: u32 = 1;
const PROG_LOAD: u32 = 5;
const RAW_TRACEPOINT_OPEN: u32 = 17;
const MAP_TYPE_ARRAY: u32 = 2;
const PROG_TYPE_RAW_TRACEPOINT: u32 = 17;

/// What the programs may be used under, in the words that the kernel takes: reading call chains asks for one of them.
const LICENCE: &CStr = c"Dual MIT/GPL";

/// How much of the verifier's log is asked for. Unit: bytes.
const LOG: usize = 1 << 16;

/// The first members of `union bpf_attr` for each command. All are of whole words, without padding that the kernel would
/// take for members.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

#[repr(C)]
struct Element {
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
    log_level: u32,
    log_size: u32,
    log_buf: u64,
}

#[repr(C)]
struct Attach {
    name: u64,
    prog_fd: u32,
    padding: u32,
}

/// Calls the kernel.
///
/// # Safety
/// `attr` is the form of `cmd`, and each address in it is that of memory as large as the command takes it to be, which
/// stays in place for the call: to be read, or where the command writes to be written.
unsafe fn bpf<T>(cmd: u32, attr: &T) -> io::Result<i32> {
    let size = std::mem::size_of::<T>();
    // SAFETY: 1. `attr` is `size` bytes of plain data. 2. The caller answers for the addresses in it. 3. The kernel
    // writes nothing to `attr` itself for the commands above.
    let result = unsafe { libc::syscall(libc::SYS_bpf, cmd, std::ptr::from_ref(attr), size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// A descriptor that a command has just returned.
fn owned(fd: RawFd) -> OwnedFd {
    // SAFETY: 1. Only called with what a command that makes a descriptor returned. 2. Nothing else knows of it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn address<T: ?Sized>(of: &T) -> u64 {
    std::ptr::from_ref(of).cast::<u8>() as u64
}

/// An array of elements of [`WORDS`] words, zeros at first.
pub(super) struct Map(OwnedFd);

impl Map {
    pub(super) fn new(elements: u32) -> io::Result<Map> {
        let value_size = std::mem::size_of::<Words>() as u32;
        let attr = MapCreate { map_type: MAP_TYPE_ARRAY, key_size: 4, value_size, max_entries: elements };
        // SAFETY: 1. The form is that of the command. 2. There are no addresses in it.
        unsafe { bpf(MAP_CREATE, &attr) }.map(owned).map(Map)
    }

    pub(super) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// An element as it is now.
    pub(super) fn get(&self, element: u32) -> io::Result<Words> {
        let mut value: Words = [0; WORDS];
        let at = std::ptr::from_mut(&mut value) as u64;
        let attr = Element { map_fd: self.fd() as u32, padding: 0, key: address(&element), value: at, flags: 0 };
        // SAFETY: 1. The form is that of the command. 2. `key` is four bytes, as the map was made with. 3. `value` is as
        // large as the map's elements, for no map is made but by `new`, and may be written through its address.
        unsafe { bpf(MAP_LOOKUP_ELEM, &attr) }?;
        Ok(value)
    }
}

/// A program at a tracepoint, which it leaves when dropped.
pub(super) struct Attached {
    _link: OwnedFd,
}

/// Loads a program and puts it to a tracepoint, both of which the kernel forgets when they are dropped.
///
/// # Errors
/// `NotFound` where the kernel has no such tracepoint. A program that the verifier refuses is a bug of ours: its last words
/// are in the error.
pub(super) fn attach(tracepoint: &CStr, program: &[Insn]) -> io::Result<Attached> {
    let load = |log: &mut [u8]| {
        let attr = Load {
            prog_type: PROG_TYPE_RAW_TRACEPOINT,
            insn_cnt: program.len() as u32,
            insns: address(program),
            license: LICENCE.as_ptr() as u64,
            log_level: u32::from(!log.is_empty()),
            log_size: log.len() as u32,
            log_buf: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        };
        // SAFETY: 1. The form is that of the command. 2. `insns` is `insn_cnt` instructions of the kernel's own layout,
        // `license` ends with a zero, and `log_buf` is `log_size` bytes that may be written.
        unsafe { bpf(PROG_LOAD, &attr) }.map(owned)
    };
    let program = load(&mut []).or_else(|error| {
        if error.raw_os_error() == Some(libc::EPERM) {
            return Err(error);
        }
        let mut log = vec![0; LOG];
        load(&mut log).map_err(|error| {
            let said = String::from_utf8_lossy(&log).trim_end_matches('\0').trim_end().to_owned();
            let said: Vec<&str> = said.lines().rev().take(3).collect();
            io::Error::new(error.kind(), format!("{error} ({})", said.into_iter().rev().collect::<Vec<_>>().join("; ")))
        })
    })?;
    let attr = Attach { name: tracepoint.as_ptr() as u64, prog_fd: program.as_raw_fd() as u32, padding: 0 };
    // SAFETY: 1. The form is that of the command. 2. `name` ends with a zero.
    let link = unsafe { bpf(RAW_TRACEPOINT_OPEN, &attr) }.map(owned)?;
    Ok(Attached { _link: link })
}
