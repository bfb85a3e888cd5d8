//! Shared mappings of files in memory, and names of mappings.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::process::{Resource, getrlimit, set_virtual_memory_region_name};

use super::mapping::{Backing, Mapping};
use crate::size::HugeSize;

impl Mapping {
    /// Creates a file in memory of `bytes`, and maps it at a multiple of `align`, which is at least the size of `huge`.
    ///
    /// The length of the file can never change, so that no process gets `SIGBUS` from a shorter file. With `huge`, the
    /// system reserves the huge pages at once.
    ///
    /// # Errors
    /// The error of a system call. `EFBIG` if `ulimit -f` allows no such file.
    pub(crate) fn create_shared(
        name: &CStr,
        bytes: usize,
        align: usize,
        huge: Option<HugeSize>,
    ) -> io::Result<Mapping> {
        // The system answers a file beyond the limit with a signal that ends the process.
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < bytes as u64) {
            return Err(Errno::FBIG.into());
        }
        let file = create_file(name, huge)?;
        ftruncate(&file, bytes as u64)?;
        fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        let reserved = Mapping::reserve(bytes, align, Backing::Lazy)?;
        let start = reserved.pointer_to(reserved.start()).as_ptr().cast();
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
        // SAFETY: (1) the call replaces exactly the mapping of `reserved`, to which nothing refers; (2) `reserved` owns
        // the new mapping as it owned the old one; (3) the documentation of `PoolMemory::descriptor` says who may write the
        // file.
        unsafe { mmap(start, bytes, access, flags, &file, 0)? };
        Ok(reserved.into_shared(file, huge.map_or(1, HugeSize::bytes)))
    }

    /// Maps all of a file whose length can never become smaller.
    ///
    /// # Errors
    /// The error of a system call. `None` if the file is empty, or if its length can become smaller.
    pub(crate) fn view(file: BorrowedFd<'_>, is_writable: bool) -> Result<Mapping, Option<io::Error>> {
        let seals = fcntl_get_seals(file).map_err(|error| (error != Errno::INVAL).then(|| error.into()))?;
        let bytes = fstat(file).map_err(|error| Some(error.into()))?.st_size as usize;
        if !seals.contains(SealFlags::SHRINK) || bytes == 0 {
            return Err(None);
        }
        let access = if is_writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: (1) the call requests no address, so it replaces no mapping; (2) the caller makes no references to the
        // memory, only pointers.
        let base = unsafe { mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, file, 0) };
        let base = base.map_err(|error| Some(error.into()))?;
        NonNull::new(base.cast()).map(|base| Mapping::from_mapped(base, bytes, 1)).ok_or(None)
    }

    /// The file of a shared mapping, or `None` of a private one.
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// Names a private mapping that nothing refers to yet.
    ///
    /// # Errors
    /// The error of `prctl`, on a kernel without names and for huge pages.
    pub(crate) fn set_name(&self, name: &CStr) -> io::Result<()> {
        // SAFETY: (1) the range is exactly this mapping, which is readable; (2) nothing writes it while the slice lives.
        let region = unsafe { std::slice::from_raw_parts(self.pointer_to(self.start()).as_ptr(), self.bytes()) };
        Ok(set_virtual_memory_region_name(region, Some(name))?)
    }
}

/// Creates an empty file in memory. Programs that this process starts do not inherit it, and nobody can execute it.
fn create_file(name: &CStr, huge: Option<HugeSize>) -> rustix::io::Result<OwnedFd> {
    let backing = match huge {
        None => MemfdFlags::empty(),
        Some(HugeSize::Mib2) => MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB,
        Some(HugeSize::Gib1) => MemfdFlags::HUGETLB | MemfdFlags::HUGE_1GB,
    };
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | backing;
    // Kernels before 6.3 do not know the flag. Later ones can be set to refuse files without it (`vm.memfd_noexec`).
    memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL).or_else(|error| match error {
        Errno::INVAL => memfd_create(name, flags),
        error => Err(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// The bytes that the file of a mapping takes.
    fn file_bytes(map: &Mapping) -> u64 {
        fstat(map.file().expect("a file")).expect("a state").st_blocks as u64 * 512
    }

    #[test]
    fn a_shared_mapping_is_aligned_and_gives_its_files_pages_back() {
        let map = Mapping::create_shared(c"t", 8 * MIB, 4 * MIB, None).expect("memory");
        assert_eq!((map.start() % (4 * MIB), map.bytes(), file_bytes(&map)), (0, 8 * MIB, 0));
        map.set_huge(false).expect("base pages");
        map.populate(MIB, 4 * MIB).expect("memory");
        assert_eq!(file_bytes(&map), 4 * MIB as u64);
        // SAFETY: (1) and (2): only this test knows the mapping, and does not read it.
        let gone = unsafe { map.give_back(0, 3 * MIB).expect("given back") };
        assert_eq!((gone, file_bytes(&map)), (2 * MIB as u64, 2 * MIB as u64));
        assert_eq!(map.resident_bytes(0, 8 * MIB).expect("a count"), 2 * MIB as u64);
    }

    #[test]
    fn the_length_of_the_file_is_fixed() {
        let map = Mapping::create_shared(c"t", 2 * MIB, 2 * MIB, None).expect("memory");
        let file = map.file().expect("a file");
        for bytes in [0, 4096, 4 * MIB as u64] {
            assert_eq!(ftruncate(file, bytes), Err(Errno::PERM), "{bytes}");
        }
        assert_eq!(fcntl_add_seals(file, SealFlags::FUTURE_WRITE), Err(Errno::PERM), "it would forbid to give back");
    }
}
