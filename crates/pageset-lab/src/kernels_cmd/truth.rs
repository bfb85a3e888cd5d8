//! The page `docs/truth.md`: which recordings are within limits at which level.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Deserialize;

use super::definition::{Lab, matches};
use super::guest::Ended;
use super::limits::{QUANTITIES, described};
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

    /// The text of the page.
    pub(super) fn markdown(&self) -> String {
        let mut text = String::from(
            "# Replay against real kernels\n\n\
             The lab (`lab/`) boots Debian's kernels under QEMU and records their page traffic. Each recording is then\n\
             replayed under the rules that `pageset` picks for its kernel. This page is generated; do not edit it.\n\n",
        );
        let sections = [
            self.headline(),
            self.method(),
            self.kernels(),
            self.machines(),
            self.matrix(),
            self.workloads(),
            self.out_of_limits(),
            self.gaps(),
            self.others(),
            self.every_recording(),
        ];
        text.extend(sections);
        text
    }

    fn headline(&self) -> String {
        let all = self.count(|_| true);
        let [input, reconstructed] = all.within;
        let of = all.of;
        let share = |within: usize| if of == 0 { 0.0 } else { within as f64 * 100.0 / of as f64 };
        format!(
            "| level | within limits | recordings | share |\n| --- | ---: | ---: | ---: |\n\
             | input only | {input} | {of} | {:.1} % |\n| reconstructed | {reconstructed} | {of} | {:.1} % |\n\n\
             *Input only* uses allocations, frees and the state at the start. It shows how well the rules predict.\n\
             *Reconstructed* also takes from the kernel's refills and drains what tracepoints do not show.\n\n",
            share(input),
            share(reconstructed),
        )
    }

    fn method(&self) -> String {
        format!(
            "## How it was made\n\n```sh\ncargo run --release -p pageset-lab -- kernels all\n```\n\n\
             A recording is within limits when each quantity differs from the kernel's by at most a share of the\n\
             kernel's number or an absolute floor, whichever is larger: {}.\n\n\
             The CPUs are emulated, on one thread of the host for each guest. Page traffic is real; times mean nothing.\n\n",
            described()
        )
    }

    fn kernels(&self) -> String {
        let mut text = String::from("## Kernels\n\n| kernel | release | replayed as |\n| --- | --- | --- |\n");
        for kernel in &self.lab.kernels {
            let of_kernel = |name: &str| name.strip_prefix(&kernel.name).is_some_and(|rest| rest.starts_with('.'));
            let mut boots = self.boots.iter().filter(|(name, _)| of_kernel(name));
            let release = boots.find_map(|(_, ended)| ended.release.as_deref()).unwrap_or("did not boot");
            let rules = self.outcomes.iter().filter(|(name, outcome)| of_kernel(name) && !outcome.rules.is_empty());
            let rules: BTreeSet<_> = rules.map(|(_, outcome)| outcome.rules.as_str()).collect();
            let rules = rules.into_iter().collect::<Vec<_>>().join(", ");
            let _ = writeln!(text, "| {} | {release} | {rules} |", kernel.name);
        }
        text + "\n"
    }

    fn machines(&self) -> String {
        let mut text = String::from("## Machines\n\n| machine | what |\n| --- | --- |\n");
        for machine in &self.lab.machines {
            let _ = writeln!(text, "| {} | {} |", machine.name, machine.what);
        }
        text + "\n"
    }

    fn matrix(&self) -> String {
        let mut text = String::from(
            "## Kernels and machines\n\nRecordings within limits: input only, reconstructed, all. \
             A dash is a pair that the lab does not boot.\n\n| kernel |",
        );
        let machines = &self.lab.machines;
        machines.iter().for_each(|machine| text += &format!(" {} |", machine.name));
        text += &format!("\n| --- |{}\n", " ---: |".repeat(machines.len()));
        let planned: BTreeSet<String> = self.lab.boots().iter().map(|boot| boot.name()).collect();
        for kernel in &self.lab.kernels {
            let _ = write!(text, "| {} |", kernel.name);
            for machine in machines {
                let boot = format!("{}.{}", kernel.name, machine.name);
                let count = self.count(|name| name.strip_prefix(&boot).is_some_and(|rest| rest.starts_with('.')));
                let cell = match count {
                    Count { of: 0, .. } if planned.contains(&boot) => "gap".to_owned(),
                    Count { of: 0, .. } => "–".to_owned(),
                    Count { within: [input, reconstructed], of } => format!("{input}, {reconstructed}, {of}"),
                };
                let _ = write!(text, " {cell} |");
            }
            text.push('\n');
        }
        text + "\n"
    }

    fn workloads(&self) -> String {
        let mut text = String::from(
            "## Workloads\n\n| workload | what | input only | reconstructed | recordings |\n| --- | --- | ---: | ---: | ---: |\n",
        );
        for workload in &self.lab.workloads {
            let Count { within: [input, reconstructed], of } = self.count(|name| parts(name).2 == workload.name);
            let _ = writeln!(text, "| {} | {} | {input} | {reconstructed} | {of} |", workload.name, workload.what);
        }
        text + "\n"
    }

    fn out_of_limits(&self) -> String {
        let mut text = String::from("## Out of limits\n\n");
        for (level, title) in LEVELS.iter().zip(["Input only", "Reconstructed"]) {
            let mut rows = String::new();
            for (name, outcome) in &self.outcomes {
                for (quantity, kernel, replay) in outcome.out_of_limits(level).unwrap_or_default() {
                    let why = self.explained.why(name, level).unwrap_or("not explained");
                    let (what, by) = (QUANTITIES[quantity], deviation(kernel, replay));
                    let _ = writeln!(rows, "| {name} | {what} | {kernel} | {replay} | {by} | {why} |");
                }
            }
            let head = "| recording | quantity | kernel | replay | differs by | why |\n| --- | --- | ---: | ---: | ---: | --- |\n";
            let body = if rows.is_empty() { "None.\n".into() } else { format!("{head}{rows}") };
            let _ = writeln!(text, "### {title}\n\n{body}");
        }
        text
    }

    /// Planned recordings that are missing, and why.
    fn gaps(&self) -> String {
        let mut rows = String::new();
        for boot in self.lab.boots() {
            let (name, ended) = (boot.name(), self.boots.get(&boot.name()));
            let failed = ended.map_or(Some("it was not booted"), |ended| ended.failed.as_deref());
            if let Some(reason) = failed {
                let _ = writeln!(rows, "| {name} | {reason} |");
            }
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
                let _ = writeln!(rows, "| {recording} | {reason} |");
            }
        }
        let head = "| boot or recording | reason |\n| --- | --- |\n";
        format!("## Gaps\n\n{}\n", if rows.is_empty() { "None.\n".into() } else { format!("{head}{rows}") })
    }

    /// How often presets of other kernels are within limits.
    fn others(&self) -> String {
        let mut counts: BTreeMap<(&str, &str), [(usize, usize); 2]> = BTreeMap::new();
        for (name, outcome) in &self.outcomes {
            for (index, level) in LEVELS.iter().enumerate() {
                let Some(found) = outcome.levels.get(*level) else { continue };
                let all = found.others_within.iter().map(|preset| (preset, 1));
                for (preset, within) in all.chain(found.others_out.iter().map(|preset| (preset, 0))) {
                    let count = &mut counts.entry((parts(name).0, preset)).or_default()[index];
                    *count = (count.0 + within, count.1 + 1);
                }
            }
        }
        let mut text = String::from(
            "## Presets of other kernels\n\nRecordings on which another kernel's preset is within limits too. Their \
             traffic does not\ntell the two apart.\n\n| kernel | preset | input only | reconstructed |\n| --- | --- | ---: | ---: |\n",
        );
        for kernel in &self.lab.kernels {
            for ((_, preset), [input, reconstructed]) in counts.iter().filter(|((of, _), _)| *of == kernel.name) {
                if input.0 + reconstructed.0 > 0 {
                    let cell = |(within, of): (usize, usize)| format!("{within} of {of}");
                    let _ =
                        writeln!(text, "| {} | {preset} | {} | {} |", kernel.name, cell(*input), cell(*reconstructed));
                }
            }
        }
        text + "\n"
    }

    fn every_recording(&self) -> String {
        let mut text = String::from(
            "## Every recording\n\n`in` and `out` say whether the replay is within limits. The last column lists the presets \
             of other\nkernels that are within limits input only.\n\n\
             | recording | events | refill pages | refills | drain pages | drains | input only | reconstructed | others |\n\
             | --- | ---: | ---: | ---: | ---: | ---: | --- | --- | --- |\n",
        );
        for (name, outcome) in &self.outcomes {
            let [refill_pages, refills, drain_pages, drains] = outcome.kernel.all();
            let verdict = |level| match outcome.out_of_limits(level) {
                None => "no replay",
                Some(out) if out.is_empty() => "in",
                Some(_) => "out",
            };
            let others = outcome.levels.get(LEVELS[0]).map(|found| found.others_within.join(" ").replace("linux-", ""));
            let _ = writeln!(
                text,
                "| {name} | {} | {refill_pages} | {refills} | {drain_pages} | {drains} | {} | {} | {} |",
                outcome.events,
                verdict(LEVELS[0]),
                verdict(LEVELS[1]),
                others.unwrap_or_default(),
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels_cmd::limits::Amounts;
    use crate::kernels_cmd::replay::Level;

    const LAB: &str = "suites=[]\nkernel=[{name='6.1-a',image='i'},{name='6.2-a',image='i'}]\n\
        machine=[{name='m',what='1 CPU',cpus=1,memory='1G'},{name='n',what='2 CPUs',cpus=2,memory='1G'}]\n\
        workload=[{name='pf',what='page faults',command='c'},{name='sock',what='a stream',command='c'}]\n\
        boot=[{kernels=['*'],machines=['m']},{kernels=['6.1-a'],machines=['n']}]";
    const EXPLAINED: &str = "[[explained]]\nrecordings = ['6.1-*.sock']\nlevel = 'input'\nwhy = 'Bulk allocations.'\n";

    fn outcome(input_drains: u64, others: &[&str]) -> Outcome {
        let kernel = Amounts { refill_pages: 5000, refills: 100, drain_pages: 900, drains: 20 };
        let level = |drains| Level {
            replay: Amounts { drains, ..kernel },
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
        let (text, golden) = (results.markdown(), concat!(env!("CARGO_MANIFEST_DIR"), "/src/kernels_cmd/golden.md"));
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(golden, &text).unwrap();
        }
        let expected = std::fs::read_to_string(golden).unwrap_or_default();
        assert!(text == expected, "the text differs from {golden}; try BLESS=1 and look at the difference:\n{text}");
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
