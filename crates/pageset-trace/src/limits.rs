//! Limits on the values of an event in any form of a recording. They protect readers and users of events from absurd
//! numbers in a hostile file.

use pageset::{CpuId, Pfn};

use crate::event::{Kind, StateChange};

/// CPU numbers are below this: eight times the largest kernel configuration on x86-64. A guess at future needs.
pub const MAX_CPUS: u32 = 1 << 16;

/// Node numbers are below this: 64 times the largest kernel configuration. A guess at future needs.
pub const MAX_NODES: u32 = 1 << 16;

/// The largest order of pageblocks: 13 on arm64 with pages of 64 KiB, where a huge page has 512 MiB. A replay always
/// has pageblocks of order 9, and warns if the recording differs.
pub const MAX_PAGEBLOCK_ORDER: u8 = 13;

/// The largest bulk allocation in pages: 4 GiB in pages of 4 KiB. The largest known caller requests some thousands.
pub const MAX_BULK: u32 = 1 << 20;

/// Page frame numbers are below this: a physical address of 64 bits in pages of 4 KiB.
pub const MAX_PFN: u64 = 1 << 52;

/// The longest tag of a snapshot, in bytes. The recorder's longest, `pagetypeinfo.0`, has 14.
pub const MAX_TAG: usize = 64;

pub(crate) const CPU_ALLOWED: &str = "a CPU number below 65536";
pub(crate) const PFN_ALLOWED: &str = "a page frame number below 2^52, in hexadecimal";
pub(crate) const ORDER_ALLOWED: &str = "an order from 0 to 10";
pub(crate) const NODE_ALLOWED: &str = "-1, or a node number below 65536";
pub(crate) const BULK_ALLOWED: &str = "at most 1048576 pages, and no more taken than asked";
pub(crate) const TAG_ALLOWED: &str = "1 to 64 visible ASCII characters";

pub(crate) fn cpu(number: u64) -> Option<CpuId> {
    if number < u64::from(MAX_CPUS) { Some(CpuId(number as u32)) } else { None }
}

pub(crate) fn pfn(number: u64) -> Option<Pfn> {
    if number < MAX_PFN { Some(Pfn(number)) } else { None }
}

pub(crate) fn tag(bytes: &[u8]) -> Option<&str> {
    let fits = !bytes.is_empty() && bytes.len() <= MAX_TAG && bytes.iter().all(u8::is_ascii_graphic);
    if fits { std::str::from_utf8(bytes).ok() } else { None }
}

/// Checks the values of an event that their types do not limit. An error has the name, the value and the allowed
/// values.
pub(crate) fn check(kind: &Kind) -> Result<(), (&'static str, String, &'static str)> {
    match kind {
        Kind::SnapshotBegin(text) | Kind::SnapshotEnd(text) if tag(text.as_bytes()).is_none() => {
            Err(("tag", format!("{text:?}"), TAG_ALLOWED))
        }
        Kind::BulkAlloc { asked, taken, .. } if *asked > MAX_BULK || taken > asked => {
            Err(("bulk allocation", format!("of {taken} pages out of {asked}"), BULK_ALLOWED))
        }
        Kind::BulkAlloc { node, .. } if *node < -1 || i64::from(*node) >= i64::from(MAX_NODES) => {
            Err(("node", node.to_string(), NODE_ALLOWED))
        }
        Kind::StateChange(StateChange::CpuOffline(number) | StateChange::CpuOnline(number))
            if cpu(number.0.into()).is_none() =>
        {
            Err(("cpu", number.0.to_string(), CPU_ALLOWED))
        }
        Kind::StateChange(
            StateChange::PagesetsOff(page)
            | StateChange::PagesetsOn(page)
            | StateChange::ZoneCounter { zone: page, .. },
        )
        | Kind::Alloc { pfn: Some(page), .. }
        | Kind::Free { pfn: page, .. }
        | Kind::FreeBatched { pfn: page }
        | Kind::ZoneLocked { pfn: page, .. }
        | Kind::Drain { pfn: page, .. }
        | Kind::ExtFrag { pfn: page, .. }
            if pfn(page.0).is_none() =>
        {
            Err(("pfn", page.to_string(), PFN_ALLOWED))
        }
        _ => Ok(()),
    }
}
