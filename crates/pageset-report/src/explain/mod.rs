//! `explain`: what a column, a number, a rule or a warning means, and what to do about it.
//!
//! `terms.toml` has patterns, words, warnings, and columns that no field is. The module `rules` has the rules, from
//! `docs/reference/rules.md`.

mod rules;

use std::collections::HashSet;
use std::io::{self, Write as _};

use pageset_columns::{Column, members};
use schemars::Schema;
use serde::Deserialize;

use crate::columns::Fit;
use crate::error::{Exit, Failure};
use crate::output::{self, WideOption};

/// The arguments of `explain`.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub struct Args {
    /// The name to explain, such as the heading of a column, auto_high or few-samples
    #[arg(value_name = "NAME")]
    pub name: Vec<String>,

    /// Print the JSON schema of the result of the command NAME; without NAME, list the commands
    #[arg(long)]
    pub schema: bool,
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
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Column,
    Metric,
    Pattern,
    Rule,
    Verdict,
    Warning,
    Word,
}

impl Kind {
    const ALL: [Kind; 7] =
        [Kind::Column, Kind::Metric, Kind::Pattern, Kind::Rule, Kind::Verdict, Kind::Warning, Kind::Word];

    const fn name(self) -> &'static str {
        match self {
            Kind::Column => "column",
            Kind::Metric => "metric",
            Kind::Pattern => "pattern",
            Kind::Rule => "rule",
            Kind::Verdict => "verdict",
            Kind::Warning => "warning",
            Kind::Word => "word",
        }
    }
}

/// One entry. A part `As NAME.` refers to the same part of the entry NAME.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Term {
    kind: Kind,
    name: String,
    /// The meaning, with the unit.
    what: String,
    /// When it is bad; empty if it is never bad by itself.
    #[serde(default)]
    bad: String,
    /// What to do if it is bad.
    #[serde(default)]
    todo: String,
}

impl Term {
    fn parts(&self) -> [&str; 3] {
        [&self.what, &self.bad, &self.todo]
    }
}

/// The entries of `terms.toml`.
fn written() -> Vec<Term> {
    #[derive(Deserialize)]
    struct File {
        term: Vec<Term>,
    }
    toml::from_str::<File>(include_str!("terms.toml")).expect("a test reads terms.toml").term
}

/// The width of an explanation where no other is known. Unit: characters.
const WIDTH: usize = 96;

/// All entries of a program: those of its columns, from the schemas of its results, and the written ones.
struct Dictionary {
    terms: Vec<Term>,
    /// Of lines. Unit: characters.
    width: usize,
}

impl Dictionary {
    fn new(schemas: &Schemas, width: Option<usize>) -> Dictionary {
        let mut all = written();
        for column in schemas.names.iter().filter_map(|name| (schemas.of)(name)).flat_map(|schema| members(&schema)) {
            all.extend(of_column(&column));
        }
        // A name that has a sentence of its own needs no reference to another.
        let is_reference = |term: &Term| term.what.starts_with("As ");
        let own: HashSet<String> =
            all.iter().filter(|term| !is_reference(term)).map(|term| folded(&term.name)).collect();
        let mut seen = HashSet::new();
        all.retain(|term| {
            !(is_reference(term) && own.contains(&folded(&term.name)))
                && seen.insert((term.kind, folded(&term.name), term.what.clone()))
        });
        Dictionary { terms: all, width: width.unwrap_or(WIDTH) }
    }

    /// The entries of a name. A kind may precede the name: `the warning not-made`.
    fn named(&self, name: &str) -> impl Iterator<Item = &Term> {
        let kinds = [("the warning ", Kind::Warning), ("the pattern ", Kind::Pattern)];
        let of_kind = kinds.iter().find_map(|(words, kind)| Some((name.strip_prefix(words)?, *kind)));
        let (name, kind) = of_kind.map_or((name, None), |(name, kind)| (name, Some(kind)));
        let name = folded(name);
        self.terms.iter().filter(move |term| folded(&term.name) == name && kind.is_none_or(|kind| term.kind == kind))
    }

    /// A part of an entry. A reference such as `As most held.` is replaced by the same part of that entry.
    fn part<'d>(&'d self, term: &'d Term, place: usize) -> &'d str {
        let part = term.parts()[place];
        let Some(name) = part.strip_prefix("As ").and_then(|rest| rest.strip_suffix('.')) else { return part };
        let mut named = self.named(name).filter(|other| folded(&other.name) != folded(&term.name)).peekable();
        if named.peek().is_none() {
            return part;
        }
        named.map(|other| self.part(other, place)).find(|part| !part.is_empty()).unwrap_or_default()
    }

    fn text(&self, term: &Term) -> String {
        let mut text = format!("{} ({})\n", term.name, term.kind.name());
        for (place, head) in ["", "bad: ", "to do: "].into_iter().enumerate() {
            let body = self.part(term, place);
            if !body.is_empty() {
                text += &wrapped(&format!("{head}{body}"), self.width);
            }
        }
        text
    }

    /// All entries of a name as text; empty if there are none.
    fn explained(&self, name: &str) -> String {
        let wanted = folded(name);
        let of = |wanted: &str| {
            self.terms
                .iter()
                .filter(|term| folded(&term.name) == wanted)
                .map(|term| self.text(term))
                .collect::<Vec<_>>()
        };
        let mut parts = of(&wanted);
        parts.extend(rules::explained(&wanted, self.width));
        if parts.is_empty() {
            parts = of(general(&wanted));
        }
        // The argument may be a whole printed warning.
        if parts.is_empty() {
            let quoted = |term: &&Term| name.contains(&format!("[{}]", term.name));
            let warnings = self.terms.iter().filter(|term| term.kind == Kind::Warning);
            parts.extend(warnings.filter(quoted).map(|term| self.text(term)));
        }
        parts.join("\n")
    }

    fn names(&self) -> impl Iterator<Item = (Kind, &str)> {
        let rules = crate::rules::keys().map(|key| (Kind::Rule, key));
        self.terms.iter().map(|term| (term.kind, &*term.name)).chain(rules)
    }

    /// A list of all names by kind.
    fn listed(&self) -> String {
        let mut text = String::new();
        for kind in Kind::ALL {
            let mut seen = HashSet::new();
            let of_kind = self.names().filter(|(k, name)| *k == kind && seen.insert(folded(name)));
            let names = of_kind.map(|(_, name)| name.replace(' ', "\u{a0}")).collect::<Vec<_>>().join(", ");
            text += &format!("{}s\n{}", kind.name(), wrapped(&names, self.width));
        }
        text.replace('\u{a0}', " ")
    }
}

/// The entries of a column: by key, by heading, and as a metric. The heading of a column that another one explains is
/// left to that one.
fn of_column(column: &Column) -> Vec<Term> {
    let is_other = folded(&column.like) == folded(&column.heading);
    let like = |part: &String| match column.like.as_str() {
        name if part.is_empty() && !name.is_empty() => format!("As {name}."),
        _ => part.clone(),
    };
    // A link of rustdoc is a name.
    let what = column.what.replace("[`", "`").replace("`]", "`");
    let what = if is_other { like(&String::new()) } else { what };
    let (bad, todo) = (like(&column.bad), like(&column.todo));
    let mut names = vec![(Kind::Column, column.key()), (Kind::Column, &column.heading), (Kind::Metric, &column.metric)];
    names.dedup_by_key(|(_, name)| folded(name));
    names.retain(|(_, name)| !(name.is_empty() || is_other && folded(name) == folded(&column.like)));
    let term = |(kind, name): (Kind, &str)| Term {
        kind,
        name: name.to_owned(),
        what: what.clone(),
        bad: bad.clone(),
        todo: todo.clone(),
    };
    names.into_iter().map(term).collect()
}

/// A paragraph in lines of `width` characters that begin with two spaces.
fn wrapped(paragraph: &str, width: usize) -> String {
    let (mut text, mut line) = (String::new(), String::from(" "));
    for word in paragraph.split_ascii_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > width {
            text += &line;
            text.push('\n');
            line = String::from(" ");
        }
        line.push(' ');
        line += word;
    }
    text + &line + "\n"
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
pub fn explained(schemas: &Schemas, name: &str) -> String {
    Dictionary::new(schemas, None).explained(name)
}

/// What is wrong with a program's entries: a column without a sentence, or a reference to no entry. For tests.
pub fn faults(schemas: &Schemas) -> Vec<String> {
    let (dictionary, mut faults) = (Dictionary::new(schemas, None), Vec::new());
    for term in &dictionary.terms {
        if !term.what.ends_with('.') {
            faults.push(format!("{} has no sentence: {}", term.name, term.what));
        }
        for part in (0..3).map(|place| dictionary.part(term, place)) {
            let name = part.strip_prefix("As ").and_then(|rest| rest.strip_suffix('.'));
            // Else a sentence.
            if name.is_some_and(|name| !name.starts_with("many ") && !name.contains([',', ':', ';'])) {
                faults.push(format!("{} refers to no entry: {part}", term.name));
            }
        }
    }
    faults
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

/// Runs `explain` of a program with these results. The suggestions for an unknown name include `others`. The lines are as wide as the
/// terminal.
pub fn run(schemas: &Schemas, args: &Args, others: &[&str]) -> Result<Exit, Failure> {
    if args.schema {
        return print_schema(schemas, &args.name.join(" "));
    }
    let dictionary = Dictionary::new(schemas, Fit::new(&WideOption::default()).line());
    if args.name.is_empty() {
        io::stdout().write_all(dictionary.listed().as_bytes())?;
        return Ok(Exit::Done);
    }
    let name = args.name.join(" ");
    if name.trim().is_empty() {
        let help = "`explain` without a name lists all names";
        return Err(Failure::new(Exit::Usage, "cannot explain an empty name").help(help));
    }
    let text = dictionary.explained(&name);
    if text.is_empty() {
        let wanted = folded(&name);
        let folded: Vec<(String, &str)> = dictionary
            .names()
            .map(|(_, name)| name)
            .chain(others.iter().copied())
            .map(|name| (folded(name), name))
            .collect();
        let close = crate::rules::closest(&wanted, folded.iter().map(|(name, _)| name.as_str()));
        let printed = |close: &str| folded.iter().find(|(name, _)| name == close).map(|(_, name)| *name);
        let close: Vec<&str> = close.into_iter().filter_map(printed).collect();
        let message = format!("unknown name `{name}`; the closest are {}", close.join(", "));
        return Err(Failure::new(Exit::Usage, message).help("`explain` without a name lists all names"));
    }
    io::stdout().write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMAS: Schemas = Schemas {
        names: &["pageset.replay/1", "pageset.trace-info/1"],
        of: |name| Some(pageset_trace::schemas().into_iter().find(|(of, _)| *of == name)?.1),
    };

    #[test]
    fn entries_are_complete() {
        assert_eq!(faults(&SCHEMAS), Vec::<String>::new());
        let warnings: Vec<_> = pageset_trace::measure::warnings::Name::ALL.iter().map(|name| name.text()).collect();
        for term in written().iter().filter(|term| term.kind == Kind::Warning) {
            assert!(warnings.contains(&&*term.name), "{} is not a warning", term.name);
            assert!(!term.todo.is_empty(), "{} does not say what to do", term.name);
        }
    }

    /// A column is declared next to its field only. The exception is a kind of events that has the name of a field.
    #[test]
    fn columns_are_not_written_again() {
        let columns: Vec<Column> =
            SCHEMAS.names.iter().flat_map(|name| members(&(SCHEMAS.of)(name).unwrap())).collect();
        let names: HashSet<String> = columns.iter().flat_map(|of| [folded(of.key()), folded(&of.heading)]).collect();
        let written = written().into_iter().filter(|term| term.kind == Kind::Column).map(|term| term.name);
        let again: Vec<String> = written.filter(|name| names.contains(&folded(name))).collect();
        assert_eq!(again, ["free"]);
    }

    #[test]
    fn references_are_replaced() {
        let near = explained(&SCHEMAS, "drains_near_pct");
        assert!(near.contains("to do: Read the warnings") && near.contains("The same share"), "{near}");
        let [held, key] = ["most held", "held_pages_max"].map(|name| explained(&SCHEMAS, name));
        assert!(held.contains("held together") && key.contains("Unit: pages."), "{held}{key}");
    }

    #[test]
    fn names_are_accepted_as_printed() {
        for name in
            ["locks/1000 ops", "LOCKS/1000-OPS", "[few-samples]", "warning: the kernel never drained [few-samples]"]
        {
            assert!(!explained(&SCHEMAS, name).is_empty(), "{name}");
        }
        let high = explained(&SCHEMAS, "high");
        assert!(high.contains("high (column)") && high.contains("high (rule)"), "{high}");
        assert_eq!(explained(&SCHEMAS, "nothing like it"), "");
    }

    #[test]
    fn composed_headings_have_entries() {
        for (heading, name) in [("page faults a second", "a second (column)"), ("zone p", "zone (word)")] {
            assert!(explained(&SCHEMAS, heading).starts_with(name), "{heading}");
        }
        assert_eq!(explained(&SCHEMAS, "hot xT") + &explained(&SCHEMAS, "p99 t"), "");
    }

    #[test]
    fn lines_fit() {
        let dictionary = Dictionary::new(&SCHEMAS, None);
        for term in &dictionary.terms {
            assert!(dictionary.text(term).lines().all(|line| line.chars().count() <= 120), "{}", term.name);
        }
    }
}
