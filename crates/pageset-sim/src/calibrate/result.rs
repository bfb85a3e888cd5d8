//! The result of a fit.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cost, Fit, Goal, SCHEMA, Target, Vector};
use crate::era::Era;
use crate::machine::Calibrated;
use crate::run::Run;

/// The fitted costs of a machine and their precision.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct Calibration {
    /// [`SCHEMA`].
    pub schema: String,
    /// The machine's name.
    pub machine: String,
    /// The era of the rows' kernel.
    pub era: Era,
    /// Upper limit of the virtual time that each simulation measures.
    pub measured_ns: u64,
    /// Virtual time before the measurement.
    pub warm_up_ns: u64,
    /// Precision at which a measurement ends early; 0 if the full time is measured.
    pub precision_pct: f64,
    /// Seeds of each simulation.
    pub seeds: Vec<u64>,
    /// The rows that the costs were fitted to.
    pub published: Vec<Target>,
    /// The simulated rows with these costs.
    pub simulated: Vec<Target>,
    /// The costs.
    pub calibrated: Calibrated,
    /// Standard error of each fitted cost, relative to the cost; null if rows and guesses do not determine it. Empty if
    /// the fit was interrupted.
    pub relative_errors: IndexMap<String, Option<f64>>,
}

impl Calibration {
    /// The result of a fit with simulations like `run`.
    #[must_use]
    pub fn new(run: &Run<'_>, goal: &Goal, fit: &Fit, precision_pct: f64, seeds: u32) -> Calibration {
        let error = |(cost, errors): (&Cost, Vector)| {
            (cost.key().to_owned(), Some(errors[*cost as usize]).filter(|error| error.is_finite()))
        };
        Calibration {
            schema: SCHEMA.to_owned(),
            machine: run.machine.name.clone(),
            era: run.era,
            measured_ns: run.time.whole_ns(),
            warm_up_ns: run.warm_up.whole_ns(),
            precision_pct,
            seeds: (1..=u64::from(seeds)).collect(),
            published: goal.rows.clone(),
            simulated: fit.simulated.clone(),
            calibrated: fit.costs,
            relative_errors: fit
                .errors
                .iter()
                .flat_map(|errors| goal.costs.iter().map(|c| error((c, *errors))))
                .collect(),
        }
    }
}
