//! What the commands of the simulator share: machines by name, numbers of the command line, many runs for one result.

pub(crate) mod batch;
pub(crate) mod options;
pub(crate) mod progress;

use std::fs;

use pageset_sim::machine::{self, Machine};

use crate::error::{Exit, Failure};

/// The machine of this name, or that of a description whose name ends in .toml.
///
/// # Errors
/// Usage: there is none, or the description says something that cannot be.
pub(crate) fn machine(name: &str) -> Result<Machine, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    if name.ends_with(".toml") {
        let text = fs::read_to_string(name).map_err(|error| usage(format!("{name}: {error}")))?;
        return Machine::parse(name, &text).map_err(|error| usage(error.to_string()));
    }
    match machine::find(name) {
        Some(found) => found.map_err(|error| usage(error.to_string())),
        None => {
            let names: Vec<&str> = machine::SHIPPED.iter().map(|(name, _)| *name).collect();
            let allowed = names.join(", ");
            let message = format!("there is no machine {name}; allowed: {allowed}, or a file whose name ends in .toml");
            Err(usage(message).help("pageset machine list says what each is"))
        }
    }
}
