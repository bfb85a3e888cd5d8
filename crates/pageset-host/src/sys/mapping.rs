//! Address space from the system: reserved, advised on, given back.

use std::io;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// How a mapping is backed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Backing {
    /// Memory that comes as it is touched, and is not reserved before.
    Lazy,
    /// Huge pages of 2 MiB from the system's pool, reserved at once: a touch can then not fail.
    Hugetlb,
}

/// A private anonymous mapping, readable and writable, that ends with this value. Zero when first touched.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    /// Children of forks do not have it.
    excluded_from_forks: bool,
}

// SAFETY: (1) the mapping belongs to the process, not to a thread; (2) this type reads and writes none of it.
unsafe impl Send for Mapping {}
// SAFETY: (1) and (2) as above; (3) all calls on it are system calls that may be made at once.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `bytes` (a multiple of the page size, above 0) at an address that is a multiple of `align` (a power of
    /// two, at least the page size).
    pub(crate) fn reserve(bytes: usize, align: usize, backing: Backing) -> io::Result<Mapping> {
        let flags = match backing {
            Backing::Lazy => MapFlags::PRIVATE | MapFlags::NORESERVE,
            Backing::Hugetlb => MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB,
        };
        // Huge pages lie at multiples of themselves; slack of theirs would be reserved for nothing.
        let slack = if backing == Backing::Hugetlb { 0 } else { align };
        let all = bytes.checked_add(slack).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: (1) no address is asked for, so nothing that exists is replaced; (2) anonymous memory is not shared
        // with anything.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), all, ProtFlags::READ | ProtFlags::WRITE, flags)? };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // For `at`: an address alone is a pointer then, which saves each allocation the way from the start.
        base.as_ptr().expose_provenance();
        let whole = Mapping { base, bytes: all, excluded_from_forks: false };
        let front = base.addr().get().next_multiple_of(align) - base.addr().get();
        Ok(if slack == 0 { whole } else { whole.cut(front, bytes) })
    }

    /// Unmaps all but `bytes` from `front` on.
    fn cut(self, front: usize, bytes: usize) -> Mapping {
        let whole = std::mem::ManuallyDrop::new(self);
        let base = whole.base.map_addr(|addr| addr.saturating_add(front));
        let behind = base.map_addr(|addr| addr.saturating_add(bytes));
        for (start, len) in [(whole.base, front), (behind, whole.bytes - front - bytes)] {
            if len > 0 {
                // SAFETY: (1) the range is inside the mapping that `whole` owned; (2) nothing has been handed out of
                // it. A failure leaves address space reserved, which is all that it can do.
                let _ = unsafe { munmap(start.as_ptr().cast(), len) };
            }
        }
        Mapping { base, bytes, excluded_from_forks: false }
    }

    /// The first address.
    pub(crate) fn start(&self) -> usize {
        self.base.addr().get()
    }

    /// How many bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A pointer to an address inside the mapping, with the right to all of it.
    #[inline(always)]
    pub(crate) fn at(&self, address: usize) -> NonNull<u8> {
        debug_assert!(address >= self.start() && address - self.start() < self.bytes);
        NonNull::new(ptr::with_exposed_provenance_mut(address)).unwrap_or(self.base)
    }

    /// Tells the system about part of the mapping. Of the advices that change contents only those are taken that the
    /// wrappers below give.
    fn advise(&self, offset: usize, bytes: usize, advice: Advice) -> io::Result<()> {
        assert!(offset <= self.bytes && bytes <= self.bytes - offset, "advice beyond the mapping");
        // SAFETY: (1) the range is inside this mapping; (2) each caller in this file says why nobody minds.
        unsafe { madvise(self.base.as_ptr().add(offset).cast(), bytes, advice)? };
        Ok(())
    }

    /// Asks for huge pages, or for none. Changes no contents.
    pub(crate) fn set_huge(&self, on: bool) -> io::Result<()> {
        self.advise(0, self.bytes, if on { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage })
    }

    /// Has the system back part of the mapping with memory now. Changes no contents.
    pub(crate) fn populate(&self, offset: usize, bytes: usize) -> io::Result<()> {
        self.advise(offset, bytes, Advice::LinuxPopulateWrite)
    }

    /// A child of a fork will not have the mapping. Changes nothing here.
    pub(crate) fn exclude_from_forks(&mut self) -> io::Result<()> {
        self.advise(0, self.bytes, Advice::LinuxDontFork)?;
        self.excluded_from_forks = true;
        Ok(())
    }

    /// To be called in a child before the value ends there: what it was left out of is not its to unmap, for the child
    /// may have something else at the same addresses by now.
    pub(crate) fn forget_in_child(&mut self) {
        if self.excluded_from_forks {
            self.bytes = 0;
        }
    }

    /// A child of a fork will find zeros. Changes nothing here.
    pub(crate) fn wipe_in_forks(&self) -> io::Result<()> {
        self.advise(0, self.bytes, Advice::LinuxWipeOnFork)
    }

    /// Gives part of the mapping back to the system; it is zero when touched again.
    ///
    /// # Safety
    /// Nothing refers to the range, and nobody counts on what is in it.
    pub(crate) unsafe fn give_back(&self, offset: usize, bytes: usize) -> io::Result<()> {
        self.advise(offset, bytes, Advice::LinuxDontNeed)
    }

    /// How many bytes of a part are resident. The part begins at a multiple of the system's page size.
    pub(crate) fn resident(&self, offset: usize, bytes: usize) -> io::Result<u64> {
        assert!(offset <= self.bytes && bytes <= self.bytes - offset, "a look beyond the mapping");
        let page = rustix::param::page_size();
        let mut resident = 0;
        // A piece has 2 MiB where pages have 4 KiB, so that the map of pages stays on the stack.
        let mut map = [0_u8; 512];
        for from in (offset..offset + bytes).step_by(map.len() * page) {
            let len = (offset + bytes - from).min(map.len() * page);
            // SAFETY: (1) the range is inside this mapping; (2) `map` has a byte for each of its pages.
            let result = unsafe { libc::mincore(self.base.as_ptr().add(from).cast(), len, map.as_mut_ptr()) };
            if result != 0 {
                return Err(io::Error::last_os_error());
            }
            let pages = map[..len.div_ceil(page)].iter().filter(|&&byte| byte & 1 != 0).count();
            resident += (pages * page) as u64;
        }
        Ok(resident)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        // SAFETY: (1) the range is exactly what this value maps; (2) whoever hands out addresses in it promises that
        // they are not used after this value.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn aligned_as_asked_and_resident_as_touched() {
        let map = Mapping::reserve(8 * MIB, 4 * MIB, Backing::Lazy).expect("address space");
        assert_eq!((map.start() % (4 * MIB), map.bytes()), (0, 8 * MIB));
        map.set_huge(false).expect("plain pages");
        assert_eq!(map.resident(0, 8 * MIB).expect("a count"), 0);
        map.populate(MIB, 3 * MIB).expect("memory");
        assert_eq!(map.resident(0, 8 * MIB).expect("a count"), 3 * MIB as u64);
        assert_eq!(map.resident(2 * MIB, MIB).expect("a count"), MIB as u64);
        // SAFETY: nobody else knows the mapping.
        unsafe { map.give_back(2 * MIB, MIB).expect("given back") };
        assert_eq!(map.resident(0, 8 * MIB).expect("a count"), 2 * MIB as u64);
    }

    #[test]
    fn more_than_there_is_is_an_error() {
        let error = Mapping::reserve(1 << 60, 4 * MIB, Backing::Lazy).expect_err("no machine has that");
        assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
        Mapping::reserve(usize::MAX & !0xfff, 4 * MIB, Backing::Lazy).expect_err("overflow");
    }
}
