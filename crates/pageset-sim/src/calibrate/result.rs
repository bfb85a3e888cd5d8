//! The results of fits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fit, Goal, SCHEMA, SHARED_SCHEMA, Sharing, Target};
use crate::era::Era;
use crate::machine::Fitted;
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
    /// The costs and the machines.
    #[serde(flatten)]
    pub sharing: Sharing,
}

impl SharedFit {
    /// The result of a fit with simulations like `run`.
    pub fn new(run: &Run<'_>, sharing: Sharing, seeds: u32) -> SharedFit {
        SharedFit { schema: SHARED_SCHEMA.to_owned(), how: Simulated::of(run, seeds), sharing }
    }
}
