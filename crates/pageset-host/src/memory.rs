//! What a pool's memory is: private or shared, its name, its huge pages, and what forked children see of it.

use std::ffi::CString;
use std::fs;

use pageset::Order;

use crate::error::{PoolError, address_space_error};
use crate::give_back::GiveBack;
use crate::size::{HugeSize, PAGE_BYTES};
use crate::sys::mapping::{Backing, Mapping};

/// The size of the largest block in bytes. Memory that starts at a multiple of it has no smaller blocks at its start.
const MAX_BLOCK_BYTES: usize = PAGE_BYTES << Order::MAX.get();
/// The most bytes of a name that the system takes for private memory. Source: `PR_SET_VMA_ANON_NAME` in `prctl(2)`.
const MAX_NAME_BYTES: usize = 79;
/// The name of shared memory without a name of its own.
const DEFAULT_NAME: &str = "pageset";

/// Whether other processes can map a pool's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Memory {
    /// Memory of this process only. If unsure, take this.
    #[default]
    Private,
    /// A file in memory (`memfd`) that this process maps. [`PoolMemory::descriptor`](crate::PoolMemory::descriptor) returns its
    /// descriptor, and [`SharedView`](crate::SharedView) maps it in another process.
    ///
    /// The file is as long as the pool's reserve, and only touched pages take memory. Nobody can change its length, so no
    /// process gets `SIGBUS` from a shorter file. Only this process allocates and frees runs.
    ///
    /// Cost: a touch of a new page takes longer than in private memory. The system finds transparent huge pages for shared
    /// memory only if `/sys/kernel/mm/transparent_hugepage/shmem_enabled` is `advise` or `always`. The file counts against
    /// `ulimit -f`. A forked child does not see the pages ([`OnFork::Absent`]); [`OnFork::Copy`] is an error.
    ///
    /// With [`HugePages::Explicit`], scans give no memory back. A page that [`PagePool::give_back`](crate::PagePool::give_back)
    /// or [`PagePool::shrink`](crate::PagePool::shrink) returns is no longer reserved: if the system has no free huge page
    /// when the pool needs it again, a touch ends the process (`SIGBUS`).
    Shared,
}

/// The page size with which the system backs a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HugePages {
    /// Base pages only. Resident memory is exactly the touched pages.
    None,
    /// Huge pages where the system finds them (`MADV_HUGEPAGE`). If unsure, take this.
    ///
    /// Gain: one five-hundredth of the page faults, and fewer TLB misses. Cost: resident memory is the touched memory
    /// rounded up to 2 MiB. [`GiveBackParts`](crate::GiveBackParts) says when parts of a huge page go back.
    #[default]
    Transparent,
    /// Huge pages of 2 MiB that an administrator has set apart (`vm.nr_hugepages`). Building the pool reserves them.
    Explicit,
    /// Huge pages of 1 GiB that an administrator has set apart, in
    /// `/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages` or at boot. Building the pool reserves them. The size of
    /// the pool is rounded up to 1 GiB for each node.
    ///
    /// Gain: fewest TLB misses, and one entry for each GiB in the tables of a device. Cost: the pool gives no memory back,
    /// except that [`PagePool::shrink`](crate::PagePool::shrink) returns each whole page of 1 GiB in the memory that it
    /// takes out of use.
    Explicit1GiB,
}

/// What a forked child sees of the pool's memory. The pool refuses the child's calls in both cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFork {
    /// A copy, as of all other memory: the child can read buffers. Not for [`Memory::Shared`]. Cost: the fork copies page tables, and later each
    /// page that either process writes.
    #[default]
    Copy,
    /// Nothing. Forking costs nothing for the pool. Right for programs that fork only to run another program.
    ///
    /// A touch ends the child. If the child has mapped other memory at that address, the touch reaches that memory.
    Absent,
}

impl HugePages {
    /// The size of explicit huge pages, or `None` for others.
    pub(crate) fn explicit(self) -> Option<HugeSize> {
        match self {
            HugePages::None | HugePages::Transparent => None,
            HugePages::Explicit => Some(HugeSize::Mib2),
            HugePages::Explicit1GiB => Some(HugeSize::Gib1),
        }
    }
}

/// The settings of a pool's memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemorySettings {
    pub(crate) memory: Memory,
    pub(crate) name: Option<String>,
    pub(crate) huge_pages: HugePages,
    /// `None`: the default of `memory`.
    pub(crate) on_fork: Option<OnFork>,
}

impl MemorySettings {
    /// Maps `bytes`, a multiple of the size of explicit huge pages, or of 2 MiB.
    pub(crate) fn map(&self, bytes: usize) -> Result<Mapping, PoolError> {
        let is_shared = self.memory == Memory::Shared;
        if is_shared && self.on_fork == Some(OnFork::Copy) {
            return Err(PoolError::SharedCopy);
        }
        let name = self.name.as_deref().or(is_shared.then_some(DEFAULT_NAME)).map(checked_name).transpose()?;
        let huge = self.huge_pages.explicit();
        let align = huge.map_or(MAX_BLOCK_BYTES, HugeSize::bytes);
        let mapped = match (self.memory, &name, huge) {
            (Memory::Shared, Some(name), _) => Mapping::create_shared(name, bytes, align, huge),
            (_, _, Some(size)) => Mapping::reserve(bytes, align, Backing::Hugetlb(size)),
            (_, _, None) => Mapping::reserve(bytes, align, Backing::Lazy),
        };
        let mut memory = mapped.map_err(|source| match huge {
            // No memory; no such size on this machine, of a mapping; the same, of a file.
            Some(size) if matches!(source.raw_os_error(), Some(libc::ENOMEM | libc::EINVAL | libc::ENODEV)) => {
                no_huge_pages(bytes, size, source)
            }
            _ if is_shared => shared_memory_error(bytes, source),
            _ => address_space_error("reserve address space", bytes, source),
        })?;
        if huge.is_none() {
            // A kernel without transparent huge pages refuses both advices. The pool then uses base pages.
            let _ = memory.set_huge(self.huge_pages == HugePages::Transparent);
        }
        if let (Memory::Private, Some(name)) = (self.memory, &name) {
            // A kernel without names refuses them, which `PoolBuilder::name` documents.
            let _ = memory.set_name(name);
        }
        if is_shared || self.on_fork == Some(OnFork::Absent) {
            memory
                .exclude_from_forks()
                .map_err(|error| address_space_error("exclude the pool from forks", bytes, error))?;
        }
        Ok(memory)
    }

    fn scans_give_back(&self) -> bool {
        match self.huge_pages {
            HugePages::None | HugePages::Transparent => true,
            // A page that leaves a file is no longer reserved, so a later touch could end the process.
            HugePages::Explicit => self.memory == Memory::Private,
            // A block of the allocator is smaller than a huge page, so none goes back.
            HugePages::Explicit1GiB => false,
        }
    }

    /// The policy of scans, with what this memory does not allow turned off.
    pub(crate) fn effective_give_back(&self, policy: GiveBack) -> GiveBack {
        if self.scans_give_back() { policy } else { GiveBack { bytes_per_scan: 0, ..policy } }
    }
}

/// The name as the system takes it.
fn checked_name(name: &str) -> Result<CString, PoolError> {
    let allowed = |byte: u8| (b' '..=b'~').contains(&byte) && !b"[]\\$`".contains(&byte);
    let is_valid = (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(allowed);
    let checked = if is_valid { CString::new(name).ok() } else { None };
    checked.ok_or_else(|| PoolError::Name { name: name.to_owned() })
}

fn no_huge_pages(bytes: usize, size: HugeSize, source: std::io::Error) -> PoolError {
    let folder = format!("/sys/kernel/mm/hugepages/hugepages-{}kB", size.bytes() >> 10);
    let count = |file: &str| fs::read_to_string(format!("{folder}/{file}")).ok()?.trim().parse::<u64>().ok();
    let free_pages = count("free_hugepages").map(|free| free.saturating_sub(count("resv_hugepages").unwrap_or(0)));
    PoolError::NoHugePages { bytes: bytes as u64, page_bytes: size.bytes() as u64, free_pages, source }
}

fn shared_memory_error(bytes: usize, source: std::io::Error) -> PoolError {
    let help = "try a smaller pool, or higher limits on files (ulimit -f, ulimit -n) and on address space (ulimit -v)";
    PoolError::System { action: "create shared memory", bytes: bytes as u64, help, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_take_no_reserved_page_from_a_pool() {
        for (memory, huge_pages, gives_back) in [
            (Memory::Private, HugePages::Explicit, true),
            (Memory::Private, HugePages::Explicit1GiB, false),
            (Memory::Shared, HugePages::None, true),
            (Memory::Shared, HugePages::Transparent, true),
            (Memory::Shared, HugePages::Explicit, false),
            (Memory::Shared, HugePages::Explicit1GiB, false),
        ] {
            let settings = MemorySettings { memory, huge_pages, ..MemorySettings::default() };
            let policy = settings.effective_give_back(GiveBack::default());
            assert_eq!(policy.bytes_per_scan > 0, gives_back, "{memory:?}, {huge_pages:?}");
            assert_eq!(policy.interval, GiveBack::default().interval);
        }
    }

    #[test]
    fn names_are_what_the_system_takes() {
        let longest = "x".repeat(MAX_NAME_BYTES);
        for name in ["a", "rx ring/0: frames", "~", longest.as_str()] {
            assert_eq!(checked_name(name).expect("a name").to_bytes(), name.as_bytes());
        }
        let too_long = "x".repeat(MAX_NAME_BYTES + 1);
        for name in ["", "a[", "]", "\\", "$x", "`", "\0", "\n", "\x7f", "ä", too_long.as_str()] {
            let error = checked_name(name).expect_err(name).to_string();
            assert!(error.starts_with(&format!("cannot name the memory {name:?}: a name has 1 to 79 ")), "{error}");
        }
    }
}
