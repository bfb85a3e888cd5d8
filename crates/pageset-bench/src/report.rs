//! The result: all samples, medians, ratios.

use pageset_statistics::quantile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::floors::FLOOR_B;
use crate::pattern::Pattern;
use crate::sample::{SHARE, Sample};

/// The schema of [`Report`].
pub const SCHEMA: &str = "pageset.bench/1";

/// The result of a benchmark.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The machine.
    pub machine: MachineFacts,
    /// Duration of a sample, in nanoseconds.
    pub window_ns: u64,
    /// Configured samples per figure.
    pub rounds: u32,
    /// Whether the benchmark was interrupted.
    pub interrupted: bool,
    /// The figures, ordered by pattern, then threads, then subject.
    pub rows: Vec<Row>,
}

/// Facts about the machine that a reader of figures needs.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
pub struct MachineFacts {
    /// The processor of the measured machine.
    pub processor: String,
    /// The kernel's release.
    pub kernel: String,
    /// CPUs that the process may use.
    pub cpus: usize,
}

/// One subject under one pattern with one number of threads.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
pub struct Row {
    /// The measured subject: a floor, the pool, or an external allocator.
    pub who: String,
    /// The order of allocations and frees. hot: one page. order-9: 512 contiguous pages. bulk: 512 pages, freed in the
    /// same order. random and churn: 65,536 held pages, of which 1 or 512 are replaced at random. remote: one CPU
    /// allocates, another frees. calls-N: one call allocates N pages, one frees them. half and half-9: half of 4 GiB,
    /// as pages or as runs of 512. old-SIZE: as hot, in a memory of which one page in each block of SIZE is in use.
    pub pattern: String,
    /// The number of threads, each on its own CPU. In headings: `2T` for two threads.
    pub threads: usize,
    /// The time of one allocation and one free of a page: the mean over the threads, and the median of the samples. In
    /// brackets: multiples of floor b. In JSON, `ns_per_pair` has every sample. Unit: nanoseconds.
    #[schemars(extend("bad" = "Several times floor b on one thread, or growing with threads.",
        "todo" = "Compare patterns. The pool is designed for hot, bulk and churn."))]
    pub ns_per_pair: Vec<f64>,
    /// For each kept sample, the share of the time, 0 to 1, that a thread slept voluntarily: that of the thread which
    /// slept most. Sleep is part of a pair's time.
    #[schemars(extend("bad" = "Above a few percent: threads wait for a lock for longer than they spin.",
        "todo" = "Find the lock. Use fewer threads or larger caches."))]
    pub asleep: Vec<f64>,
    /// Samples discarded because a thread did not have its CPU for 97 % of the time.
    #[schemars(extend("bad" = "More than the kept samples.", "todo" = "Stop other programs."))]
    pub discarded: u32,
    /// The discarded samples, each with its result.
    #[schemars(extend("as" = "discarded"))]
    pub discarded_samples: Vec<Discarded>,
    /// Number of samples, kept or discarded, in which a thread could not be pinned to its CPU.
    #[schemars(extend("bad" = "Any: threads may have shared a CPU.",
        "todo" = "Allow the process to use all CPUs of the benchmark."))]
    pub not_pinned: u32,
    /// The reason why the subject could not be built, if it could not.
    pub failed: Option<String>,
    /// The median divided by the median of floor b. Floor b does the minimum of an allocator with per-CPU caches.
    pub ratio_to_floor_b: Option<f64>,
}

/// A discarded sample.
#[derive(Clone, Copy, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct Discarded {
    /// The time to allocate and free a page, in ns.
    pub ns_per_pair: f64,
    /// The share of the time that a thread had its CPU, for the thread with the smallest share. Sleep is not counted.
    #[schemars(extend("bad" = "Below 0.97: the sample is discarded.", "todo" = "As discarded."))]
    pub cpu_share: f64,
}

impl Row {
    pub(crate) fn new(who: &str, pattern: Pattern, threads: usize) -> Row {
        Row {
            who: who.to_owned(),
            pattern: pattern.to_string(),
            threads,
            ns_per_pair: vec![],
            asleep: vec![],
            discarded: 0,
            discarded_samples: vec![],
            not_pinned: 0,
            failed: None,
            ratio_to_floor_b: None,
        }
    }

    /// Adds a sample. Returns whether it is kept.
    pub(crate) fn take(&mut self, sample: Sample) -> bool {
        self.not_pinned += u32::from(sample.not_pinned.is_some());
        if sample.is_kept() {
            self.ns_per_pair.push(sample.ns_per_pair);
            self.asleep.push(sample.asleep);
            return true;
        }
        let Sample { ns_per_pair, cpu_share, .. } = sample;
        self.discarded += 1;
        self.discarded_samples.push(Discarded { ns_per_pair, cpu_share });
        false
    }

    fn name(&self) -> String {
        format!("{}, {} {}T", self.who, self.pattern, self.threads)
    }

    /// Whether the threads had their CPUs for too short a time in all samples.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.ns_per_pair.is_empty() && self.discarded > 0
    }

    /// A warning if the threads slept for a considerable part of the time.
    fn sleep(&self) -> Option<String> {
        let asleep = quantile(&self.asleep, 0.5).filter(|&asleep| asleep > 1.0 - SHARE)?;
        Some(format!(
            "{}: a thread slept {:.0} % of the time, waiting for a lock or for other threads",
            self.name(),
            asleep * 100.0
        ))
    }

    /// The median of the kept samples, if there are any.
    pub fn median(&self) -> Option<f64> {
        quantile(&self.ns_per_pair, 0.5)
    }

    /// The first and the third quartile of the kept samples, if there are any.
    pub fn quartiles(&self) -> Option<(f64, f64)> {
        Some((quantile(&self.ns_per_pair, 0.25)?, quantile(&self.ns_per_pair, 0.75)?))
    }
}

/// Why a figure has no sample: other programs, the hypervisor or a quota took the CPUs.
const BUSY: &str = "the threads never had their CPUs for 97 % of the time";

impl Report {
    /// Sets the ratio of each row.
    pub(crate) fn compare(&mut self) {
        let of_floor: Vec<_> = self
            .rows
            .iter()
            .filter(|row| row.who == FLOOR_B)
            .filter_map(|row| Some((row.pattern.clone(), row.threads, row.median()?)))
            .collect();
        for row in &mut self.rows {
            let floor = of_floor.iter().find(|floor| floor.0 == row.pattern && floor.1 == row.threads);
            row.ratio_to_floor_b = floor.and_then(|floor| Some(row.median()? / floor.2));
        }
    }

    /// Warnings about missing or doubtful samples, one line each.
    pub fn warnings(&self) -> Vec<String> {
        let discarded: u32 = self.rows.iter().map(|row| row.discarded).sum();
        let kept: usize = self.rows.iter().map(|row| row.ns_per_pair.len()).sum();
        let short = self.rows.iter().filter(|row| row.ns_per_pair.len() < self.rounds as usize).count();
        let not_pinned: u32 = self.rows.iter().map(|row| row.not_pinned).sum();
        let failed = self.rows.iter().filter_map(|row| Some((row.name(), row.failed.as_ref()?)));
        let mut lines: Vec<String> =
            failed.map(|(figure, why)| format!("{figure}: could not be built: {why}")).collect();
        let disturbed: Vec<String> = self.rows.iter().filter(|row| row.is_disturbed()).map(Row::name).collect();
        // One line, however many there are: the table marks each.
        match disturbed.as_slice() {
            [] => {}
            [first] => lines.push(format!("{first}: no sample, {BUSY}")),
            [first, ..] => {
                lines.push(format!("{first}, and {} more: no sample, {BUSY}", disturbed.len() - 1));
            }
        }
        lines.extend(self.rows.iter().filter_map(Row::sleep));
        if not_pinned > 0 {
            lines.push(format!(
                "in {not_pinned} samples the system refused to pin a thread to its CPU: these samples are less reliable"
            ));
        }
        if discarded > 0 {
            lines.push(format!(
                "{discarded} of {} samples were thrown away: a thread had its CPU for less than 97 % of the time",
                discarded as usize + kept
            ));
        }
        if short > 0 {
            lines.push(format!(
                "{short} of {} figures have fewer than {} samples; let nothing else run, or give more time with --window-ms",
                self.rows.len(),
                self.rounds
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(who: &str, pattern: Pattern, samples: &[f64]) -> Row {
        Row { ns_per_pair: samples.to_vec(), ..Row::new(who, pattern, 1) }
    }

    fn report() -> Report {
        let machine = MachineFacts { processor: "P".into(), kernel: "K".into(), cpus: 2 };
        let mut stolen = row("x", Pattern::Bulk, &[]);
        for (ns_per_pair, cpu_share) in [(9.0, 0.8), (7.0, 0.93)] {
            assert!(!stolen.take(Sample { ns_per_pair, cpu_share, asleep: 0.0, not_pinned: Some("no".into()) }));
        }
        let mut sleeper = row("x", Pattern::HalfHuge, &[]);
        for asleep in [0.1, 0.0, 0.25] {
            assert!(sleeper.take(Sample { ns_per_pair: 300.0, cpu_share: 1.0, asleep, not_pinned: None }));
        }
        let rows = vec![
            row(FLOOR_B, Pattern::Hot, &[4.0, 2.0, 3.0]),
            Row { discarded: 2, ..row("x", Pattern::Hot, &[9.0, 6.0]) },
            row("x", Pattern::HotHuge, &[250.0]),
            Row { failed: Some("no memory".into()), ..row("x", Pattern::Half, &[]) },
            stolen,
            sleeper,
        ];
        let mut report =
            Report { schema: SCHEMA.to_owned(), machine, window_ns: 5_000_000, rounds: 3, interrupted: false, rows };
        report.compare();
        report
    }

    #[test]
    fn rows_have_medians_quartiles_and_ratios_to_floor_b() {
        let report = report();
        let ratios: Vec<_> = report.rows.iter().map(|row| (row.median(), row.ratio_to_floor_b)).collect();
        let none = (None, None);
        let sleeper = (Some(300.0), None);
        assert_eq!(ratios, [(Some(3.0), Some(1.0)), (Some(7.5), Some(2.5)), (Some(250.0), None), none, none, sleeper]);
        assert_eq!(row("x", Pattern::Hot, &[]).median(), None);
        let quartiles = |samples: &[f64]| row("x", Pattern::Hot, samples).quartiles();
        assert_eq!(quartiles(&[4.0, 1.0, 3.0, 2.0, 5.0]), Some((2.0, 4.0)));
        assert_eq!(quartiles(&[2.0, 1.0]), Some((1.25, 1.75)));
        assert_eq!(quartiles(&[]), None);
    }

    #[test]
    fn warnings_name_the_figures() {
        assert_eq!(
            report().warnings(),
            [
                "x, half 1T: could not be built: no memory",
                "x, bulk 1T: no sample, the threads never had their CPUs for 97 % of the time",
                "x, half-9 1T: a thread slept 10 % of the time, waiting for a lock or for other threads",
                "in 2 samples the system refused to pin a thread to its CPU: these samples are less reliable",
                "4 of 13 samples were thrown away: a thread had its CPU for less than 97 % of the time",
                "4 of 6 figures have fewer than 3 samples; let nothing else run, or give more time with --window-ms"
            ]
        );
    }

    /// However many figures other programs leave without a sample, and whether they leave others one.
    #[test]
    fn a_busy_machine_is_one_warning_for_all_figures() {
        let mut report = report();
        let stolen = report.rows[4].clone();
        let more = ["churn", "remote"].map(|pattern| Row { pattern: pattern.to_owned(), ..stolen.clone() });
        report.rows.extend(more);
        let about =
            |lines: Vec<String>| lines.into_iter().filter(|line| line.contains("had their CPUs")).collect::<Vec<_>>();
        assert_eq!(
            about(report.warnings()),
            ["x, bulk 1T, and 2 more: no sample, the threads never had their CPUs for 97 % of the time"]
        );
        report.rows.retain(|row| row.ns_per_pair.is_empty());
        assert_eq!(
            about(report.warnings()),
            ["x, bulk 1T, and 2 more: no sample, the threads never had their CPUs for 97 % of the time"]
        );
    }

    #[test]
    fn discarded_samples_are_in_the_json_with_their_values() {
        let json = serde_json::to_value(report()).expect("the report is valid JSON");
        let row = &json["rows"][4];
        assert_eq!((row["discarded"].as_u64(), row["not_pinned"].as_u64()), (Some(2), Some(2)));
        let samples = serde_json::json!([
            {"ns_per_pair": 9.0, "cpu_share": 0.8}, {"ns_per_pair": 7.0, "cpu_share": 0.93}
        ]);
        assert_eq!(row["discarded_samples"], samples);
        assert_eq!(json["rows"][3]["failed"], "no memory");
        let again: Report = serde_json::from_value(json.clone()).expect("the JSON matches the schema");
        assert_eq!(serde_json::to_value(again).expect("JSON"), json);
    }
}
