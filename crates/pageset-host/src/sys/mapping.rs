//! Mappings: address space that is reserved, advised on and given back.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::chunk_mask::ChunkMask;
use crate::size::{CHUNK_BYTES, HugeSize, PAGE_BYTES};

/// How a mapping is backed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Backing {
    /// Base or transparent huge pages. A page takes memory when it is first touched.
    Lazy,
    /// Huge pages from the system's pool. The system reserves them at once, so a touch cannot fail.
    Hugetlb(HugeSize),
}

/// A mapping that is zero when first touched. Dropping the value unmaps it.
///
/// [`Self::reserve`] makes a private anonymous one. `sys::shared` maps files in memory.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    excluded_from_forks: bool,
    /// The smallest part that the system takes back, in bytes: an explicit huge page, or 1 for pages of any other size.
    unit_bytes: usize,
    pub(super) file: Option<OwnedFd>,
}

// SAFETY: (1) the mapping belongs to the process, not to a thread; (2) this type neither reads nor writes it.
unsafe impl Send for Mapping {}
// SAFETY: (1) and (2) as for `Send`; (3) its methods only make system calls, which threads can make at the same time.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `bytes` at a multiple of `align`.
    ///
    /// `bytes` is a multiple of the system's page size above 0. `align` is a power of two and at least that page size;
    /// for [`Backing::Hugetlb`] it is the size of a huge page.
    ///
    /// # Errors
    /// The error of `mmap`, and `OutOfMemory` if the sum of `bytes` and `align` overflows.
    pub(crate) fn reserve(bytes: usize, align: usize, backing: Backing) -> io::Result<Mapping> {
        let flags = match backing {
            Backing::Lazy => MapFlags::PRIVATE | MapFlags::NORESERVE,
            Backing::Hugetlb(HugeSize::Mib2) => MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB,
            Backing::Hugetlb(HugeSize::Gib1) => MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_1GB,
        };
        let unit_bytes = if let Backing::Hugetlb(size) = backing { size.bytes() } else { 1 };
        // The system aligns huge pages to their size. Slack would reserve huge pages that nobody uses.
        let slack = if backing == Backing::Lazy { align } else { 0 };
        let all = bytes.checked_add(slack).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: (1) the call requests no address, so it replaces no mapping; (2) private anonymous memory is shared with
        // nothing.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), all, ProtFlags::READ | ProtFlags::WRITE, flags)? };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let whole = Mapping::from_mapped(base, all, unit_bytes);
        let front = base.addr().get().next_multiple_of(align) - base.addr().get();
        Ok(if slack == 0 { whole } else { whole.trim(front, bytes) })
    }

    /// Owns `bytes` from `base` on, which a call has just mapped.
    pub(super) fn from_mapped(base: NonNull<u8>, bytes: usize, unit_bytes: usize) -> Mapping {
        // `pointer_to` then makes pointers from addresses, which saves each allocation the computation from the start.
        base.as_ptr().expose_provenance();
        Mapping { base, bytes, excluded_from_forks: false, unit_bytes, file: None }
    }

    /// Unmaps all but `bytes` from offset `front` on.
    fn trim(self, front: usize, bytes: usize) -> Mapping {
        let whole = std::mem::ManuallyDrop::new(self);
        let base = whole.base.map_addr(|addr| addr.saturating_add(front));
        let behind = base.map_addr(|addr| addr.saturating_add(bytes));
        for (start, len) in [(whole.base, front), (behind, whole.bytes - front - bytes)] {
            if len > 0 {
                // SAFETY: (1) the range is inside the mapping that `whole` owned; (2) no pointer into the range exists.
                // A failure only leaves the address space reserved.
                let _ = unsafe { munmap(start.as_ptr().cast(), len) };
            }
        }
        Mapping { base, bytes, excluded_from_forks: false, unit_bytes: 1, file: None }
    }

    /// The same range after a file was mapped over it.
    pub(super) fn into_shared(mut self, file: OwnedFd, unit_bytes: usize) -> Mapping {
        (self.unit_bytes, self.file) = (unit_bytes, Some(file));
        self
    }

    /// The address of the first byte.
    pub(crate) fn start(&self) -> usize {
        self.base.addr().get()
    }

    /// The length in bytes; a multiple of the system's page size.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A pointer to an address inside the mapping, with provenance of the whole mapping.
    #[inline(always)]
    pub(crate) fn pointer_to(&self, address: usize) -> NonNull<u8> {
        debug_assert!(address >= self.start() && address - self.start() < self.bytes);
        NonNull::new(ptr::with_exposed_provenance_mut(address)).unwrap_or(self.base)
    }

    /// Advises the system on part of the mapping. Callers in this file pass the only advices that change contents.
    ///
    /// # Panics
    /// If the range reaches beyond the mapping.
    fn advise(&self, offset: usize, bytes: usize, advice: Advice) -> io::Result<()> {
        assert!(
            offset <= self.bytes && bytes <= self.bytes - offset,
            "cannot advise on bytes {offset} to {offset} + {bytes}: the mapping is shorter"
        );
        // SAFETY: (1) the range is inside this mapping; (2) each caller in this file documents its effect on contents.
        unsafe { madvise(self.base.as_ptr().add(offset).cast(), bytes, advice)? };
        Ok(())
    }

    /// Requests transparent huge pages or base pages. Changes no contents.
    pub(crate) fn set_huge(&self, on: bool) -> io::Result<()> {
        self.set_huge_in(0, self.bytes, on)
    }

    /// As [`Self::set_huge`], for part of the mapping. The system then counts the part as a mapping of its own.
    pub(crate) fn set_huge_in(&self, offset: usize, bytes: usize, on: bool) -> io::Result<()> {
        self.advise(offset, bytes, if on { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage })
    }

    /// Makes part of the mapping resident. Changes no contents.
    pub(crate) fn populate(&self, offset: usize, bytes: usize) -> io::Result<()> {
        self.advise(offset, bytes, Advice::LinuxPopulateWrite)
    }

    /// Excludes the mapping from forked children. Changes no contents in this process.
    pub(crate) fn exclude_from_forks(&mut self) -> io::Result<()> {
        self.advise(0, self.bytes, Advice::LinuxDontFork)?;
        self.excluded_from_forks = true;
        Ok(())
    }

    /// Prevents the drop of the value in a forked child from unmapping an excluded mapping.
    ///
    /// The child does not have the mapping, and may have mapped other memory at the same addresses.
    pub(crate) fn forget_in_child(&mut self) {
        if self.excluded_from_forks {
            self.bytes = 0;
        }
    }

    /// Zeroes the mapping in forked children. Changes no contents in this process.
    pub(crate) fn wipe_in_forks(&self) -> io::Result<()> {
        self.advise(0, self.bytes, Advice::LinuxWipeOnFork)
    }

    /// Gives part of the mapping back to the system, and returns how many resident bytes went. The part is zero when it is
    /// touched again. Of explicit huge pages, only those go that lie in the part as a whole.
    ///
    /// `MADV_DONTNEED` only unmaps the pages of a file, which keeps them. `MADV_REMOVE` takes them out of the file.
    ///
    /// # Safety
    /// (1) Nothing refers to the range, in no process that has the file. (2) Nobody relies on its contents.
    pub(crate) unsafe fn give_back(&self, offset: usize, bytes: usize) -> io::Result<u64> {
        let start = offset.next_multiple_of(self.unit_bytes);
        let end = (offset + bytes) / self.unit_bytes * self.unit_bytes;
        if start >= end {
            return Ok(0);
        }
        let resident = self.resident_bytes(start, end - start)?;
        self.advise(start, end - start, if self.file.is_some() { Advice::LinuxRemove } else { Advice::LinuxDontNeed })?;
        Ok(resident)
    }

    /// Splits the transparent huge page around `offset` into base pages, if there is one. Changes no contents. `offset` is
    /// a multiple of the system's page size.
    ///
    /// Without the split, [`Self::give_back`] of a part only unmaps the part: the system keeps the memory until it runs
    /// short. The system splits a huge page when it gets advice on a part of it. Since Linux 5.4; earlier systems refuse
    /// the advice, and the memory goes back late.
    pub(crate) fn split_huge(&self, offset: usize) {
        let _ = self.advise(offset, rustix::param::page_size(), Advice::LinuxCold);
    }

    /// The resident bytes of part of the mapping. `offset` is a multiple of the system's page size.
    ///
    /// # Panics
    /// If the range reaches beyond the mapping.
    pub(crate) fn resident_bytes(&self, offset: usize, bytes: usize) -> io::Result<u64> {
        let page = rustix::param::page_size();
        let mut resident = 0;
        // One byte for each page of a step, 2 MiB with base pages of 4 KiB. The map is small enough for the stack.
        let mut map = [0_u8; 512];
        for from in (offset..offset + bytes).step_by(map.len() * page) {
            let len = (offset + bytes - from).min(map.len() * page);
            let pages = self.query_resident(from, len, &mut map)?.iter().filter(|&&byte| byte & 1 != 0).count();
            resident += (pages * page) as u64;
        }
        Ok(resident)
    }

    /// The resident pages of the chunk at `offset`.
    ///
    /// # Panics
    /// If the chunk reaches beyond the mapping.
    pub(crate) fn resident_pages(&self, offset: usize) -> io::Result<ChunkMask> {
        let mut map = [0_u8; CHUNK_BYTES / PAGE_BYTES];
        let unit = rustix::param::page_size() / PAGE_BYTES;
        let mut resident = ChunkMask::EMPTY;
        for (i, byte) in self.query_resident(offset, CHUNK_BYTES, &mut map)?.iter().enumerate() {
            if byte & 1 != 0 {
                resident.insert(i * unit..(i + 1) * unit);
            }
        }
        Ok(resident)
    }

    /// Returns the front of `map`, with one byte for each page of the system in part of the mapping: bit 0 is set if the
    /// page is resident. `map` is long enough.
    fn query_resident<'m>(&self, offset: usize, bytes: usize, map: &'m mut [u8]) -> io::Result<&'m [u8]> {
        assert!(
            offset <= self.bytes && bytes <= self.bytes - offset,
            "cannot query bytes {offset} to {offset} + {bytes}: the mapping is shorter"
        );
        let map = &mut map[..bytes.div_ceil(rustix::param::page_size())];
        // SAFETY: (1) the range is inside this mapping; (2) `map` has one byte for each page of the range.
        let result = unsafe { libc::mincore(self.base.as_ptr().add(offset).cast(), bytes, map.as_mut_ptr()) };
        if result == 0 { Ok(map) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        // SAFETY: (1) the range is exactly the mapping of this value; (2) callers that hand out addresses guarantee that
        // nobody uses them after the drop.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_mapping_is_aligned_and_resident_where_touched() {
        let map = Mapping::reserve(8 * MIB, 4 * MIB, Backing::Lazy).expect("address space");
        assert_eq!((map.start() % (4 * MIB), map.bytes()), (0, 8 * MIB));
        map.set_huge(false).expect("base pages");
        assert_eq!(map.resident_bytes(0, 8 * MIB).expect("a count"), 0);
        map.populate(MIB, 3 * MIB).expect("memory");
        assert_eq!(map.resident_bytes(0, 8 * MIB).expect("a count"), 3 * MIB as u64);
        assert_eq!(map.resident_bytes(2 * MIB, MIB).expect("a count"), MIB as u64);
        let pages = |offset| map.resident_pages(offset).expect("a set");
        assert_eq!((pages(0).extent(0..512), pages(0).len()), (Some(256..512), 256));
        assert_eq!((pages(2 * MIB).len(), pages(4 * MIB).len()), (512, 0));
        // SAFETY: (1) and (2): only this test knows the mapping, and does not read it.
        unsafe { map.give_back(2 * MIB, MIB).expect("given back") };
        assert_eq!(map.resident_bytes(0, 8 * MIB).expect("a count"), 2 * MIB as u64);
    }

    /// The bytes in transparent huge pages of the mapping that starts at `start`.
    fn huge_bytes(start: usize) -> u64 {
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("smaps");
        let of_mapping = smaps.split_once(&format!("{start:x}-")).expect("the mapping").1;
        let kib = of_mapping.lines().find_map(|line| line.strip_prefix("AnonHugePages:")).expect("a count");
        kib.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    }

    /// Skipped where the system has no transparent huge page.
    #[test]
    fn a_huge_page_splits_and_stays_resident() {
        let map = Mapping::reserve(4 * MIB, 4 * MIB, Backing::Lazy).expect("address space");
        let populated = map.set_huge(true).and_then(|()| map.populate(0, 4 * MIB));
        if populated.is_err() || huge_bytes(map.start()) < 4 * MIB as u64 {
            return println!("SKIPPED a_huge_page_splits_and_stays_resident: no transparent huge pages");
        }
        map.split_huge(MIB);
        assert_eq!(huge_bytes(map.start()), 2 * MIB as u64, "one of two huge pages split");
        assert_eq!(map.resident_bytes(0, 4 * MIB).expect("a count"), 4 * MIB as u64);
        map.set_huge_in(0, 2 * MIB, false).expect("a part with base pages");
        map.set_huge_in(0, 2 * MIB, true).expect("one mapping again");
        assert_eq!(huge_bytes(map.start()), 2 * MIB as u64);
    }

    #[test]
    fn an_oversized_mapping_is_an_error() {
        let error = Mapping::reserve(1 << 60, 4 * MIB, Backing::Lazy).expect_err("no machine has 1 EiB");
        assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
        Mapping::reserve(usize::MAX & !0xfff, 4 * MIB, Backing::Lazy).expect_err("overflow");
    }
}
