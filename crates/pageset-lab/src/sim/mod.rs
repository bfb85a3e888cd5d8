//! Shared by the commands of the simulator: machines by name, common options, and many runs for one result.

pub(crate) mod batch;
pub(crate) mod options;
pub(crate) mod progress;

use std::fs;

use pageset_sim::machine::{self, Machine};

use crate::error::{Exit, Failure};
use crate::rules::suggestion;

/// The machine of this name, or the machine that a .toml file describes.
pub(crate) fn machine(name: &str) -> Result<Machine, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    if name.ends_with(".toml") {
        let text = fs::read_to_string(name)
            .map_err(|error| Failure::new(Exit::Unreadable, format!("cannot read {name}: {error}")))?;
        return Machine::parse(name, &text).map_err(|error| usage(error.to_string()));
    }
    match machine::find(name) {
        Some(found) => found.map_err(|error| usage(error.to_string())),
        None => {
            let names = machine::SHIPPED.iter().map(|(name, _)| *name);
            let message = format!("unknown machine `{name}`{}", suggestion(name, names));
            Err(usage(message).help("`pageset-lab machine list` lists all; a .toml file describes any other machine"))
        }
    }
}
