//! The results of fits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fit, Goal, SCHEMA, SHARED_SCHEMA, Sharing, Target};
use crate::era::Era;
use crate::machine::{Fitted, Machine, Shared};
use crate::os::History;
use crate::run::Run;

/// How the rows of a fit were simulated.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct Simulated {
    /// Upper limit of the virtual time that each simulation measures.
    pub measured_ns: u64,
    /// The past of the memory.
    #[serde(default)]
    pub history: History,
    /// Virtual time before the measurement.
    pub warm_up_ns: u64,
    /// Precision at which a measurement ends early; 0 if the full time is measured.
    pub precision_pct: f64,
    /// Seeds of each simulation.
    pub seeds: Vec<u64>,
}

impl Simulated {
    fn of(run: &Run<'_>, seeds: u32) -> Simulated {
        Simulated {
            measured_ns: run.time.whole_ns(),
            warm_up_ns: run.warm_up.whole_ns(),
            history: run.history,
            precision_pct: run.precision_pct.unwrap_or(0.0),
            seeds: (1..=u64::from(seeds)).collect(),
        }
    }
}

/// The fitted pace of a machine.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct Calibration {
    /// [`SCHEMA`].
    pub schema: String,
    /// The machine's name.
    pub machine: String,
    /// The era of the row's kernel.
    pub era: Era,
    /// How the row was simulated.
    #[serde(flatten)]
    pub how: Simulated,
    /// The published row. The fit sees its score only.
    pub published: Target,
    /// The simulated row. The fit does not use its contention.
    pub simulated: Target,
    /// The fitted number.
    pub fitted: Fitted,
}

impl Calibration {
    /// The result of a fit with simulations like `run`.
    pub fn new(run: &Run<'_>, goal: &Goal, fit: &Fit, seeds: u32) -> Calibration {
        Calibration {
            schema: SCHEMA.to_owned(),
            machine: run.machine.name.clone(),
            era: run.era,
            how: Simulated::of(run, seeds),
            published: goal.row,
            simulated: fit.simulated,
            fitted: fit.fitted,
        }
    }
}

/// The shared costs, and how well they predict machines that were left out.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct SharedFit {
    /// [`SHARED_SCHEMA`].
    pub schema: String,
    /// How the rows were simulated.
    #[serde(flatten)]
    pub how: Simulated,
    /// The costs that are set on the rows of all machines together.
    pub shared: Shared,
    /// Whether one of these costs is at the limit of its range, so that the fit would go further.
    pub at_limit: bool,
    /// The machines of a fit of shared costs, one member each.
    pub machines: Vec<Judged>,
}

/// One machine of a fit of the shared costs. All rows are simulated at pace 1.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct Judged {
    /// The machine's name.
    pub machine: String,
    /// The published row.
    pub published: Target,
    /// The row with the costs that are set on all machines.
    pub simulated: Target,
    /// The costs that are set on all other machines.
    #[schemars(extend("bad" = "Far from shared: the machine does not fit in with the others."))]
    pub shared_of_others: Shared,
    /// Whether one of these costs is at the limit of the range in which it was searched: 0.70 to 1.42 times the middle
    /// of the range, which docs/archive/accuracy.md names.
    #[schemars(extend("bad" = "True: the fit would go further, so the prediction is not that of the best costs."))]
    pub at_limit: bool,
    /// The standard deviation of simulated rows around that surface: chance, and what the surface cannot follow. Unit:
    /// percentage points of zone lock and of LRU lock contention.
    #[schemars(extend("bad" = "More than the difference that counts.", "todo" = "Longer runs, and more seeds."))]
    pub scatter: [f64; 2],
    /// The row of a machine with the costs of the other machines, on the surface through all its simulations, which
    /// averages over chance.
    pub expected: Target,
    /// The row simulated with the costs of the others: a prediction.
    pub predicted: Target,
}

impl SharedFit {
    /// The result of a fit with simulations like `run`.
    pub fn new(run: &Run<'_>, machines: &[Machine], goals: &[Goal], sharing: &Sharing, seeds: u32) -> SharedFit {
        let judged = |(place, machine): (usize, &Machine)| Judged {
            machine: machine.name.clone(),
            published: goals[place].row,
            simulated: sharing.simulated[place],
            shared_of_others: sharing.left_out[place].shared,
            at_limit: sharing.left_out[place].at_limit,
            scatter: sharing.scatter[place],
            expected: sharing.left_out[place].expected,
            predicted: sharing.left_out[place].simulated,
        };
        SharedFit {
            schema: SHARED_SCHEMA.to_owned(),
            how: Simulated::of(run, seeds),
            shared: sharing.shared,
            at_limit: sharing.at_limit,
            machines: machines.iter().enumerate().map(judged).collect(),
        }
    }
}
