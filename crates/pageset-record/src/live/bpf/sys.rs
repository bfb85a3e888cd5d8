//! The part of the system call `bpf` that counting needs: the only unsafe code of the crate.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use super::code::Insn;

/// Words of a map's element.
pub(super) const WORDS: usize = 657;

pub(super) type Words = [u64; WORDS];

/// Numbers of commands and kinds. Source: `linux/bpf.h`, which is the kernel's stable interface.
const MAP_CREATE: u32 = 0;
const MAP_LOOKUP_ELEM: u32 = 1;
const PROG_LOAD: u32 = 5;
const RAW_TRACEPOINT_OPEN: u32 = 17;
const MAP_LOOKUP_AND_DELETE_BATCH: u32 = 25;
const MAP_TYPE_HASH: u32 = 1;
const MAP_TYPE_ARRAY: u32 = 2;
const PROG_TYPE_RAW_TRACEPOINT: u32 = 17;

/// The licence of the programs, in a form that the kernel accepts: it allows reading of call chains only with such a
/// licence.
const LICENCE: &CStr = c"Dual MIT/GPL";

/// The size of the buffer for the verifier's log. Unit: bytes.
const LOG: usize = 1 << 16;

/// The first members of `union bpf_attr` for each command. They have explicit padding only, because the kernel would
/// take implicit padding for members.
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
struct Batch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
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
/// `attr` has the layout of `cmd`. Each address in it points to memory as large as the command expects, valid for the
/// call: readable, and writable where the command writes.
unsafe fn bpf<T>(cmd: u32, attr: &mut T) -> io::Result<i32> {
    let size = std::mem::size_of::<T>();
    // SAFETY: 1. `attr` is `size` bytes of plain data, of which each value is valid, and writable: some commands write
    // to it. 2. The caller guarantees the addresses in it.
    let result = unsafe { libc::syscall(libc::SYS_bpf, cmd, std::ptr::from_mut(attr), size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// Takes ownership of a descriptor that a command has just returned.
fn owned(fd: RawFd) -> OwnedFd {
    // SAFETY: 1. `fd` is the result of a command that creates a descriptor. 2. Nothing else owns it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn address<T: ?Sized>(of: &T) -> u64 {
    std::ptr::from_ref(of).cast::<u8>() as u64
}

/// A BPF array of elements of [`WORDS`] words, initially zero.
pub(super) struct Map(OwnedFd);

impl Map {
    pub(super) fn new(elements: u32) -> io::Result<Map> {
        let value_size = std::mem::size_of::<Words>() as u32;
        let mut attr = MapCreate { map_type: MAP_TYPE_ARRAY, key_size: 4, value_size, max_entries: elements };
        // SAFETY: 1. `attr` has the layout of the command. 2. It contains no addresses.
        unsafe { bpf(MAP_CREATE, &mut attr) }.map(owned).map(Map)
    }

    pub(super) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// The current value of an element.
    pub(super) fn get(&self, element: u32) -> io::Result<Words> {
        let mut value: Words = [0; WORDS];
        let at = std::ptr::from_mut(&mut value) as u64;
        let mut attr = Element { map_fd: self.fd() as u32, padding: 0, key: address(&element), value: at, flags: 0 };
        // SAFETY: 1. `attr` has the layout of the command. 2. `key` is four bytes, the map's key size. 3. `value` is as
        // large as the map's elements, because only `new` creates maps, and it is writable.
        unsafe { bpf(MAP_LOOKUP_ELEM, &mut attr) }?;
        Ok(value)
    }
}

/// A BPF hash map from keys to values of words. Programs add elements; [`Self::take`] removes them.
pub(super) struct Table<const KEY: usize, const VALUE: usize> {
    fd: OwnedFd,
    keys: Vec<[u64; KEY]>,
    values: Vec<[u64; VALUE]>,
}

impl<const KEY: usize, const VALUE: usize> Table<KEY, VALUE> {
    /// A table of at most `elements` elements.
    pub(super) fn new(elements: u32) -> io::Result<Self> {
        let size = |words: usize| (words * 8) as u32;
        let mut attr =
            MapCreate { map_type: MAP_TYPE_HASH, key_size: size(KEY), value_size: size(VALUE), max_entries: elements };
        // SAFETY: 1. `attr` has the layout of the command. 2. It contains no addresses.
        let fd = unsafe { bpf(MAP_CREATE, &mut attr) }.map(owned)?;
        let places = elements as usize;
        Ok(Table { fd, keys: vec![[0; KEY]; places], values: vec![[0; VALUE]; places] })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Removes all elements and returns them. A program that has found an element and has not yet added to it adds to a
    /// removed element: at most one addition of each CPU is lost, or counted for the key that takes the element's place.
    /// Of a process, that is about a batch of pages, or a wait. Of a call site, it is a sample, which stands for up to
    /// about 8,192 pages, or a wait. So a word of a value must have the same meaning for all keys.
    ///
    /// # Errors
    /// `InvalidInput` if the kernel has no such command (before 5.6).
    pub(super) fn take(&mut self) -> io::Result<impl Iterator<Item = ([u64; KEY], [u64; VALUE])> + '_> {
        let mut position = [0_u64; KEY];
        let at = position.as_mut_ptr() as u64;
        let mut attr = Batch {
            in_batch: 0,
            out_batch: at,
            keys: self.keys.as_mut_ptr() as u64,
            values: self.values.as_mut_ptr() as u64,
            count: self.keys.len() as u32,
            map_fd: self.fd() as u32,
            elem_flags: 0,
            flags: 0,
        };
        // SAFETY: 1. `attr` has the layout of the command. 2. `keys` and `values` have `count` writable places of the
        // map's key and value size, because only `new` creates tables. 3. `out_batch` has room for a key.
        match unsafe { bpf(MAP_LOOKUP_AND_DELETE_BATCH, &mut attr) } {
            // The kernel found the end of the table.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            // Programs added elements meanwhile. The next call returns them.
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {}
            Err(error) => return Err(error),
        }
        let count = (attr.count as usize).min(self.keys.len());
        Ok(self.keys[..count].iter().copied().zip(self.values[..count].iter().copied()))
    }
}

/// A program attached to a tracepoint. Dropping it detaches the program.
pub(super) struct Attached {
    _link: OwnedFd,
}

/// Loads a program and attaches it to a tracepoint. The kernel removes both when the result is dropped.
///
/// # Errors
/// `NotFound` if the kernel has no such tracepoint. A program that the verifier refuses is a bug of this crate; the
/// error has the last lines of the verifier's log.
pub(super) fn attach(tracepoint: &CStr, program: &[Insn]) -> io::Result<Attached> {
    let load = |log: &mut [u8]| {
        let mut attr = Load {
            prog_type: PROG_TYPE_RAW_TRACEPOINT,
            insn_cnt: program.len() as u32,
            insns: address(program),
            license: LICENCE.as_ptr() as u64,
            log_level: u32::from(!log.is_empty()),
            log_size: log.len() as u32,
            log_buf: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        };
        // SAFETY: 1. `attr` has the layout of the command. 2. `insns` is `insn_cnt` instructions in the kernel's
        // layout, `license` ends with a zero byte, and `log_buf` has `log_size` writable bytes.
        unsafe { bpf(PROG_LOAD, &mut attr) }.map(owned)
    };
    let program = load(&mut []).or_else(|error| {
        if error.raw_os_error() == Some(libc::EPERM) {
            return Err(error);
        }
        let mut log = vec![0; LOG];
        load(&mut log).map_err(|error| {
            let log_lines = String::from_utf8_lossy(&log).trim_end_matches('\0').trim_end().to_owned();
            let log_lines: Vec<&str> = log_lines.lines().rev().take(3).collect();
            io::Error::new(
                error.kind(),
                format!("{error} ({})", log_lines.into_iter().rev().collect::<Vec<_>>().join("; ")),
            )
        })
    })?;
    let mut attr = Attach { name: tracepoint.as_ptr() as u64, prog_fd: program.as_raw_fd() as u32, padding: 0 };
    // SAFETY: 1. `attr` has the layout of the command. 2. `name` ends with a zero byte.
    let link = unsafe { bpf(RAW_TRACEPOINT_OPEN, &mut attr) }.map(owned)?;
    Ok(Attached { _link: link })
}
