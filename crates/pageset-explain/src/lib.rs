//! Reads what people post when memory allocation fails or is slow, and says what is short and why.
//!
//! Modules, bottom to top. Each module uses only the modules above it in this table:
//!
//! | module | contents |
//! | --- | --- |
//! | [`result`] | the result, as JSON has it |
//! | `locks` | which lock a stack waits for |
//! | `read` | readers of the kinds of text |
//! | `zone` | zones in pages, whatever the text prints |
//! | `marks`, `sysctls`, `lists` | the watermark test; settings and marks; per-CPU lists |
//! | `parts` | what one kind of text says: a failure, zones, free blocks, waits |
//! | `text` | the result as text |
//! | [`vocabulary`] | names of functions, sysctls, flags and messages, explained |
#![forbid(unsafe_code)]

mod lists;
mod locks;
mod marks;
mod parts;
mod read;
pub mod result;
mod sysctls;
mod text;
pub mod vocabulary;
mod zone;

use pageset_trace::procfs::ZoneSection;
pub use result::{Explanation, SCHEMA};
pub use text::text;

use crate::zone::{Unit, Zone};

/// Explains texts, each with the name of its file. `None` if no line is of a known kind.
pub fn explain(inputs: &[(&str, &str)]) -> Option<Explanation> {
    parts::explain(&read::read(inputs))
}

/// The pages that each of these zones keeps from ordinary requests: those that may use the zone Normal (`protection`).
pub fn reserves(zones: &[ZoneSection]) -> Vec<u64> {
    let zone = |zone: &ZoneSection| Zone {
        reserve: zone.protection.clone(),
        ..Zone::new(Some(zone.node), &zone.name, Unit::Pages)
    };
    let all: Vec<Zone> = zones.iter().map(zone).collect();
    all.iter().map(|zone| marks::reserve(&all, zone, read::request::Class::Normal).unwrap_or(0)).collect()
}
