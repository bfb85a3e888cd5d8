//! The table `agent.csv`: what `pageset agent` said while a load ran, and what `pageset advise` says of a recording of the same load.

use std::fs;
use std::path::Path;

use pageset_fleet::{Line, Verdict};
use pageset_trace::Trace;
use pageset_trace::advise::Advice;
use pageset_trace::verdict::machine::Level;
use pageset_trace::verdict::{Basis, Kind};
use serde::{Deserialize, Serialize};

use super::definition::Boot;
use super::tool::at;

/// How the two verdicts on a load relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Agreement {
    /// Both set the same, or nothing.
    Equal,
    /// The agent says that only a recording can decide, and in the recording zone locks are not rare.
    Asks,
    /// The recording has no verdict.
    Open,
    /// The agent says that all is well, and in the recording zone locks are not rare.
    Missed,
    /// They contradict each other in another way.
    Differs,
}

/// All of them, in the order of the summary, with their names.
const AGREEMENTS: [(Agreement, &str); 5] = [
    (Agreement::Equal, "equal"),
    (Agreement::Asks, "asks"),
    (Agreement::Open, "open"),
    (Agreement::Missed, "missed"),
    (Agreement::Differs, "differs"),
];

/// The agent's verdict that all is well.
const HEALTHY: &str = "healthy";

/// A load on a kernel, with both verdicts: a line of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Row {
    kernel: String,
    load: String,
    /// The name of the agent's verdict.
    agent: String,
    /// The setting that the agent names; empty for none.
    agent_sets: String,
    /// Whether the agent says that only a recording can decide.
    record_first: bool,
    /// What the advice rests on.
    advise: Basis,
    /// The setting that the advice names; empty for none.
    advise_sets: String,
    trust: String,
    agreement: Agreement,
    agent_says: String,
    advise_says: String,
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
        Ok(Row::new(line.kernel.unwrap_or_default(), load, line.verdict, &advice))
    }

    fn new(kernel: String, load: &str, agent: Verdict, advice: &Advice) -> Row {
        let advised = advice.verdict.sysctl().map(|(name, value)| format!("{name}={value}"));
        let mut row = Row {
            kernel,
            load: load.to_owned(),
            agent: agent.key,
            agent_sets: agent.set.unwrap_or_default(),
            record_first: agent.needs_recording || agent.level == Level::Unknown,
            advise: advice.verdict.basis,
            advise_sets: advised.unwrap_or_default(),
            trust: advice.sure.trust.name().to_owned(),
            agreement: Agreement::Open,
            agent_says: agent.sentence,
            advise_says: advice.verdict.why.clone(),
        };
        row.agreement = row.judged();
        row
    }

    /// Whether the recording shows a CPU that takes zone locks so often that a setting can be felt.
    fn suffers(&self) -> bool {
        matches!(self.advise, Basis::Gain | Basis::NoGain)
    }

    fn judged(&self) -> Agreement {
        match self.advise.kind() {
            Kind::None => Agreement::Open,
            _ if self.agent == HEALTHY && self.suffers() => Agreement::Missed,
            // A recording that shows nothing was asked for in vain.
            _ if self.record_first && self.suffers() => Agreement::Asks,
            _ if !self.record_first && self.agent_sets == self.advise_sets => Agreement::Equal,
            _ => Agreement::Differs,
        }
    }
}

/// The last line of an agent whose whole interval lies in a load. `during` are the nanoseconds since 1970 of its begin and its end.
fn watched(lines: &str, during: &str) -> Result<Line, String> {
    let times: Vec<u64> = during.split_ascii_whitespace().filter_map(|time| time.parse().ok()).collect();
    let [begin, end] = times[..] else { return Err(format!("`{during}` are not two times")) };
    let in_load = |line: &Line| {
        let interval = line.time_ns.zip(line.interval_ns).map(|(end, length)| (end.saturating_sub(length), end));
        interval.is_some_and(|(from, to)| from >= begin && to <= end)
    };
    let lines: Vec<Line> = lines.lines().map(|text| Line::parse(text.as_bytes())).collect::<Result<_, _>>()?;
    lines.into_iter().rfind(in_load).ok_or_else(|| "no interval of the agent lies in the load".into())
}

/// A line for each row.
pub(super) fn csv(rows: &[Row]) -> Result<String, String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    rows.iter().try_for_each(|row| writer.serialize(row)).map_err(|error| error.to_string())?;
    let bytes = writer.into_inner().map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

/// How many rows of each kernel agree.
pub(super) fn summary(rows: &[Row]) -> String {
    let mut text = String::new();
    for of_kernel in rows.chunk_by(|a, b| a.kernel == b.kernel) {
        let count = |agreement| of_kernel.iter().filter(|row| row.agreement == agreement).count();
        let counts = AGREEMENTS.map(|(agreement, name)| format!("{} {name}", count(agreement))).join(", ");
        let suffer = of_kernel.iter().filter(|row| row.suffers()).count();
        text += &format!("{}: {} loads, {suffer} suffer: {counts}\n", of_kernel[0].kernel, of_kernel.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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
        Row::new("6.18".into(), "unix1", agent, &advice)
    }

    #[test]
    fn verdicts_that_agree_and_that_do_not() {
        let tune = Some("vm.percpu_pagelist_high_fraction=0");
        let eighth = Some("vm.percpu_pagelist_high_fraction=8");
        let cases = [
            (("healthy", None, false), (Basis::NotFelt, None), "equal"),
            (("healthy", None, false), (Basis::NoGain, None), "missed"),
            (("zone-lock-moves", None, false), (Basis::NoGain, None), "equal"),
            (("tuning-off", tune, false), (Basis::Gain, Some(0)), "equal"),
            (("tuning-off", tune, false), (Basis::Gain, Some(8)), "differs"),
            (("tuning-off", tune, false), (Basis::NotFelt, None), "differs"),
            (("healthy", None, false), (Basis::Gain, Some(8)), "missed"),
            (("lists-too-small", eighth, true), (Basis::Gain, Some(8)), "asks"),
            (("not-counted", None, false), (Basis::NoGain, None), "asks"),
            (("zone-lock-waits", None, true), (Basis::NotFelt, None), "differs"),
            (("healthy", None, false), (Basis::ControlFailed, None), "open"),
        ];
        let rows: Vec<Row> = cases.iter().map(|(agent, advised, _)| row(*agent, *advised)).collect();
        for (row, (_, _, agreement)) in rows.iter().zip(cases) {
            assert_eq!(AGREEMENTS.iter().find(|(_, name)| *name == agreement).unwrap().0, row.agreement, "{row:?}");
        }
        assert_eq!(summary(&rows), "6.18: 11 loads, 7 suffer: 3 equal, 2 asks, 1 open, 2 missed, 3 differs\n");
        let text = csv(&rows[3..4]).unwrap();
        let cells =
            "6.18,unix1,tuning-off,vm.percpu_pagelist_high_fraction=0,false,gain,vm.percpu_pagelist_high_fraction=0,";
        assert!(text.lines().nth(1).unwrap().starts_with(cells) && text.contains(",equal,\"a, b\","), "{text}");
        assert_eq!(parse(&text), rows[3..4]);
    }

    fn parse(text: &str) -> Vec<Row> {
        csv::Reader::from_reader(text.as_bytes()).deserialize().collect::<Result<_, _>>().unwrap()
    }

    /// The table of the repository has verdicts that relate as it says, loads of each kind, and the counts that the page shows.
    #[test]
    fn the_page_has_the_counts_of_the_table() {
        let docs = super::super::initramfs::repository().join("docs");
        let rows = parse(&fs::read_to_string(docs.join("agent.csv")).unwrap());
        for row in &rows {
            assert_eq!(row.agreement, row.judged(), "{row:?}");
        }
        for of_kernel in rows.chunk_by(|a, b| a.kernel == b.kernel) {
            let suffer = of_kernel.iter().filter(|row| row.suffers()).count();
            assert!(suffer >= 3 && of_kernel.len() - suffer >= 3, "{}: {suffer} loads suffer", of_kernel[0].kernel);
        }
        let page = fs::read_to_string(docs.join("guide/fleet.md")).unwrap();
        assert!(
            page.contains(&format!("```text\n{}```\n", summary(&rows))),
            "docs/guide/fleet.md does not show\n{}",
            summary(&rows)
        );
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
        let last = |begin: u64, end: u64| {
            let during = format!("{} {}\n", begin * 1_000_000_000, end * 1_000_000_000);
            watched(&lines, &during).map(|line| line.time_ns.unwrap() / 1_000_000_000)
        };
        assert_eq!((last(100, 106), last(101, 103), last(104, 108)), (Ok(105), Ok(103), Ok(107)));
        assert_eq!(last(102, 104), Err("no interval of the agent lies in the load".into()));
        assert_eq!(watched(&lines, "x\n"), Err("`x\n` are not two times".into()));
    }
}
