//! Shell completions that know rules, machines and workloads.
//!
//! Recordings and other files are completed as paths: the definition of the command line says which arguments are files.
//! An argument that takes names or a .toml file is completed as both. The generator knows one or the other, so such a list
//! of names contains `FILES`, which each shell's script then replaces.

use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use pageset::policy::PRESETS;

use crate::program::Program;

/// Stands for the .toml files in a list of names.
const FILES: &str = "@toml@";

/// The script for a shell.
pub fn script(program: &Program, command: clap::Command, shell: Shell) -> Vec<u8> {
    let files = matches!(shell, Shell::Bash | Shell::Zsh | Shell::Fish);
    let mut command = with_names(program, command, files);
    // The generator panics on an output that fails, so it writes to memory.
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, program.name, &mut text);
    match String::from_utf8(text) {
        // The generator writes a hyphen in the program's name in two ways, so that its script finds no subcommand.
        Ok(text) if shell == Shell::Bash => {
            let [one, other] = ["__subcmd__", "__"].map(|hyphen| program.name.replace('-', hyphen));
            with_files(&text.replace(&one, &other), shell).into_bytes()
        }
        Ok(text) => with_files(&text, shell).into_bytes(),
        Err(error) => error.into_bytes(),
    }
}

fn with_files(script: &str, shell: Shell) -> String {
    let list = format!(" {FILES}");
    match shell {
        // Words that may follow options are no place for files; `complete -o default` offers them there.
        Shell::Bash => script
            .replace(
                &format!("{list}\" -- \"${{cur}}\"))"),
                "\" -- \"${cur}\") $(compgen -f -X '!*.toml' -- \"${cur}\"))",
            )
            .replace(&list, ""),
        Shell::Zsh => script.lines().map(|line| zsh_line(line) + "\n").collect(),
        Shell::Fish => script.replace(&format!("\n{FILES}\\t''\""), "\n(__fish_complete_suffix .toml)\""),
        _ => script.to_owned(),
    }
}

/// A line of zsh: the list `(A B @toml@)` becomes an action that offers the names and the files.
fn zsh_line(line: &str) -> String {
    let listed = line.split_once(&format!(" {FILES})")).and_then(|(before, after)| {
        let (before, names) = before.rsplit_once('(')?;
        Some(format!(
            "{before}{{_alternative \"names\\:name\\:({names})\" \"files\\:file\\:_files -g \\*.toml\"}}{after}"
        ))
    });
    listed.unwrap_or_else(|| line.to_owned())
}

/// The definition with the names that an argument may have, and with [`FILES`] where `files` and a .toml file is allowed. It is
/// for completions only.
fn with_names(program: &Program, command: clap::Command, files: bool) -> clap::Command {
    let names = |argument: &clap::Arg| -> Option<Vec<&'static str>> {
        match argument.get_id().as_str() {
            "rules" => Some(["kernel", "all"].into_iter().chain(PRESETS.iter().map(|preset| preset.name)).collect()),
            other => (program.names)(other),
        }
    };
    // The help says where a file is allowed.
    let takes_files = |argument: &clap::Arg| argument.get_help().is_some_and(|help| help.to_string().contains(".toml"));
    let named = command.mut_args(|argument| match names(&argument) {
        Some(mut names) => {
            if files && (argument.get_id() == "rules" || takes_files(&argument)) {
                names.push(FILES);
            }
            argument.value_parser(PossibleValuesParser::new(names)).hide_possible_values(true)
        }
        None => argument,
    });
    named.mut_subcommands(|command| with_names(program, command, files))
}
