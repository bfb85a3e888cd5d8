//! `explain`: what a column, a number, a rule or a warning means, and what to do about it.
//!
//! | module | what it contains |
//! | --- | --- |
//! | `terms` | columns, metrics, patterns and words |
//! | `simulated` | columns of simulations, comparisons and benchmarks, and the members of their JSON |
//! | `members` | members of the JSON of recordings, replays, `top` and `advise` that are not columns |
//! | `warnings` | the warnings of a replay |
//! | `rules` | the rules, from `docs/reference/rules.md` |

mod members;
mod rules;
mod simulated;
mod terms;
mod warnings;

use std::io::{self, Write as _};

use schemars::Schema;

use crate::error::{Exit, Failure};
use crate::output;

/// The arguments of `explain`.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub struct Args {
    /// The name to explain, such as `locks/1000 ops`, auto_high or few-samples
    #[arg(value_name = "NAME")]
    name: Vec<String>,

    /// Print the JSON schema of the result of the command NAME; without NAME, list the commands
    #[arg(long)]
    schema: bool,
}

/// The schemas of a program's results.
#[derive(Debug)]
pub struct Schemas {
    /// The names of the results that have a schema.
    pub names: &'static [&'static str],
    /// The schema of a result, by the command's name or by the value of the result's member `schema`.
    pub of: fn(&str) -> Option<Schema>,
}

/// The kind of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Column,
    Metric,
    Pattern,
    Rule,
    Warning,
    Word,
}

impl Kind {
    const ALL: [Kind; 6] = [Kind::Column, Kind::Metric, Kind::Pattern, Kind::Rule, Kind::Warning, Kind::Word];

    const fn name(self) -> &'static str {
        match self {
            Kind::Column => "column",
            Kind::Metric => "metric",
            Kind::Pattern => "pattern",
            Kind::Rule => "rule",
            Kind::Warning => "warning",
            Kind::Word => "word",
        }
    }
}

/// One entry. A part `As NAME.` refers to the same part of the entry NAME.
struct Term {
    kind: Kind,
    name: &'static str,
    /// The meaning, with the unit.
    what: &'static str,
    /// When it is bad; empty if it is never bad by itself.
    bad: &'static str,
    /// What to do if it is bad.
    todo: &'static str,
}

/// Creates an entry.
const fn term(kind: Kind, name: &'static str, what: &'static str, bad: &'static str, todo: &'static str) -> Term {
    Term { kind, name, what, bad, todo }
}

/// The width of an explanation. Unit: characters.
const WIDTH: usize = 96;

impl Term {
    fn text(&self) -> String {
        let mut text = format!("{} ({})\n", self.name, self.kind.name());
        for (head, body) in ["", "bad: ", "to do: "].into_iter().zip(self.resolved()) {
            if !body.is_empty() {
                text += &wrapped(&format!("{head}{body}"));
            }
        }
        text
    }
}

impl Term {
    /// The meaning, when it is bad, and what to do, as written in the table.
    const fn parts(&self) -> [&'static str; 3] {
        [self.what, self.bad, self.todo]
    }

    /// The parts, with each reference such as `As most held.` replaced by the same part of that entry.
    fn resolved(&self) -> [&'static str; 3] {
        let mut parts = self.parts();
        for (place, part) in parts.iter_mut().enumerate() {
            if let Some(term) = referred_to(part).filter(|term| term.name != self.name) {
                *part = term.resolved()[place];
            }
        }
        parts
    }
}

/// The entry that a part refers to: `As most held.`, `As the warning not-made.`
fn referred_to(part: &str) -> Option<&'static Term> {
    named(part.strip_prefix("As ")?.strip_suffix('.')?)
}

/// The entry of a name. A kind may precede the name: `the warning not-made`.
fn named(name: &str) -> Option<&'static Term> {
    let kinds = [("the warning ", Kind::Warning), ("the pattern ", Kind::Pattern)];
    let of_kind = kinds.iter().find_map(|(words, kind)| Some((name.strip_prefix(words)?, *kind)));
    let (name, kind) = of_kind.map_or((name, None), |(name, kind)| (name, Some(kind)));
    terms().find(|term| folded(term.name) == folded(name) && kind.is_none_or(|kind| term.kind == kind))
}

/// A paragraph in lines that begin with two spaces.
fn wrapped(paragraph: &str) -> String {
    let (mut text, mut line) = (String::new(), String::from(" "));
    for word in paragraph.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            text += &line;
            text.push('\n');
            line = String::from(" ");
        }
        line.push(' ');
        line += word;
    }
    text + &line + "\n"
}

fn terms() -> impl Iterator<Item = &'static Term> {
    terms::TERMS.iter().chain(simulated::TERMS).chain(members::TERMS).chain(warnings::TERMS)
}

/// A name for comparison: without case, and with underscores for spaces and hyphens.
fn folded(name: &str) -> String {
    name.trim().trim_matches(['[', ']', '`']).to_lowercase().replace([' ', '-'], "_")
}

/// The entry name for a composed heading: `page faults a second`, `zone p`, `hot 2T`.
fn general(wanted: &str) -> &str {
    if wanted.ends_with("_a_second") {
        return "a_second";
    }
    match wanted.rsplit_once('_') {
        // A published value, and its simulated counterpart.
        Some((of, "p" | "s")) => of,
        Some((_, threads)) if threads.strip_suffix('t').is_some_and(|number| number.parse::<u32>().is_ok()) => {
            "threads"
        }
        _ => wanted,
    }
}

/// All entries of a name as text; empty if there are none.
#[must_use]
pub fn explained(name: &str) -> String {
    let wanted = folded(name);
    let of = |wanted: &str| terms().filter(|term| folded(term.name) == wanted).map(Term::text).collect::<Vec<_>>();
    let mut parts = of(&wanted);
    parts.extend(rules::explained(&wanted));
    if parts.is_empty() {
        parts = of(general(&wanted));
    }
    // The argument may be a whole printed warning.
    if parts.is_empty() {
        let quoted = |term: &&Term| name.contains(&format!("[{}]", term.name));
        parts.extend(terms().filter(|term| term.kind == Kind::Warning).filter(quoted).map(Term::text));
    }
    parts.join("\n")
}

fn names() -> impl Iterator<Item = (Kind, &'static str)> {
    terms().map(|term| (term.kind, term.name)).chain(crate::rules::keys().map(|key| (Kind::Rule, key)))
}

/// A list of all names by kind.
fn listed() -> String {
    let mut text = String::new();
    for kind in Kind::ALL {
        let mut of_kind: Vec<&str> = names().filter(|(k, _)| *k == kind).map(|(_, name)| name).collect();
        of_kind.dedup();
        text += &format!(
            "{}s\n{}",
            kind.name(),
            wrapped(&of_kind.join(", ").replace(' ', "\u{a0}").replace(",\u{a0}", ", "))
        );
    }
    text.replace('\u{a0}', " ")
}

/// Prints the JSON schema of a result. An empty name prints the names of all results.
fn print_schema(schemas: &Schemas, name: &str) -> Result<Exit, Failure> {
    if name.is_empty() {
        writeln!(io::stdout(), "{}", schemas.names.join("\n"))?;
        return Ok(Exit::Done);
    }
    let schema = (schemas.of)(name).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("unknown result `{name}`; allowed: {}", schemas.names.join(", ")))
    })?;
    output::json(io::stdout().lock(), &schema)?;
    Ok(Exit::Done)
}

/// Runs `explain` of a program with these results.
///
/// # Errors
/// The name is unknown.
pub fn run(schemas: &Schemas, args: &Args) -> Result<Exit, Failure> {
    if args.schema {
        return print_schema(schemas, &args.name.join(" "));
    }
    if args.name.is_empty() {
        io::stdout().write_all(listed().as_bytes())?;
        return Ok(Exit::Done);
    }
    let name = args.name.join(" ");
    let text = explained(&name);
    if text.is_empty() {
        let wanted = folded(&name);
        let folded: Vec<(String, &str)> = names().map(|(_, name)| (folded(name), name)).collect();
        let close = crate::rules::closest(&wanted, folded.iter().map(|(name, _)| name.as_str()));
        let printed = |close: &str| folded.iter().find(|(name, _)| name == close).map(|(_, name)| *name);
        let close: Vec<&str> = close.into_iter().filter_map(printed).collect();
        let message = format!("unknown name `{name}`; the closest are {}", close.join(", "));
        return Err(Failure::new(Exit::Usage, message).help("`pageset explain` without a name lists all names"));
    }
    io::stdout().write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_unique_and_complete() {
        let warnings: Vec<_> = pageset_trace::measure::warnings::Name::ALL.iter().map(|name| name.text()).collect();
        for term in terms() {
            assert_eq!(terms().filter(|t| (t.kind, t.name) == (term.kind, term.name)).count(), 1, "{}", term.name);
            assert!(term.what.ends_with('.'), "{}", term.name);
            let is_warning = term.kind == Kind::Warning;
            assert!(!is_warning || warnings.contains(&term.name), "{} is not a warning", term.name);
            assert!(!is_warning || !term.todo.is_empty(), "{} does not say what to do", term.name);
        }
    }

    /// Each reference names an existing entry: `As refills near.`, `As the warning not-made.`
    #[test]
    fn references_name_existing_entries() {
        let mut seen = 0;
        for term in terms() {
            for text in [term.what, term.bad, term.todo] {
                let Some(name) = text.strip_prefix("As ").and_then(|rest| rest.strip_suffix('.')) else { continue };
                let kinds = ["the warnings ", "the warning ", "the pattern ", "the rule "];
                let name = kinds.iter().find_map(|kind| name.strip_prefix(kind)).unwrap_or(name);
                // A sentence, not a reference.
                if name.starts_with("many ") || name.contains([',', ':', ';']) {
                    continue;
                }
                assert!(!explained(name).is_empty(), "{} refers to {name}, which has no entry", term.name);
                seen += 1;
            }
        }
        assert!(seen > 60, "only {seen} references");
    }

    #[test]
    fn references_are_replaced() {
        let near = explained("refills_near_pct");
        assert!(near.contains("to do: ") && near.contains("tenth of the mean distance"), "{near}");
        for term in terms() {
            let resolved = term.resolved();
            assert!(resolved.iter().all(|part| referred_to(part).is_none()), "{}: {resolved:?}", term.name);
        }
    }

    #[test]
    fn names_are_accepted_as_printed() {
        for name in
            ["locks/1000 ops", "LOCKS/1000-OPS", "[few-samples]", "warning: the kernel never drained [few-samples]"]
        {
            assert!(!explained(name).is_empty(), "{name}");
        }
        let high = explained("high");
        assert!(high.contains("high (column)") && high.contains("high (rule)"), "{high}");
        assert_eq!(explained("nothing like it"), "");
    }

    #[test]
    fn composed_headings_have_entries() {
        for (heading, name) in
            [("page faults a second", "a second"), ("zone p", "zone"), ("hot 2T", "threads"), ("LRU s", "LRU")]
        {
            assert!(explained(heading).starts_with(&format!("{name} (column)\n")), "{heading}");
        }
        assert_eq!(explained("hot xT") + &explained("p99 t"), "");
    }

    #[test]
    fn lines_fit() {
        for (_, name) in names() {
            assert!(explained(name).lines().all(|line| line.chars().count() <= 120), "{name}");
        }
    }
}
