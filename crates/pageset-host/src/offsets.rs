//! Pages by their offset in the pool, for devices and for other processes, and the descriptor of shared memory.
#![allow(unsafe_code, reason = "who has the descriptor can write the pages, so the caller answers for it")]

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use crate::pool::PagePool;

impl PagePool {
    /// The offset of an address in [`Self::address_space`], in bytes, or `None` if the address is not in this pool.
    ///
    /// It is the same in each process that maps the memory, and what AF_XDP calls the address of a frame.
    #[inline]
    #[must_use]
    pub fn offset_of(&self, address: NonNull<u8>) -> Option<u64> {
        let offset = address.addr().get().wrapping_sub(self.memory.start());
        (offset < self.memory.bytes()).then_some(offset as u64)
    }

    /// The address at an offset in bytes, or `None` at the end of the pool's address space and beyond.
    ///
    /// The reverse of [`Self::offset_of`]. Only the owner of the run there may read or write it.
    #[inline]
    #[must_use]
    pub fn at_offset(&self, offset: u64) -> Option<NonNull<u8>> {
        let offset = usize::try_from(offset).ok().filter(|&offset| offset < self.memory.bytes())?;
        Some(self.memory.pointer_to(self.memory.start() + offset))
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
    pub unsafe fn memory_fd(&self) -> Option<BorrowedFd<'_>> {
        self.memory.file()
    }
}
