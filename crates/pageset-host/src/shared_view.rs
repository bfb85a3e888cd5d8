//! The memory of another process's pool.

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use thiserror::Error;

use crate::sys::checkers::Checkers;
use crate::sys::mapping::Mapping;

/// A mapping of the memory of a pool that another process, or this one, has built with
/// [`Memory::Shared`](crate::Memory::Shared). Dropping it unmaps the memory.
///
/// A view finds pages by their offset. It cannot allocate or free them. It returns pointers, not slices: only an agreement
/// with the process that owns the pool keeps both from writing a run at the same time.
///
/// ```
/// use pageset_host::{Memory, Order, PagePool, SharedView};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = PagePool::builder(2 << 20).memory(Memory::Shared).build()?;
/// let mut page = pool.pages(Order::ZERO)?;
/// page[..5].copy_from_slice(b"hello");
/// let offset = pool.memory().offset_of(std::ptr::NonNull::from(&page[0])).ok_or("a page of the pool")?;
///
/// // Another process gets the descriptor and the offset over a socket.
/// // SAFETY: the view only reads.
/// let view = SharedView::read_only(unsafe { pool.memory().descriptor() }.ok_or("shared memory")?)?;
/// // SAFETY: nobody writes the page meanwhile.
/// assert_eq!(unsafe { view.resolve(offset, 5)?.as_ref() }, b"hello");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SharedView {
    memory: Mapping,
}

/// Why a view cannot be made, or has no such bytes.
#[derive(Debug, Error)]
pub enum ViewError {
    /// The descriptor is not that of a pool's memory.
    #[error(
        "cannot map the descriptor: it is no file in memory whose length is sealed; try the descriptor of \
         PoolMemory::descriptor"
    )]
    NotAPool,
    /// A system call failed.
    #[error(
        "cannot map the descriptor: {0}; try one that is open for the access that you need, or a higher limit on address \
         space (ulimit -v)"
    )]
    System(#[from] io::Error),
    /// The range reaches beyond the memory.
    #[error(
        "cannot resolve {bytes} bytes at offset {offset}: the memory has {size_bytes} bytes; try a range inside it"
    )]
    OutOfRange {
        /// The offset in bytes.
        offset: u64,
        /// The length in bytes.
        bytes: usize,
        /// The size of the memory in bytes.
        size_bytes: u64,
    },
}

impl SharedView {
    /// Maps the memory for reading. A write through a pointer of this view ends the process (`SIGSEGV`). `file` can be
    /// closed afterwards.
    ///
    /// # Errors
    /// [`ViewError::NotAPool`] if the file is not sealed against shrinking, because a shorter file would end this process
    /// with `SIGBUS`. [`ViewError::System`] if the system does not map it.
    pub fn read_only(file: impl AsFd) -> Result<SharedView, ViewError> {
        Self::map(file, false)
    }

    /// Maps the memory for reading and writing, like [`Self::read_only`].
    ///
    /// # Errors
    /// As for [`Self::read_only`], and [`ViewError::System`] if the descriptor is open for reading only.
    pub fn writable(file: impl AsFd) -> Result<SharedView, ViewError> {
        Self::map(file, true)
    }

    fn map(file: impl AsFd, is_writable: bool) -> Result<SharedView, ViewError> {
        let mapped = Mapping::view(file.as_fd(), is_writable);
        let memory = mapped.map_err(|error| error.map_or(ViewError::NotAPool, ViewError::System))?;
        if let Some(checkers) = Checkers::find() {
            // In a child of a process, a pool that the child did not inherit may have been here: its marks were inherited.
            checkers.mapped(memory.pointer_to(memory.start()).as_ptr(), memory.bytes());
        }
        Ok(SharedView { memory })
    }

    /// The size of the memory in bytes, with the pool's reserve.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.memory.bytes() as u64
    }

    /// The memory of `bytes` at `offset`, which is [`PoolMemory::offset_of`](crate::PoolMemory::offset_of) in the process of
    /// the pool. It is valid for reads, and for writes if the view is writable, as long as the view. `bytes` can be 0.
    ///
    /// # Errors
    /// [`ViewError::OutOfRange`] if the range does not lie in the memory. The view does not know which runs are in use.
    pub fn resolve(&self, offset: u64, bytes: usize) -> Result<NonNull<[u8]>, ViewError> {
        let size_bytes = self.size_bytes();
        if offset >= size_bytes || bytes as u64 > size_bytes - offset {
            return Err(ViewError::OutOfRange { offset, bytes, size_bytes });
        }
        let start = self.memory.pointer_to(self.memory.start() + offset as usize);
        Ok(NonNull::slice_from_raw_parts(start, bytes))
    }
}
