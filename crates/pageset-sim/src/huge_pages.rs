//! Huge pages for the large tables of a simulation.
//!
//! Each simulated CPU uses its own pages. A switch between CPUs makes the host walk its page tables again, in a virtual
//! machine two levels of them. Huge pages of 2 MiB avoid most of these walks.

/// Advises the host to back a table with huge pages. The host may ignore this: only the host's run time depends on it.
pub(crate) fn advise_huge<T>(table: &[T]) {
    #[cfg(target_os = "linux")]
    advise(table);
    #[cfg(not(target_os = "linux"))]
    let _ = table;
}

#[cfg(target_os = "linux")]
fn advise<T>(table: &[T]) {
    use rustix::mm::{Advice, madvise};

    /// Bytes of a huge page on x86-64, and a multiple of every smaller page.
    const HUGE: usize = 2 << 20;

    let bytes = size_of_val(table);
    let front = table.as_ptr().addr().next_multiple_of(HUGE) - table.as_ptr().addr();
    let whole = bytes.saturating_sub(front) / HUGE * HUGE;
    if whole == 0 {
        return;
    }
    let start = table.as_ptr().cast::<u8>().wrapping_add(front).cast_mut();
    // SAFETY: the advice must not change contents or access rights.
    // 1. The range lies inside `table`: it begins `front` bytes after its start and ends before its end.
    // 2. This advice changes only the size of the pages that back the range.
    let advised = unsafe { madvise(start.cast(), whole, Advice::LinuxHugepage) };
    // Hosts without huge pages return an error; the table then stays on small pages.
    let _ = advised;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_any_size_keep_their_contents() {
        for len in [0, 1, 1000, 3 << 20] {
            let table: Vec<u32> = (0..len).collect();
            advise_huge(&table);
            advise_huge(&table[table.len() / 2..]);
            assert!(table.iter().copied().eq(0..len), "{len}");
        }
    }
}
