//! The cells of a study: description and address.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pageset_rules::RuleSet;
use pageset_sim::era::Era;
use pageset_sim::machine::Machine;
use pageset_sim::run::Run;
use pageset_sim::workload::{Length, Workload};
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::file::{Rules, Study};

/// The schema of a finished cell. It is part of every address.
pub const SCHEMA: &str = "pageset.cell/1";
/// Hex digits of an address: 128 bits, so that two of a million cells share an address with a chance of 1 in 10^26.
const ADDRESS_DIGITS: usize = 32;

/// A cell: indices into the lists of a study.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    machine: u32,
    workload: u32,
    rules: u32,
    /// Number of tasks.
    pub tasks: u32,
    /// The seed.
    pub seed: u64,
}

/// What defines the outcome of a cell. Its JSON is the text that the address is the hash of.
#[derive(Serialize)]
struct Description<'a> {
    schema: &'static str,
    version: &'static str,
    machine: &'a RawValue,
    workload: &'a str,
    warm_up_ns: u64,
    measured_ns: u64,
    rules: &'a RawValue,
    tasks: u32,
    seed: u64,
}

/// The part of a description that a set of rules defines.
#[derive(Serialize)]
struct DescribedRules<'a> {
    name: &'a str,
    era: Era,
    keys: BTreeMap<&'static str, String>,
}

/// The cells of a study, in the order of the table of results: by machine, workload, rules, tasks and seed.
pub struct Cells<'s> {
    study: &'s Study,
    all: Vec<Cell>,
    machines: Vec<Box<RawValue>>,
    rules: Vec<Box<RawValue>>,
}

/// The hash of `text` in hex digits.
pub(crate) fn sha256(text: &[u8]) -> String {
    Sha256::digest(text).iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

impl<'s> Cells<'s> {
    /// All cells of `study`.
    ///
    /// # Errors
    /// A machine or a set of rules has no JSON. No study has such a one.
    pub fn of(study: &'s Study) -> serde_json::Result<Cells<'s>> {
        let mut all = Vec::with_capacity(study.count() as usize);
        for (machine, (_, tasks)) in study.machines.iter().enumerate() {
            for workload in 0..study.workloads.len() as u32 {
                for rules in 0..study.rules.len() as u32 {
                    for &tasks in tasks {
                        let machine = machine as u32;
                        all.extend((1..=study.seeds).map(|seed| Cell { machine, workload, rules, tasks, seed }));
                    }
                }
            }
        }
        let described = |rules: &Rules| {
            let keys = rules.set.by_key().into_iter().map(|(key, value)| (key, value.to_string())).collect();
            serde_json::value::to_raw_value(&DescribedRules { name: &rules.set.name, era: rules.era, keys })
        };
        Ok(Cells {
            study,
            all,
            machines: study
                .machines
                .iter()
                .map(|(machine, _)| serde_json::value::to_raw_value(machine))
                .collect::<Result<_, _>>()?,
            rules: study.rules.iter().map(described).collect::<Result<_, _>>()?,
        })
    }

    /// All cells, in order.
    pub fn all(&self) -> &[Cell] {
        &self.all
    }

    /// The study.
    pub fn study(&self) -> &'s Study {
        self.study
    }

    /// The machine of a cell.
    pub fn machine(&self, cell: Cell) -> &'s Machine {
        &self.study.machines[cell.machine as usize].0
    }

    /// The rules of a cell.
    pub fn rules(&self, cell: Cell) -> &'s Rules {
        &self.study.rules[cell.rules as usize]
    }

    /// The workload of a cell and its virtual time.
    pub fn workload(&self, cell: Cell) -> (&'static Workload, Length) {
        self.study.workloads[cell.workload as usize]
    }

    /// The text that defines the outcome of a cell: one line of JSON.
    pub fn description(&self, cell: Cell) -> serde_json::Result<String> {
        let (workload, length) = self.workload(cell);
        serde_json::to_string(&Description {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            machine: &self.machines[cell.machine as usize],
            workload: workload.name,
            warm_up_ns: length.warm_up.whole_ns(),
            measured_ns: length.time.whole_ns(),
            rules: &self.rules[cell.rules as usize],
            tasks: cell.tasks,
            seed: cell.seed,
        })
    }

    /// The run of a cell: the same as a row of `pageset-lab sim`.
    pub fn run(&self, cell: Cell) -> Run<'s> {
        let (workload, Length { warm_up, time }) = self.workload(cell);
        let Rules { set: RuleSet { tuning, high_fraction, .. }, era, .. } = self.rules(cell);
        Run {
            workload,
            machine: self.machine(cell),
            tuning: *tuning,
            era: *era,
            high_fraction: high_fraction.unwrap_or(0),
            tasks: cell.tasks,
            warm_up,
            time,
            detect_warm_up: false,
            precision_pct: None,
            whole: true,
            seed: cell.seed,
        }
    }

    /// A cell in words.
    pub fn named(&self, cell: Cell) -> String {
        let (workload, machine, rules) = (self.workload(cell).0.name, &self.machine(cell).name, self.rules(cell));
        format!(
            "{workload} on {machine}, {}, era {}, {} tasks, seed {}",
            rules.set.name, rules.era, cell.tasks, cell.seed
        )
    }
}

/// The address of a description.
pub fn address(description: &str) -> String {
    let mut hex = sha256(description.as_bytes());
    hex.truncate(ADDRESS_DIGITS);
    hex
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn addresses(text: &str) -> Vec<String> {
        let study = Study::parse("s.toml", text).unwrap();
        let cells = Cells::of(&study).unwrap();
        cells.all().iter().map(|&cell| address(&cells.description(cell).unwrap())).collect()
    }

    const SMALL: &str = "machines = ['lkp-sb02']\nworkloads = ['malloc1']\nseeds = 2\ntasks = [1, 2]\n";

    #[test]
    fn all_that_changes_an_outcome_changes_the_address() {
        let first = &addresses(SMALL)[0];
        let mut all = BTreeSet::from([first.clone()]);
        for change in
            ["seconds = 0.2", "warm_up = 0.2", "era = 'linux-4.16'", "rules = ['linux-4.17']", "[set]\nbatch = [7]"]
        {
            let own = addresses(&format!("{SMALL}{change}"));
            assert!(own.into_iter().all(|address| all.insert(address)), "{change}");
        }
        for (from, to) in [("lkp-sb02", "lkp-hsw-d01"), ("malloc1", "malloc2")] {
            assert!(addresses(&SMALL.replace(from, to)).into_iter().all(|address| all.insert(address)), "{to}");
        }
        // What does not change the outcome of a cell keeps its address: a larger study reuses the cells of a smaller.
        let more = addresses(&SMALL.replace("seeds = 2", "seeds = 3"));
        assert_eq!(more.len(), 6);
        assert!(addresses(SMALL).iter().all(|address| more.contains(address)));
        assert!(first.len() == 32 && more[0] == *first, "{first}");
    }

    /// Not only names: machines and rules of one name with other numbers are other cells.
    #[test]
    fn a_number_in_a_file_changes_the_address() {
        let folder = tempfile::tempdir().unwrap();
        let study = folder.path().join("s.toml");
        let text = "machines = ['m.toml']\nworkloads = ['malloc1']\nrules = ['r.toml']\ntasks = [1]\n";
        let (_, machine) = pageset_sim::machine::SHIPPED.iter().find(|(name, _)| *name == "lkp-sb02").unwrap();
        let address_of = |memory: &str, batch: u32| {
            let changed = machine.replace("memory_gib = 4", memory);
            std::fs::write(folder.path().join("m.toml"), changed).unwrap();
            std::fs::write(folder.path().join("r.toml"), format!("base = 'linux-4.17'\nbatch = {batch}\n")).unwrap();
            let study = Study::parse(study.to_str().unwrap(), text).unwrap();
            let cells = Cells::of(&study).unwrap();
            address(&cells.description(cells.all()[0]).unwrap())
        };
        assert!(machine.contains("memory_gib = 4\n"));
        let all = [("memory_gib = 4", 31), ("memory_gib = 16", 31), ("memory_gib = 4", 63)];
        let addresses: BTreeSet<String> = all.iter().map(|(memory, batch)| address_of(memory, *batch)).collect();
        assert_eq!(addresses.len(), 3);
    }

    /// A new rule, version of pageset or value of the machine changes an address, and nothing else should.
    #[test]
    fn a_cell_keeps_its_address() {
        let study = "machines = ['lkp-sb02']\nworkloads = ['malloc1']\nrules = ['linux-4.17']\ntasks = [1]\nseconds = 0.001\n\
                     warm_up = 0.001\n";
        assert_eq!(addresses(study), ["92159ec5675eca8c73fb28175279d5e8"]);
    }
}
