//! The kernel's texts zoneinfo, buddyinfo and pagetypeinfo. The parsers read or refuse them without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pageset_fuzz::begin_with;
use pageset_fuzz::recordings::zoneinfos;
use pageset_trace::procfs::{BuddyInfo, PageTypeInfo, Zoneinfo};

fuzz_target!(init: begin_with(zoneinfos()), |bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let _ = Zoneinfo::parse(&text);
    let _ = BuddyInfo::parse(&text);
    let _ = PageTypeInfo::parse(&text);
});
