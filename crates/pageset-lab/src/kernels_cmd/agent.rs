//! The table `agent.csv`: what `pageset agent` said while a load ran, and what `pageset advise` says of a recording of the same load.

use std::fs;
use std::path::Path;

use pageset_fleet::{Line, Verdict};
use pageset_trace::Trace;
use pageset_trace::advise::Advice;
use pageset_trace::verdict::Kind;
use pageset_trace::verdict::machine::Level;

use super::definition::Boot;
use super::tool::at;
use super::truth::line;

/// How the two verdicts on a load relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agreement {
    /// Both set the same, or nothing.
    Equal,
    /// The agent says that only a recording can decide.
    Asks,
    /// The recording has no verdict.
    Open,
    /// They contradict each other.
    Differs,
}

/// All of them, in the order of the summary, with their names.
const AGREEMENTS: [(Agreement, &str); 4] = [
    (Agreement::Equal, "equal"),
    (Agreement::Asks, "asks"),
    (Agreement::Open, "open"),
    (Agreement::Differs, "differs"),
];

impl Agreement {
    fn name(self) -> &'static str {
        AGREEMENTS.iter().find(|(of, _)| *of == self).map_or("", |(_, name)| name)
    }
}

/// A load on a kernel, with both verdicts.
pub(super) struct Row {
    release: String,
    load: String,
    agent: Verdict,
    advice: Advice,
}

impl Row {
    /// The row of a load that was watched and recorded.
    pub(super) fn of(dir: &Path, boot: Boot<'_>, load: &str) -> Result<Row, String> {
        let folder = dir.join("boots").join(boot.name());
        let read = |kind: &str| {
            let path = folder.join(format!("{load}.{kind}"));
            at(&path, fs::read_to_string(&path))
        };
        let line = watched(&read("agent")?, &read("during")?)?;
        let path = dir.join("recordings").join(format!("{}.{load}.pstrace", boot.name()));
        let trace = Trace::open(&path).map_err(|error| error.to_string())?;
        let advice = Advice::of(&trace, &mut |_| {}).map_err(|error| error.to_string())?;
        Ok(Row { release: line.kernel.unwrap_or_default(), load: load.into(), agent: line.verdict, advice })
    }

    fn advised(&self) -> Option<String> {
        self.advice.verdict.sysctl().map(|(name, value)| format!("{name}={value}"))
    }

    fn agreement(&self) -> Agreement {
        let asks = self.agent.needs_recording || self.agent.level == Level::Unknown;
        match self.advice.verdict.kind() {
            Kind::None => Agreement::Open,
            _ if asks => Agreement::Asks,
            _ if self.agent.set == self.advised() => Agreement::Equal,
            _ => Agreement::Differs,
        }
    }
}

/// The last line of an agent whose whole interval lies in a load. `during` are the seconds since 1970 of its begin and its end.
fn watched(lines: &str, during: &str) -> Result<Line, String> {
    let seconds: Vec<u64> = during.split_ascii_whitespace().filter_map(|second| second.parse().ok()).collect();
    let [begin, end] = seconds[..] else { return Err(format!("`{during}` are not two times")) };
    let in_load = |line: &Line| {
        let interval = line.time_ns.zip(line.interval_ns).map(|(end, length)| (end.saturating_sub(length), end));
        interval.is_some_and(|(from, to)| from >= begin * 1_000_000_000 && to <= end * 1_000_000_000)
    };
    let lines: Vec<Line> = lines.lines().map(|text| Line::parse(text.as_bytes())).collect::<Result<_, _>>()?;
    lines.into_iter().rfind(in_load).ok_or_else(|| "no interval of the agent lies in the load".into())
}

/// A line for each row.
pub(super) fn csv(rows: &[Row]) -> String {
    let mut text =
        "kernel,load,agent,agent_sets,advise,advise_sets,trust,agreement,agent_says,advise_says\n".to_owned();
    for row in rows {
        let (agent, advice) = (&row.agent, &row.advice);
        let basis = serde_json::to_value(advice.verdict.basis).unwrap_or_default();
        let cells = [
            &row.release,
            &row.load,
            &agent.key,
            agent.set.as_deref().unwrap_or_default(),
            basis.as_str().unwrap_or_default(),
            &row.advised().unwrap_or_default(),
            advice.sure.trust.name(),
            row.agreement().name(),
            &agent.sentence,
            &advice.verdict.why,
        ];
        line(&mut text, &cells.map(str::to_owned));
    }
    text
}

/// How many rows of each kernel agree.
pub(super) fn summary(rows: &[Row]) -> String {
    let mut text = String::new();
    for of_kernel in rows.chunk_by(|a, b| a.release == b.release) {
        let count = |agreement| of_kernel.iter().filter(|row| row.agreement() == agreement).count();
        let counts = AGREEMENTS.map(|(agreement, name)| format!("{} {name}", count(agreement))).join(", ");
        text += &format!("{}: {} loads: {counts}\n", of_kernel[0].release, of_kernel.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageset_trace::verdict::Basis;

    /// A row whose verdicts are those of a recording and of an agent, changed.
    fn row(agent: (&str, Option<&str>, bool), advised: (Basis, Option<u32>)) -> Row {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/lab/6.18-amd64.4cpu.unix1.pstrace");
        let mut advice = Advice::of(&Trace::open(&path).unwrap(), &mut |_| {}).unwrap();
        (advice.verdict.basis, advice.verdict.high_fraction, advice.verdict.watermark_scale_factor) =
            (advised.0, advised.1, None);
        let (key, set, needs_recording) = agent;
        let level = if key == "not-counted" { Level::Unknown } else { Level::Healthy };
        let (key, set) = (key.to_owned(), set.map(str::to_owned));
        let agent = Verdict { key, level, sentence: "a, b".into(), set, needs_recording };
        Row { release: "6.18".into(), load: "unix1".into(), agent, advice }
    }

    #[test]
    fn verdicts_that_agree_and_that_do_not() {
        let tune = Some("vm.percpu_pagelist_high_fraction=0");
        let eighth = Some("vm.percpu_pagelist_high_fraction=8");
        let cases = [
            (("healthy", None, false), (Basis::NotFelt, None), "equal"),
            (("tuning-off", tune, false), (Basis::Gain, Some(0)), "equal"),
            (("tuning-off", tune, false), (Basis::Gain, Some(8)), "differs"),
            (("healthy", None, false), (Basis::Gain, Some(8)), "differs"),
            (("lists-too-small", eighth, true), (Basis::Gain, Some(8)), "asks"),
            (("not-counted", None, false), (Basis::NoGain, None), "asks"),
            (("healthy", None, false), (Basis::ControlFailed, None), "open"),
        ];
        let rows: Vec<Row> = cases.iter().map(|(agent, advised, _)| row(*agent, *advised)).collect();
        for (row, (_, _, agreement)) in rows.iter().zip(cases) {
            assert_eq!(row.agreement().name(), agreement);
        }
        assert_eq!(summary(&rows), "6.18: 7 loads: 2 equal, 2 asks, 1 open, 2 differs\n");
        let text = csv(&rows[1..2]);
        let cells = "6.18,unix1,tuning-off,vm.percpu_pagelist_high_fraction=0,gain,vm.percpu_pagelist_high_fraction=0,";
        assert!(text.lines().nth(1).unwrap().starts_with(cells) && text.contains(",equal,\"a, b\","), "{text}");
    }

    /// A line of which a part is from before the load, or after it, says nothing of the load.
    #[test]
    fn the_line_of_a_load() {
        let file = include_str!("../../../pageset-fleet/tests/inputs/agents.ndjson");
        let line = Line::parse(file.lines().next().unwrap().as_bytes()).unwrap();
        let at = |end: u64| {
            let line = Line { time_ns: Some(end * 1_000_000_000), interval_ns: Some(2_000_000_000), ..line.clone() };
            serde_json::to_string(&line).unwrap() + "\n"
        };
        let lines: String = [101, 103, 105, 107].map(at).concat();
        let last = |during: &str| watched(&lines, during).map(|line| line.time_ns.unwrap() / 1_000_000_000);
        assert_eq!((last("100 106\n"), last("101 103\n"), last("104 108\n")), (Ok(105), Ok(103), Ok(107)));
        assert_eq!(last("102 104\n"), Err("no interval of the agent lies in the load".into()));
        assert_eq!(last("x\n"), Err("`x\n` are not two times".into()));
    }
}
