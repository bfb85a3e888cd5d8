//! The memory of a pool: its addresses, pages by their offset, for devices and for other processes, the descriptor of shared memory.
#![allow(unsafe_code, reason = "who has the descriptor can write the pages, so the caller answers for it")]

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use crate::pool::PagePool;
use crate::sys::mapping::Mapping;

/// The memory of a pool: where it is, and what of it is resident.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use pageset_host::{Order, PagePool};
///
/// let pool = PagePool::builder(64 << 20).build()?;
/// let page = pool.pages(Order::ZERO)?;
/// let start = std::ptr::NonNull::from(&page[0]);
/// let offset = pool.memory().offset_of(start).ok_or("in the pool")?;
/// assert_eq!(pool.memory().at_offset(offset), Some(start));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PoolMemory<'p>(&'p Mapping);

impl PagePool {
    /// The memory of the pool: its addresses, the offsets in it, its descriptor.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// assert!(pool.memory().address_space().len() >= 64 << 20);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    #[must_use]
    pub const fn memory(&self) -> PoolMemory<'_> {
        PoolMemory(&self.memory)
    }
}

impl<'p> PoolMemory<'p> {
    /// The address space of all runs, including the reserve, for registration with a device or with io_uring. The README
    /// of this crate says what to observe.
    ///
    /// The parts of the nodes follow each other and have equal lengths. The front of each part is in use. Only the owner
    /// of a run may read or write it.
    #[must_use]
    pub fn address_space(self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.0.pointer_to(self.0.start()), self.0.bytes())
    }

    /// Asks the system how many bytes of the pool are resident. Takes about 5 µs for each resident 2 MiB.
    ///
    /// # Errors
    /// The error of `mincore`.
    pub fn resident_bytes(self) -> io::Result<u64> {
        self.0.resident_bytes(0, self.0.bytes())
    }

    /// The offset of an address in [`Self::address_space`], in bytes, or `None` if the address is not in this pool.
    ///
    /// It is the same in each process that maps the memory, and what AF_XDP calls the address of a frame.
    #[inline]
    #[must_use]
    pub fn offset_of(self, address: NonNull<u8>) -> Option<u64> {
        let offset = address.addr().get().wrapping_sub(self.0.start());
        (offset < self.0.bytes()).then_some(offset as u64)
    }

    /// The address at an offset in bytes, or `None` at the end of the pool's address space and beyond.
    ///
    /// The reverse of [`Self::offset_of`]. Only the owner of the run there may read or write it.
    #[inline]
    #[must_use]
    pub fn at_offset(self, offset: u64) -> Option<NonNull<u8>> {
        let offset = usize::try_from(offset).ok().filter(|&offset| offset < self.0.bytes())?;
        Some(self.0.pointer_to(self.0.start() + offset))
    }

    /// The descriptor of shared memory, or `None` of a pool of [`Memory::Private`](crate::Memory::Private).
    ///
    /// Send it to another process over a Unix socket (`SCM_RIGHTS`), and the offsets of runs ([`Self::offset_of`]) with it.
    /// The process maps it with [`SharedView`](crate::SharedView), and can keep it longer than the pool. The memory stays
    /// until the last process unmaps it. Programs that this process starts do not inherit the descriptor.
    ///
    /// The pool still decides alone which run is free: after it is freed, it can have another owner, or be given back and
    /// read as zeros. A page that another process touches after that takes memory again, which the pool notices late.
    ///
    /// # Safety
    /// Who gets the descriptor can write all pages. (1) Nobody writes a run through it while a slice in this process refers
    /// to the run, such as one of [`Pages`](crate::Pages). (2) Nobody writes to a run that is free. (3) Nobody punches holes
    /// in the file.
    #[must_use]
    pub unsafe fn descriptor(self) -> Option<BorrowedFd<'p>> {
        self.0.file()
    }
}
