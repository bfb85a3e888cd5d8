//! The result of `pageset-lab machine measure`.

use pageset_bench::hardware::faults::Tasks;
use pageset_bench::hardware::{Figure, Quantity};
use pageset_bench::report::MachineFacts;
use schemars::JsonSchema;
use serde::Serialize;

use super::kernel::Kernel;

/// The schema of [`Measured`].
pub(super) const SCHEMA: &str = "pageset.machine-measure/1";
/// A spread above this gets a warning, in percent. A guess: figures of a quiet machine have 1 to 5.
const LARGE_SPREAD_PCT: f64 = 10.0;

/// The result.
#[derive(Serialize, JsonSchema)]
pub(super) struct Measured {
    /// [`SCHEMA`].
    pub(super) schema: String,
    /// The host; its CPUs are those that the measurement could use.
    pub(super) host: MachineFacts,
    /// All CPUs of the host.
    pub(super) online_cpus: usize,
    /// The simulated rules and era.
    pub(super) kernel: Kernel,
    /// Whether the buffers could have huge pages. Without them, latencies of loads include misses of the TLB.
    pub(super) huge_pages: bool,
    /// Whether the samples were few and short.
    pub(super) quick: bool,
    /// Whether Ctrl-C ended the measurement.
    pub(super) interrupted: bool,
    /// The measured quantities, in ns but for ratios.
    pub(super) quantities: Vec<Measurement>,
    /// Page faults by number of tasks.
    pub(super) faults: Vec<Row>,
    /// The fit; `None` if one process was not measured.
    pub(super) fit: Option<Fit>,
    /// The description, as TOML.
    pub(super) description: String,
}

/// A quantity with its samples.
#[derive(Serialize, JsonSchema)]
pub(super) struct Measurement {
    /// The quantity.
    pub(super) quantity: Quantity,
    /// The median of the samples.
    pub(super) median: Option<f64>,
    /// The difference of the quartiles, in percent of the median.
    pub(super) spread_pct: Option<f64>,
    /// The samples.
    #[serde(flatten)]
    pub(super) figure: Figure,
}

/// Page faults of a number of tasks.
#[derive(Serialize, JsonSchema)]
pub(super) struct Row {
    /// What the tasks are.
    pub(super) kind: Tasks,
    /// Their number.
    pub(super) tasks: usize,
    /// The median of the samples: page faults a second of all tasks.
    pub(super) faults_per_s: Option<f64>,
    /// The difference of the quartiles, in percent of the median.
    pub(super) spread_pct: Option<f64>,
    /// The simulated faults a second.
    pub(super) predicted_per_s: Option<f64>,
    /// Whether the pace was fitted to this row.
    pub(super) fitted: bool,
    /// The samples.
    #[serde(flatten)]
    pub(super) figure: Figure,
}

/// The fitted pace.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(super) struct Fit {
    /// Duration of everything, relative to the description's other tables.
    pub(super) pace: f64,
    /// Whether the fit reached the measured rate.
    pub(super) reached: bool,
}

impl Measurement {
    pub(super) fn new(quantity: Quantity, figure: Figure) -> Measurement {
        Measurement { quantity, median: figure.median(), spread_pct: figure.spread_pct(), figure }
    }
}

impl Row {
    pub(super) fn new(kind: Tasks, tasks: usize, figure: Figure) -> Row {
        let (faults_per_s, spread_pct) = (figure.median(), figure.spread_pct());
        Row { kind, tasks, faults_per_s, spread_pct, predicted_per_s: None, fitted: false, figure }
    }

    /// Predicted over measured, as a difference in percent.
    pub(super) fn error_pct(&self) -> Option<f64> {
        Some(100.0 * (self.predicted_per_s? / self.faults_per_s? - 1.0))
    }

    /// The tasks in words.
    pub(super) fn name(&self) -> String {
        match (self.kind, self.tasks) {
            (Tasks::Processes, 1) => "1 process".to_owned(),
            (Tasks::Threads, 1) => "1 thread".to_owned(),
            (kind, tasks) => format!("{tasks} {}", kind.name()),
        }
    }
}

/// What to know about a figure: why it is missing, or why not to trust it.
pub(super) fn note(figure: &Figure) -> String {
    if let Some(why) = &figure.missing {
        return format!("not measured: {why}");
    }
    if figure.disturbed {
        return "disturbed".to_owned();
    }
    let is_large = figure.spread_pct().is_some_and(|pct| pct > LARGE_SPREAD_PCT);
    if is_large { "noisy".to_owned() } else { String::new() }
}

impl Measured {
    /// The figure of a quantity.
    pub(super) fn of(&self, quantity: Quantity) -> Option<&Measurement> {
        self.quantities.iter().find(|found| found.quantity == quantity)
    }

    /// Warnings, one line each.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut lines = vec![];
        let figures = || self.quantities.iter().map(|it| &it.figure).chain(self.faults.iter().map(|row| &row.figure));
        let doubtful = figures().filter(|figure| figure.missing.is_none() && !note(figure).is_empty()).count();
        let all = figures().filter(|figure| figure.missing.is_none()).count();
        if doubtful > 0 {
            lines.push(format!(
                "{doubtful} of {all} figures are noisy (spread above {LARGE_SPREAD_PCT} %) or disturbed (no sample had its \
                 CPU for 97 % of the time): other programs run, or this is a virtual machine whose host has other work; \
                 repeat the measurement when nothing else runs"
            ));
        }
        if self.host.cpus < self.online_cpus {
            lines.push(format!(
                "only {} of {} CPUs may be used (affinity or a cpuset): the description has all {}, and no figure \
                 covers the others",
                self.host.cpus, self.online_cpus, self.online_cpus
            ));
        }
        if !self.huge_pages {
            lines.push(
                "huge pages are off (/sys/kernel/mm/transparent_hugepage/enabled): latencies of the last level and of \
                 memory include misses of the TLB"
                    .to_owned(),
            );
        }
        if self.quick {
            lines.push("--quick takes few samples: do not use the figures".to_owned());
        }
        if self.fit.is_some_and(|fit| !fit.reached) {
            lines.push("the simulator does not reach the measured page faults of one process at any `pace`".to_owned());
        }
        let of_rows = || self.faults.iter().filter(|row| row.faults_per_s.is_some());
        let missing = of_rows().filter(|row| row.predicted_per_s.is_none()).count();
        if missing > 0 && !self.interrupted {
            let why = if self.fit.is_none() {
                "one process was not measured, and the pace is fitted to it; add 1 to --tasks"
            } else {
                "the minute is over; `pageset-lab sim page_fault1 --machine FILE --tasks N` simulates them"
            };
            lines.push(format!("{missing} of {} rows have no prediction: {why}", of_rows().count()));
        }
        lines
    }
}

#[cfg(test)]
pub(super) fn example() -> Measured {
    let figure = |samples: &[f64], over: &str| {
        let over = over.to_owned();
        Figure { samples: samples.to_vec(), over, ..Figure::default() }
    };
    let none = |why: &str| Figure::none(why.to_owned());
    let disturbed = Figure { disturbed: true, discarded: 4, ..figure(&[200.0], "64 MiB") };
    let quantities = [
        (Quantity::L1, figure(&[1.5, 1.5, 1.52], "16 KiB")),
        (Quantity::Memory, disturbed),
        (Quantity::RemoteMemory, none("only one socket")),
        (Quantity::SameLastLevel, figure(&[30.0, 40.0, 50.0], "3 pairs of CPUs")),
        (Quantity::SameSocket, figure(&[100.0], "9 pairs of CPUs")),
        (Quantity::Atomic, figure(&[5.0], "")),
        (Quantity::Turbo, figure(&[0.99], "8 cores")),
    ];
    let mut rows = vec![
        Row::new(Tasks::Processes, 1, Figure { discarded: 1, ..figure(&[1e6, 1.01e6], "") }),
        Row::new(Tasks::Processes, 2, figure(&[1.5e6], "")),
        Row::new(Tasks::Threads, 1, figure(&[0.9e6], "")),
        Row::new(Tasks::Threads, 2, none("tasks need 257 MiB; 100 MiB of memory are free")),
    ];
    (rows[0].predicted_per_s, rows[0].fitted) = (Some(1_005_100.0), true);
    rows[1].predicted_per_s = Some(1.8e6);
    Measured {
        schema: SCHEMA.to_owned(),
        host: MachineFacts { processor: "P".to_owned(), kernel: "6.18.1".to_owned(), cpus: 2 },
        online_cpus: 8,
        kernel: Kernel::of("6.18.1"),
        huge_pages: true,
        quick: false,
        interrupted: false,
        quantities: quantities.map(|(quantity, figure)| Measurement::new(quantity, figure)).into(),
        faults: rows,
        fit: Some(Fit { pace: 1.2345, reached: true }),
        description: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_name_what_not_to_trust() {
        let warnings = example().warnings();
        assert!(warnings[0].starts_with("2 of 9 figures are noisy (spread above 10 %) or disturbed "), "{warnings:?}");
        assert!(warnings[1].starts_with("only 2 of 8 CPUs may be used"), "{warnings:?}");
        assert!(warnings[2].starts_with("1 of 3 rows have no prediction: the minute is over"), "{warnings:?}");
        assert_eq!(warnings.len(), 3);
        let mut other = example();
        (other.huge_pages, other.quick, other.fit, other.host.cpus) = (false, true, None, 8);
        let warnings = other.warnings();
        assert!(warnings[1].starts_with("huge pages are off") && warnings[2].starts_with("--quick"), "{warnings:?}");
        assert!(warnings[3].ends_with("one process was not measured, and the pace is fitted to it; add 1 to --tasks"));
        other.fit = Some(Fit { pace: 0.01, reached: false });
        assert!(other.warnings()[3].starts_with("the simulator does not reach"), "{:?}", other.warnings());
        other.interrupted = true;
        assert!(!other.warnings().iter().any(|line| line.contains("no prediction")));
    }

    #[test]
    fn json_has_samples_and_predictions() {
        let json = serde_json::to_value(example()).unwrap();
        assert_eq!(json["quantities"][1]["quantity"], "memory");
        assert_eq!(
            (&json["quantities"][1]["disturbed"], &json["quantities"][1]["median"]),
            (&true.into(), &200.0.into())
        );
        assert_eq!(json["quantities"][2]["missing"], "only one socket");
        assert_eq!(
            (&json["faults"][0]["kind"], &json["faults"][0]["samples"][1]),
            (&"processes".into(), &1.01e6.into())
        );
        assert_eq!((&json["kernel"]["rules"], &json["kernel"]["era"]), (&"linux-6.18".into(), &"linux-6.10".into()));
        assert!(json["kernel"].get("tuning").is_none());
    }
}
