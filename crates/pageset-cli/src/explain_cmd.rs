//! `pageset explain`: what a name means, and what a log, a zoneinfo, a buddyinfo or a profile says.

use std::fs;
use std::io::{self, Read as _, Write as _};

use pageset::policy::Preset;
use pageset_explain::vocabulary;
use pageset_fleet::{Fleet, Line};
use pageset_report::{diff, explain};
use schemars::{Schema, schema_for};

use crate::columns::{Fit, grouped};
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{self, JsonOption, WideOption, is_standard};
use crate::status_cmd::{self, Status};
use crate::top_cmd;

/// Explain a name of an output or of the kernel, or say what a log, a zoneinfo or a profile shows
///
/// NAME is a name from any output: a column heading, a metric, a key of --set, a member of JSON, or the word in
/// brackets at the end of a warning; or a function, a sysctl, a flag, a field or a message of the kernel. Without NAME
/// the command lists all names. With --schema it prints the JSON schema of a result.
///
/// A file, several files or - for standard input: what people post when memory is short or slow. A kernel's log with
/// `page allocation failure`, Mem-Info or a soft lockup; zoneinfo, buddyinfo, pagetypeinfo, vmstat, extfrag_index; the
/// text of perf report, perf script, perf top, perf lock; stacks of bpftrace. Parts, prefixes of logs, quotation and
/// other lines between are accepted. A NAME with a slash, or that ends in .txt or .log, is a file unless it is a name of
/// an output, such as auto_high. The first sentence says which zone is short against which mark, whether the memory
/// or the order is missing, what waits in per-CPU lists, and which lock CPUs wait for.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    explain: explain::Args,

    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let names = &args.explain.name;
    // A pipe is a file too.
    let is_file = |name: &String| name == "-" || fs::metadata(name).is_ok_and(|found| !found.is_dir());
    if !args.explain.schema && names.iter().any(is_file) {
        return files(names, &args.json);
    }
    let name = names.join(" ");
    let words = vocabulary::explained(&name, width());
    let is_own = !explain::explained(&SCHEMAS, &name).is_empty();
    let is_folder = words.is_empty() && fs::metadata(&name).is_ok_and(|found| found.is_dir());
    if !args.explain.schema && !is_own && !names.is_empty() && (is_folder || names.iter().all(|name| is_path(name))) {
        return files(names, &args.json);
    }
    if !args.explain.schema
        && !is_own
        && words.is_empty()
        && let Some((release, preset)) = of_release(&name)
    {
        let entry = vocabulary::explained(preset.name, width());
        output::print(&format!("Linux {release} has the rules {}.\n\n{entry}", preset.name))?;
        return Ok(Exit::Done);
    }
    if args.explain.schema || words.is_empty() {
        let others: Vec<&str> = vocabulary::names().collect();
        let exit = explain::run(&SCHEMAS, &args.explain, &others)?;
        if !args.explain.schema && names.is_empty() {
            output::print(&vocabulary::listed(width()))?;
        }
        return Ok(exit);
    }
    output::print(&words)?;
    // A name of our own outputs may be the same.
    if is_own {
        writeln!(io::stdout())?;
        return explain::run(&SCHEMAS, &args.explain, &[]);
    }
    Ok(Exit::Done)
}

/// The kernel whose `uname -r` a name is, with or without `linux-`, and its rules.
fn of_release(name: &str) -> Option<(&str, &'static Preset)> {
    let name = name.trim();
    let has_prefix = name.get(..5).is_some_and(|prefix| prefix.eq_ignore_ascii_case("linux"));
    let release = if has_prefix { name[5..].strip_prefix(['-', ' '])? } else { name };
    let number = release.split(|letter: char| !letter.is_ascii_digit() && letter != '.').next()?;
    Some((release, Preset::find(&format!("linux-{number}"))?))
}

/// The width of the terminal, if standard output is one.
fn width() -> Option<usize> {
    Fit::new(&WideOption::default()).line()
}

/// Whether an argument that no file has can only be meant as a file. A sysctl may have its path.
fn is_path(name: &str) -> bool {
    let has_end = [".txt", ".log"].iter().any(|end| name.ends_with(end));
    let has_folder = name.contains('/') && !name.contains(char::is_whitespace) && !name.starts_with("/proc/sys/");
    has_end || has_folder
}

/// Whether a line is of a kernel's log, as dmesg or syslog print it: it begins with the seconds since boot, `[   12.345678]`, perhaps after
/// `kernel: `.
fn is_logged(line: &str) -> bool {
    let line = line.rsplit_once("kernel: ").map_or(line, |(_, line)| line).trim_start();
    let stamp = line.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(stamp, _)| stamp.trim());
    let parts = stamp.and_then(|stamp| stamp.split_once('.'));
    parts.is_some_and(|(s, us)| [s, us].iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())))
}

/// More than any log or profile that a person reads. Unit: bytes.
const MAX_BYTES: u64 = 256 << 20;

/// Explains files together.
fn files(names: &[String], json: &JsonOption) -> Result<Exit, Failure> {
    let path = json.path()?;
    let mut texts = Vec::new();
    for name in names {
        let input = if name == "-" { "standard input" } else { name };
        let failed = |error| Failure::new(Exit::Unreadable, format!("cannot read {input}: {error}"));
        let mut bytes = Vec::new();
        match name.as_str() {
            "-" => io::stdin().lock().take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?,
            name => fs::File::open(name).map_err(failed)?.take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?,
        };
        if bytes.iter().take(4096).any(|byte| *byte == 0) {
            let message = format!("cannot explain {input}: it is not text");
            let help = format!("`pageset trace info {name}` reads recordings");
            return Err(Failure::new(Exit::Damaged, message).help(help));
        }
        if bytes.trim_ascii().is_empty() {
            let message = format!("cannot explain {input}: it is empty");
            return Err(Failure::new(Exit::Damaged, message).help("use a file with text, such as the output of dmesg"));
        }
        texts.push((name.as_str(), String::from_utf8_lossy(&bytes).into_owned()));
    }
    let inputs: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let Some(found) = pageset_explain::explain(&inputs) else {
        let lines = |text: &str| text.lines().filter(|line| !line.trim().is_empty()).count();
        let logged = |text: &str| text.lines().filter(|line| is_logged(line)).count();
        // There is nothing to write as JSON.
        if path.is_none() && inputs.iter().all(|(_, text)| 2 * logged(text) > lines(text)) {
            let all = inputs.iter().map(|(_, text)| lines(text) as u64).sum();
            let lines = if all == 1 { "line" } else { "lines" };
            let answer = format!(
                "Nothing found: {} {lines} of a kernel's log, and none that this command knows is of a failed allocation, a stall \
                 or a process killed for memory.\n\nnext:\n  see whether memory is short, or CPUs wait for zone locks now\n      \
                 $ sudo pageset top\n",
                grouped(all)
            );
            output::print(&Fit::new(&WideOption::default()).prose(&answer))?;
            return Ok(Exit::Done);
        }
        let names: Vec<&str> = names.iter().map(|name| if name == "-" { "standard input" } else { name }).collect();
        let message = format!("cannot explain {}: no line is of a kind that this command knows", names.join(" "));
        let help = "use a kernel's log with Mem-Info, zoneinfo, buddyinfo, pagetypeinfo, vmstat, extfrag_index, perf or bpftrace text";
        return Err(Failure::new(Exit::Damaged, message).help(help));
    };
    if !path.is_some_and(is_standard) {
        output::print(&pageset_explain::text(&found, width()))?;
    }
    path.map_or(Ok(Exit::Done), |path| output::write_json(path, &[found], &Interrupt::at_once()?))
}

/// The results of this program.
const SCHEMAS: explain::Schemas = explain::Schemas { names: &NAMES, of };

/// The names of the results that have a schema.
const NAMES: [&str; 11] =
    ["status", "replay", "identify", "advise", "advise set", "trace info", "diff", "top", "agent", "fleet", "explain"];

/// The schema of a result, by the command's name or by the value of the result's member `schema`.
fn of(name: &str) -> Option<Schema> {
    Some(match name {
        "status" | status_cmd::SCHEMA => schema_for!(Status),
        "diff" | diff::SCHEMA => schema_for!(diff::Diff),
        "top" => top_cmd::schema().1,
        "agent" | Line::SCHEMA => schema_for!(Line),
        "fleet" | Fleet::SCHEMA => schema_for!(Fleet),
        "explain" | pageset_explain::SCHEMA => schema_for!(pageset_explain::Explanation),
        _ => {
            let asked = name.replace(' ', "-");
            let is_asked = |of: &str| {
                of == name || of.strip_prefix("pageset.").and_then(|of| of.split('/').next()) == Some(&asked)
            };
            pageset_trace::schemas().into_iter().chain([top_cmd::schema()]).find(|(of, _)| is_asked(of))?.1
        }
    })
}

#[cfg(test)]
mod tests {
    use pageset_report::explain::{explained, faults};

    use super::SCHEMAS;

    /// Each name that the command prints has an entry: column headings, rules, warnings.
    #[test]
    fn every_printed_name_has_an_entry() {
        assert_eq!(faults(&SCHEMAS), Vec::<String>::new());
        let columns = crate::trace_cmd::columns().chain(crate::advise_cmd::names()).chain(pageset_report::diff::HEADS);
        let warnings = pageset_trace::measure::warnings::Name::ALL.iter().map(|name| name.text());
        let warnings = warnings.chain(pageset_trace::verdict::machine::KEYS);
        let names = columns.chain(warnings).chain(crate::rules::keys()).map(str::to_owned);
        let mut seen = 0;
        for name in names.chain(crate::top_cmd::names()) {
            assert!(!explained(&SCHEMAS, &name).is_empty(), "{name} is printed but has no entry");
            seen += 1;
        }
        assert!(seen > 80, "only {seen} names");
    }
}
