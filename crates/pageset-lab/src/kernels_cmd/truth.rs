//! The table `docs/truth.csv`: which recordings are within limits at which level.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use pageset_trace::replay::agreement::{Deviation, LIMITS};
use serde::Deserialize;

use super::definition::{Lab, matches};
use super::guest::Ended;
use super::replay::{LEVELS, Outcome};

/// `explained.toml`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Explained {
    #[serde(default)]
    explained: Vec<Mechanism>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mechanism {
    recordings: Vec<String>,
    level: String,
    why: String,
}

impl Explained {
    pub(super) fn parse(text: &str) -> Result<Explained, String> {
        toml::from_str(text).map_err(|e| e.to_string())
    }

    fn why(&self, recording: &str, level: &str) -> Option<&str> {
        let fits = |m: &&Mechanism| {
            m.recordings.iter().any(|pattern| matches(pattern, recording, |_| true))
                && matches(&m.level, level, |_| true)
        };
        self.explained.iter().find(fits).map(|mechanism| mechanism.why.as_str())
    }
}

/// All results by name: how each boot ended, and the outcome of each recording.
pub(super) struct Results<'l> {
    pub(super) lab: &'l Lab,
    pub(super) boots: BTreeMap<String, Ended>,
    pub(super) outcomes: BTreeMap<String, Outcome>,
    pub(super) explained: Explained,
}

/// How many of some recordings are within limits at each level.
#[derive(Default, Clone, Copy)]
struct Count {
    within: [usize; 2],
    of: usize,
}

impl Count {
    fn add(&mut self, outcome: &Outcome) {
        self.of += 1;
        for (within, level) in self.within.iter_mut().zip(LEVELS) {
            *within += usize::from(outcome.out_of_limits(level).is_some_and(|out| out.is_empty()));
        }
    }
}

/// The kernel, machine and workload in a recording's name. The name of a kernel may contain dots.
fn parts(recording: &str) -> (&str, &str, &str) {
    let (rest, workload) = recording.rsplit_once('.').unwrap_or((recording, ""));
    let (kernel, machine) = rest.rsplit_once('.').unwrap_or((rest, ""));
    (kernel, machine, workload)
}

/// The difference between a replay and the kernel in percent, or as a count if the number of the kernel is 0.
fn deviation(kernel: u64, replay: u64) -> String {
    if kernel == 0 {
        return format!("+{replay}");
    }
    format!("{:+.1} %", (replay as f64 - kernel as f64) * 100.0 / kernel as f64)
}

impl Results<'_> {
    fn count(&self, chosen: impl Fn(&str) -> bool) -> Count {
        let mut count = Count::default();
        self.outcomes.iter().filter(|(name, _)| chosen(name)).for_each(|(_, outcome)| count.add(outcome));
        count
    }

    /// A line for each recording, and for each planned recording or boot that is missing.
    pub(super) fn csv(&self) -> String {
        let mut text =
            "recording,rules,events,refill_pages,refills,drain_pages,drains,input,reconstructed,input_out,input_why,\
                        reconstructed_out,reconstructed_why,presets_within,gap\n"
                .to_owned();
        let gaps = self.gaps();
        let names: BTreeSet<&String> = self.outcomes.keys().chain(gaps.keys()).collect();
        for name in names {
            let mut cells = vec![name.clone()];
            match self.outcomes.get(name) {
                Some(outcome) => cells.extend(self.cells(name, outcome)),
                None => cells.resize(14, String::new()),
            }
            cells.push(gaps.get(name).cloned().unwrap_or_default());
            line(&mut text, &cells);
        }
        text
    }

    /// What a line has of an outcome, from the rules on.
    fn cells(&self, name: &str, outcome: &Outcome) -> Vec<String> {
        let of = &outcome.kernel;
        let numbers = [outcome.events, of.refill_pages, of.refills, of.drain_pages, of.drains];
        let mut cells = vec![outcome.rules.clone()];
        cells.extend(numbers.map(|number| number.to_string()));
        cells.extend(LEVELS.map(|level| verdict(outcome, level).to_owned()));
        for level in LEVELS {
            let out = outcome.out_of_limits(level).unwrap_or_default();
            let why = if out.is_empty() { "" } else { self.explained.why(name, level).unwrap_or("not explained") };
            let out = out.into_iter().map(|Deviation { limit, kernel, replay }| {
                format!("{} {kernel} as {replay} ({})", limit.quantity.name(), deviation(kernel, replay))
            });
            cells.extend([out.collect::<Vec<_>>().join("; "), why.to_owned()]);
        }
        let within = outcome.levels.get(LEVELS[0]).map(|found| found.others_within.join(" "));
        cells.push(within.unwrap_or_default());
        cells
    }

    /// How many recordings are within limits, for each kernel, machine and workload, and in all.
    pub(super) fn summary(&self) -> String {
        let mut text = format!(
            "{:<16} {:>10} {:>13} {:>10}  what\n",
            "within limits", "input only", "reconstructed", "recordings"
        );
        let mut row = |name: &str, Count { within: [input, reconstructed], of }: Count, what: &str| {
            let _ = writeln!(text, "{name:<16} {input:>10} {reconstructed:>13} {of:>10}  {what}");
        };
        for kernel in &self.lab.kernels {
            let mut boots = self.boots.iter().filter(|(name, _)| parts(&format!("{name}.")).0 == kernel.name);
            let release = boots.find_map(|(_, ended)| ended.release.as_deref()).unwrap_or("did not boot");
            row(&kernel.name, self.count(|name| parts(name).0 == kernel.name), release);
        }
        for machine in &self.lab.machines {
            row(&machine.name, self.count(|name| parts(name).1 == machine.name), &machine.what);
        }
        for workload in &self.lab.workloads {
            row(&workload.name, self.count(|name| parts(name).2 == workload.name), &workload.what);
        }
        let all = self.count(|_| true);
        let share = |within: usize| if all.of == 0 { 0.0 } else { within as f64 * 100.0 / all.of as f64 };
        let [input, reconstructed] = all.within.map(share);
        row("all", all, &format!("{input:.1} % and {reconstructed:.1} %"));
        let limits = LIMITS.map(|limit| format!("{} {} % or {}", limit.quantity.name(), limit.pct, limit.floor));
        let _ = writeln!(text, "limits: {}", limits.join(", "));
        text
    }

    /// Planned recordings and boots that are missing or incomplete, and why.
    fn gaps(&self) -> BTreeMap<String, String> {
        let mut gaps = BTreeMap::new();
        for boot in self.lab.boots() {
            let (name, ended) = (boot.name(), self.boots.get(&boot.name()));
            let failed = ended.map_or(Some("it was not booted"), |ended| ended.failed.as_deref());
            gaps.extend(failed.map(|reason| (name.clone(), reason.to_owned())));
            for workload in self.lab.workloads(boot) {
                let ran = ended.and_then(|ended| ended.workloads.get(&workload.name));
                let recording = format!("{name}.{}", workload.name);
                let reason = match (self.outcomes.get(&recording).map(|outcome| &outcome.error), ran) {
                    (Some(Some(error)), _) => error.clone(),
                    (Some(None), Some((0, _))) => continue,
                    (Some(None), _) => "the workload failed or took too long; what was recorded is kept".into(),
                    (None, Some((code, note))) => format!("exit code {code}: {note}"),
                    (None, None) if failed.is_some() => continue,
                    (None, None) => "it did not run".into(),
                };
                gaps.insert(recording, reason);
            }
        }
        gaps
    }
}

/// Whether a recording is within limits at a level.
fn verdict(outcome: &Outcome, level: &str) -> &'static str {
    match outcome.out_of_limits(level) {
        None => "no replay",
        Some(out) if out.is_empty() => "in",
        Some(_) => "out",
    }
}

/// Adds a line. Cells with a comma, a quote or a line break are quoted.
pub(super) fn line(text: &mut String, cells: &[String]) {
    let quoted = |cell: &String| {
        if cell.contains([',', '"', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.clone() }
    };
    *text += &cells.iter().map(quoted).collect::<Vec<_>>().join(",");
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels_cmd::replay::Level;
    use pageset_trace::replay::Totals;

    const LAB: &str = "suites=[]\nkernel=[{name='6.1-a',image='i'},{name='6.2-a',image='i'}]\n\
        machine=[{name='m',what='1 CPU',cpus=1,memory='1G'},{name='n',what='2 CPUs',cpus=2,memory='1G'}]\n\
        workload=[{name='pf',what='page faults',command='c'},{name='sock',what='a stream',command='c'}]\n\
        boot=[{kernels=['*'],machines=['m']},{kernels=['6.1-a'],machines=['n']}]";
    const EXPLAINED: &str = "[[explained]]\nrecordings = ['6.1-*.sock']\nlevel = 'input'\nwhy = 'Bulk allocations.'\n";

    fn outcome(input_drains: u64, others: &[&str]) -> Outcome {
        let kernel = Totals { refill_pages: 5000, refills: 100, drain_pages: 900, drains: 20 };
        let level = |drains| Level {
            replay: Totals { drains, ..kernel },
            others_within: others.iter().map(|&name| name.into()).collect(),
            others_out: vec!["linux-4.16".into()],
            warnings: Vec::new(),
        };
        let levels = [("input".into(), level(input_drains)), ("reconstructed".into(), level(20))].into();
        Outcome { kernel, rules: "linux-6.1".into(), events: 1234, levels, error: None }
    }

    #[test]
    fn golden() {
        let lab = Lab::parse(LAB).unwrap();
        let ran = |codes: &[(&str, i32)]| Ended {
            release: Some("6.1.0-56-a".into()),
            workloads: codes.iter().map(|&(name, code)| (name.into(), (code, "no such device".into()))).collect(),
            ..Ended::default()
        };
        let mut unreadable = outcome(20, &[]);
        (unreadable.levels, unreadable.error) = (BTreeMap::new(), Some("cannot parse".into()));
        let panic = Ended { failed: Some("Kernel panic".into()), ..Ended::default() };
        let results = Results {
            lab: &lab,
            boots: [
                ("6.1-a.m".into(), ran(&[("pf", 0), ("sock", 0)])),
                ("6.1-a.n".into(), ran(&[("pf", 0), ("sock", 1)])),
                ("6.2-a.m".into(), panic),
            ]
            .into(),
            outcomes: [
                ("6.1-a.m.pf".into(), outcome(20, &["linux-6.2"])),
                ("6.1-a.m.sock".into(), outcome(57, &[])),
                ("6.1-a.n.pf".into(), unreadable),
            ]
            .into(),
            explained: Explained::parse(EXPLAINED).unwrap(),
        };
        let (text, golden) = (results.csv(), concat!(env!("CARGO_MANIFEST_DIR"), "/src/kernels_cmd/golden.csv"));
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(golden, &text).unwrap();
        }
        let expected = std::fs::read_to_string(golden).unwrap_or_default();
        assert!(text == expected, "the text differs from {golden}; try BLESS=1 and look at the difference:\n{text}");
        let summary = results.summary();
        let lines: Vec<_> = summary.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for line in [
            "6.1-a 1 2 3 6.1.0-56-a",
            "6.2-a 0 0 0 did not boot",
            "n 0 0 1 2 CPUs",
            "pf 1 1 2 page faults",
            "sock 0 1 1 a stream",
            "all 1 2 3 33.3 % and 66.7 %",
            "limits: refill pages 2 % or 128, refills 5 % or 2, drain pages 6 % or 256, drains 10 % or 3",
        ] {
            assert!(lines.iter().any(|shown| shown == line), "{line} is not in\n{summary}");
        }
    }

    #[test]
    fn cells_with_commas_and_quotes_are_quoted() {
        let mut text = String::new();
        line(&mut text, &["a".into(), "b, \"c\"".into(), String::new()]);
        assert_eq!(text, "a,\"b, \"\"c\"\"\",\n");
    }

    #[test]
    fn names_and_differences() {
        assert_eq!(parts("6.1-amd64.4cpu.pf1"), ("6.1-amd64", "4cpu", "pf1"));
        assert_eq!(
            (deviation(295, 613), deviation(200, 100), deviation(0, 7)),
            ("+107.8 %".into(), "-50.0 %".into(), "+7".into())
        );
    }

    #[test]
    fn the_mechanisms_of_this_lab() {
        Explained::parse(include_str!("../../../../lab/explained.toml")).unwrap();
        assert!(Explained::parse("[[explained]]\nrecording = 'x'").err().unwrap().contains("unknown field"));
    }
}
