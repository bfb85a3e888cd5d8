//! Shell completions that know rules, machines and workloads.
//!
//! Recordings and other files are completed as paths: the definition of the command line says which arguments are files.

use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use pageset::policy::PRESETS;
use pageset_sim::machine::SHIPPED;
use pageset_sim::workload::WORKLOADS;

/// The script for a shell.
pub(crate) fn script(command: clap::Command, shell: Shell) -> Vec<u8> {
    let mut command = with_names(command);
    // The generator panics on an output that fails, so it writes to memory.
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "pageset", &mut text);
    text
}

/// The definition with the names that an argument may have. It is for completions only: a file is allowed as well.
fn with_names(command: clap::Command) -> clap::Command {
    let names = |argument: &clap::Arg| -> Option<Vec<&'static str>> {
        match argument.get_id().as_str() {
            "rules" => Some(["kernel", "all"].into_iter().chain(PRESETS.iter().map(|preset| preset.name)).collect()),
            "machine" => Some(SHIPPED.iter().map(|(name, _)| *name).collect()),
            "workload" => Some(WORKLOADS.iter().map(|workload| workload.name).chain(["trace"]).collect()),
            _ => None,
        }
    };
    let named = command.mut_args(|argument| match names(&argument) {
        Some(names) => argument.value_parser(PossibleValuesParser::new(names)).hide_possible_values(true),
        None => argument,
    });
    named.mut_subcommands(with_names)
}
