//! The descriptions that ship with the crate.

use super::{Machine, MachineError};

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../machines/", $name, ".toml")))),*]
    };
}

/// Names and texts: first the machines of the batch tables, the largest first, then those of the other tables, then current ones.
pub const SHIPPED: &[(&str, &str)] = shipped![
    "lkp-skl-4sp1",
    "lkp-bdw-ex1",
    "lkp-skl-2sp2",
    "lkp-bdw-ep2",
    "lkp-hsw-ep2",
    "xeon-2s40",
    "lkp-wsm-ep2",
    "lkp-skl-d01",
    "lkp-hsw-d01",
    "lkp-sb02",
    "spr-2s224",
    "icx-2s128",
    "csl-2s80",
    "vm-8",
    "epyc-2s512",
    "srf-2s288",
    "graviton4-2s192",
    "spr-2s48",
];

/// The shipped machine with this name; `None` for an unknown name.
pub fn find(name: &str) -> Option<Result<Machine, MachineError>> {
    let (name, text) = SHIPPED.iter().find(|(shipped, _)| *shipped == name)?;
    Some(Machine::parse(&format!("{name}.toml"), text))
}
