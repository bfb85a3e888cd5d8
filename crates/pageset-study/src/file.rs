//! The study file: lists of machines, workloads, rules, settings, tasks and seeds, as TOML.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::Path;

use pageset_rules::{Chosen, KERNEL, RuleSet, suggestion};
use pageset_sim::era::Era;
use pageset_sim::machine::{self, Machine};
use pageset_sim::time::Time;
use pageset_sim::workload::{Length, WORKLOADS, Workload};
use serde::Deserialize;
use toml::Spanned;

use crate::error::FileError;

/// The largest number of cells. A guess: ten times a study that keeps a thousand cores busy for hours.
const MOST_CELLS: u64 = 10_000_000;
/// The largest number of seeds.
const MOST_SEEDS: i64 = 1_000_000;
/// The longest virtual time of one run, in seconds, as for `pageset-lab sim`.
const MOST_SECONDS: f64 = 100_000.0;
/// The word for all CPUs of a machine in `tasks`.
const ALL_CPUS: &str = "all";

/// A study: every combination of its lists is a cell.
#[derive(Debug)]
pub struct Study {
    /// The name of the file without its extension.
    pub name: String,
    /// The machines, each with its numbers of tasks.
    pub machines: Vec<(Machine, Vec<u32>)>,
    /// The workloads, each with its virtual time.
    pub workloads: Vec<(&'static Workload, Length)>,
    /// The sets of rules with all combinations of the settings.
    pub rules: Vec<Rules>,
    /// The keys of the settings, in the order of [`Rules::settings`].
    pub keys: Vec<String>,
    /// Each combination runs with the seeds 1 to this number.
    pub seeds: u64,
    /// The other files that the study reads: machines and rules.
    pub files: Vec<String>,
}

/// A set of rules with one combination of settings.
#[derive(Debug)]
pub struct Rules {
    /// The rules; the name contains the settings.
    pub set: RuleSet,
    /// The kernel's era.
    pub era: Era,
    /// The value of each of [`Study::keys`].
    pub settings: Vec<String>,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    machines: Spanned<Vec<Spanned<String>>>,
    workloads: Spanned<Vec<Spanned<String>>>,
    rules: Option<Spanned<Vec<Spanned<String>>>>,
    tasks: Option<Spanned<Vec<Spanned<Scalar>>>>,
    seeds: Option<Spanned<i64>>,
    seconds: Option<Spanned<f64>>,
    warm_up: Option<Spanned<f64>>,
    era: Option<Spanned<String>>,
    #[serde(default)]
    set: BTreeMap<String, Spanned<Vec<Scalar>>>,
}

/// A number, a text, or a switch.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a number, a text, true or false")]
enum Scalar {
    Switch(bool),
    Integer(i64),
    Real(f64),
    Text(String),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
            Scalar::Integer(number) => number.fmt(f),
            Scalar::Real(number) => number.fmt(f),
            Scalar::Text(text) => f.write_str(text),
        }
    }
}

/// A file while it is parsed: its path and text, for messages.
struct Source<'f> {
    path: &'f str,
    text: &'f str,
}

impl Source<'_> {
    fn wrong(&self, bytes: Range<usize>, what: impl ToString) -> FileError {
        FileError::at(self.path, self.text, Some(bytes), &what.to_string())
    }

    /// The elements of a list without duplicates.
    fn list<'a, T>(&self, name: &str, list: &'a Spanned<Vec<Spanned<T>>>) -> Result<&'a [Spanned<T>], FileError>
    where
        T: PartialEq + fmt::Display,
    {
        let items = list.get_ref();
        if items.is_empty() {
            return Err(self.wrong(list.span(), format!("`{name}` is empty; give at least one")));
        }
        let twice = (1..items.len()).find(|&i| items[..i].iter().any(|item| item.get_ref() == items[i].get_ref()));
        match twice {
            Some(i) => Err(self.wrong(items[i].span(), format!("{} is given twice; remove one", items[i].get_ref()))),
            None => Ok(items),
        }
    }

    /// The path of a file that the study names: relative to the study's folder.
    fn beside(&self, name: &str) -> String {
        let folder = Path::new(self.path).parent().unwrap_or(Path::new(""));
        folder.join(name).to_string_lossy().into_owned()
    }

    fn machine(&self, name: &Spanned<String>) -> Result<Machine, FileError> {
        let file = self.beside(name.get_ref());
        if name.get_ref().ends_with(".toml") {
            let text = fs::read_to_string(&file)
                .map_err(|error| self.wrong(name.span(), format!("cannot read {file}: {error}")))?;
            return Machine::parse(&file, &text).map_err(|error| FileError::new(self.path, error.to_string()));
        }
        let found = machine::find(name.get_ref()).ok_or_else(|| {
            let meant = suggestion(name.get_ref(), machine::SHIPPED.iter().map(|(name, _)| *name));
            self.wrong(
                name.span(),
                format!("unknown machine `{}`{meant}; `pageset-lab machine list` lists all", name.get_ref()),
            )
        })?;
        found.map_err(|error| self.wrong(name.span(), error))
    }

    fn workload(&self, name: &Spanned<String>) -> Result<&'static Workload, FileError> {
        Workload::find(name.get_ref()).ok_or_else(|| {
            let meant = suggestion(name.get_ref(), WORKLOADS.iter().map(|workload| workload.name));
            let what = format!("unknown workload `{}`{meant}; `pageset-lab sim --list` lists all", name.get_ref());
            self.wrong(name.span(), what)
        })
    }

    /// The numbers of tasks on a machine with this many CPUs, without duplicates.
    fn tasks(&self, list: Option<&Spanned<Vec<Spanned<Scalar>>>>, cpus: u32) -> Result<Vec<u32>, FileError> {
        let Some(list) = list else { return Ok(vec![cpus]) };
        let mut all = Vec::new();
        for item in self.list("tasks", list)? {
            let tasks = match item.get_ref() {
                Scalar::Text(word) if word == ALL_CPUS => Some(cpus),
                Scalar::Integer(number) => u32::try_from(*number).ok().filter(|&tasks| tasks > 0),
                _ => None,
            };
            let what = || format!("tasks {}; allowed: 1 and above, or \"{ALL_CPUS}\" for all CPUs", item.get_ref());
            let tasks = tasks.ok_or_else(|| self.wrong(item.span(), what()))?;
            if !all.contains(&tasks) {
                all.push(tasks);
            }
        }
        Ok(all)
    }

    fn seconds(&self, key: &str, value: Option<&Spanned<f64>>) -> Result<Option<Time>, FileError> {
        let Some(value) = value else { return Ok(None) };
        let seconds = *value.get_ref();
        if !(1e-6..=MOST_SECONDS).contains(&seconds) {
            let what = format!("{key} = {seconds}; allowed: 0.000001 to {MOST_SECONDS} virtual seconds");
            return Err(self.wrong(value.span(), what));
        }
        // Whole nanoseconds, so that the description of a cell holds the time exactly.
        Ok(Some(Time::from_ns((seconds * 1e9).round())))
    }

    /// The values of one setting, as text.
    fn values(&self, key: &str, list: &Spanned<Vec<Scalar>>) -> Result<Vec<String>, FileError> {
        let values: Vec<String> = list.get_ref().iter().map(Scalar::to_string).collect();
        let twice = (1..values.len()).find(|&i| values[..i].contains(&values[i]));
        match twice {
            _ if values.is_empty() => {
                Err(self.wrong(list.span(), format!("`{key}` is empty; give at least one value")))
            }
            Some(i) => Err(self.wrong(list.span(), format!("{key} = {} is given twice; remove one", values[i]))),
            None => Ok(values),
        }
    }

    /// All sets of rules with all combinations of settings; the last key changes fastest.
    fn rules(&self, raw: &Raw, era: Option<Era>) -> Result<Vec<Rules>, FileError> {
        let mut combinations = vec![Vec::new()];
        for (key, list) in &raw.set {
            let values = self.values(key, list)?;
            let with = |before: &Vec<String>| {
                let before = before.clone();
                values.iter().map(move |value| before.iter().chain([value]).cloned().collect()).collect::<Vec<_>>()
            };
            combinations = combinations.iter().flat_map(with).collect();
            if combinations.len() as u64 > MOST_CELLS {
                return Err(self.wrong(list.span(), too_many(combinations.len() as u64)));
            }
        }
        let keys: Vec<&String> = raw.set.keys().collect();
        let mut seen = HashSet::new();
        let default = Spanned::new(0..0, "pageset".to_owned());
        let names = match &raw.rules {
            Some(list) => self.list("rules", list)?,
            None => std::slice::from_ref(&default),
        };
        let mut all: Vec<Rules> = Vec::new();
        for name in names {
            let mut words = name.get_ref().split_whitespace();
            let set = words.next().unwrap_or_default();
            if set == KERNEL {
                let what = format!(
                    "cannot use the rules `{KERNEL}` in a study: a study has no recording, and its workers may run under other \
                     kernels; write the name of a preset, such as linux-6.18 (`pageset` names that of this machine's kernel)"
                );
                return Err(self.wrong(name.span(), what));
            }
            let set = if set.ends_with(".toml") { self.beside(set) } else { set.to_owned() };
            let own: Vec<String> = words.map(str::to_owned).collect();
            for values in &combinations {
                let swept = keys.iter().zip(values).map(|(key, value)| format!("{key}={value}"));
                let settings: Vec<String> = own.iter().cloned().chain(swept).collect();
                let sets = Chosen::parse(std::slice::from_ref(&set), &settings, false).and_then(|chosen| chosen.sets());
                let sets = sets.map_err(|error| {
                    let what = error.to_string().replace("--set ", "");
                    let at = keys.iter().zip(values).find(|(key, value)| what.contains(&format!("{key}={value}")));
                    let bytes = at.and_then(|(key, _)| raw.set.get(*key)).map_or(name.span(), Spanned::span);
                    self.wrong(bytes, what)
                })?;
                for set in sets {
                    if set.cache_slice_pages.is_some() {
                        let what = "cache_slice_pages: a simulation takes the caches of its machine; change llc_kib in a machine file";
                        return Err(
                            self.wrong(raw.set.get("cache_slice_pages").map_or(name.span(), Spanned::span), what)
                        );
                    }
                    if !seen.insert(set.name.clone()) {
                        return Err(self.wrong(name.span(), format!("two sets of rules have the name {}", set.name)));
                    }
                    let era = era.unwrap_or_else(|| Era::of_rules(&set.name));
                    all.push(Rules { set, era, settings: values.clone() });
                }
            }
        }
        Ok(all)
    }
}

fn too_many(cells: u64) -> String {
    format!("{cells} cells; allowed: up to {MOST_CELLS}")
}

impl Study {
    /// Reads a study file and the files that it names.
    pub fn read(path: &Path) -> Result<Study, FileError> {
        let name = path.to_string_lossy();
        let bytes = fs::read(path).map_err(|error| FileError::unreadable(&name, &error))?;
        let text = String::from_utf8(bytes).map_err(|error| FileError::new(&name, error.to_string()))?;
        Study::parse(&name, &text)
    }

    /// Parses a study file. `path` is for messages, and the folder of other files.
    pub fn parse(path: &str, text: &str) -> Result<Study, FileError> {
        let raw: Raw =
            toml::from_str(text).map_err(|error| FileError::at(path, text, error.span(), error.message()))?;
        let source = Source { path, text };
        let mut machines: Vec<(Machine, Vec<u32>)> = Vec::new();
        for name in source.list("machines", &raw.machines)? {
            let machine = source.machine(name)?;
            if machines.iter().any(|(other, _)| other.name == machine.name) {
                return Err(source.wrong(name.span(), format!("two machines have the name {}", machine.name)));
            }
            let tasks = source.tasks(raw.tasks.as_ref(), machine.topology().cpus())?;
            machines.push((machine, tasks));
        }
        let warm_up = source.seconds("warm_up", raw.warm_up.as_ref())?;
        let time = source.seconds("seconds", raw.seconds.as_ref())?;
        let mut workloads = Vec::new();
        for name in source.list("workloads", &raw.workloads)? {
            let workload = source.workload(name)?;
            let own = workload.length;
            let length = Length { warm_up: warm_up.unwrap_or(own.warm_up), time: time.unwrap_or(own.time) };
            workloads.push((workload, length));
        }
        let era =
            raw.era.as_ref().map(|era| era.get_ref().parse().map_err(|what: String| source.wrong(era.span(), what)));
        let rules = source.rules(&raw, era.transpose()?)?;
        let seeds = match &raw.seeds {
            Some(seeds) if !(1..=MOST_SEEDS).contains(seeds.get_ref()) => {
                let what = format!("seeds = {}; allowed: 1 to {MOST_SEEDS}", seeds.get_ref());
                return Err(source.wrong(seeds.span(), what));
            }
            Some(seeds) => *seeds.get_ref() as u64,
            None => 1,
        };
        // Changes may follow the name of rules, and not that of a machine.
        let of_rules = raw.rules.iter().flat_map(|rules| rules.get_ref());
        let of_rules = of_rules.filter_map(|name| name.get_ref().split_whitespace().next());
        let names = raw.machines.get_ref().iter().map(|name| name.get_ref().as_str()).chain(of_rules);
        let study = Study {
            name: Path::new(path).file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            files: names.filter(|name| name.ends_with(".toml")).map(str::to_owned).collect(),
            keys: raw.set.into_keys().collect(),
            machines,
            workloads,
            rules,
            seeds,
        };
        match study.count() {
            count if count > MOST_CELLS => Err(FileError::new(path, too_many(count))),
            _ => Ok(study),
        }
    }

    /// The number of cells.
    pub fn count(&self) -> u64 {
        let places: usize = self.machines.iter().map(|(_, tasks)| tasks.len()).sum();
        [places, self.workloads.len(), self.rules.len()].iter().fold(self.seeds, |n, len| n.saturating_mul(*len as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "machines = ['lkp-sb02']\nworkloads = ['malloc1']\n";

    #[test]
    fn every_combination_is_a_cell() {
        let text = "machines = ['lkp-sb02', 'lkp-bdw-ep2']\nworkloads = ['malloc1', 'page_fault1']\n\
                    rules = ['linux-4.17', 'pageset']\ntasks = [1, 4, 'all']\nseeds = 3\nseconds = 0.5\n\
                    [set]\nbatch = [31, 63]\nmerge_by_type = [true]\n";
        let study = Study::parse("a/b.toml", text).unwrap();
        assert_eq!(
            study.machines.iter().map(|(_, tasks)| tasks.clone()).collect::<Vec<_>>(),
            [vec![1, 4], vec![1, 4, 88]]
        );
        assert_eq!((study.name.as_str(), study.count()), ("b", 5 * 2 * 4 * 3));
        let names: Vec<&str> = study.rules.iter().map(|rules| rules.set.name.as_str()).collect();
        assert_eq!(names[0], "linux-4.17 batch=31 merge_by_type=on");
        assert_eq!(study.rules[3].settings, ["63", "on"]);
        assert_eq!((study.rules[0].era, study.rules[3].era), (Era::Linux4_16, Era::Linux6_10));
        assert_eq!(study.workloads[0].1.time, Time::from_seconds(0.5));
        assert_eq!(study.workloads[0].1.warm_up, Length::ROUNDS.warm_up);
    }

    #[test]
    fn errors_name_file_and_line() {
        let no_seeds = format!("s.toml, line 3: seeds = 0; allowed: 1 to {MOST_SEEDS}");
        for (more, message) in [
            ("task = [1]", "s.toml, line 3: unknown field `task`, expected one of `machines`"),
            ("tasks = [0]", "s.toml, line 3: tasks 0; allowed: 1 and above, or \"all\" for all CPUs"),
            ("tasks = [\n1,\n1]", "s.toml, line 5: 1 is given twice; remove one"),
            ("tasks = []", "s.toml, line 3: `tasks` is empty; give at least one"),
            ("seeds = 0", no_seeds.as_str()),
            (
                "seeds = 1000000\n[set]\nbatch = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]",
                "s.toml: 11000000 cells; allowed: ",
            ),
            ("seconds = -1.0", "s.toml, line 3: seconds = -1; allowed: 0.000001 to 100000 virtual seconds"),
            ("era = 'x'", "s.toml, line 3: unknown era `x`; allowed: linux-4.16"),
            ("rules = ['linux-4.17', 'linx']", "s.toml, line 3: unknown rules `linx`; the closest are "),
            (
                "rules = ['linux-4.17', 'kernel batch=31']",
                "s.toml, line 3: cannot use the rules `kernel` in a study: a study has no recording, and its workers may run under \
                 other kernels; write the name of a preset, such as linux-6.18",
            ),
            ("rules = ['mine.toml']", "s.toml, line 3: mine.toml: No such file"),
            ("[set]\nbatch = [31]\nbath = [3]", "s.toml, line 5: bath=3: unknown rule `bath`; the closest are batch, "),
            ("[set]\nbatch = [31, 0]", "s.toml, line 4: batch=0: allowed: 1 to 65536 pages"),
            ("[set]\nbatch = []", "s.toml, line 4: `batch` is empty"),
            (
                "[set]\nbatch = [31]\ncache_slice_pages = [1, 2]",
                "s.toml, line 5: cache_slice_pages: a simulation takes ",
            ),
            ("[set]\nbatch = 31", "s.toml, line 4: invalid type: integer"),
            ("x = ", "s.toml, line 3: "),
        ] {
            let error = Study::parse("s.toml", &format!("{SMALL}{more}\n")).unwrap_err().to_string();
            assert!(error.starts_with(message), "{more}: {error}");
        }
        let error = |text| Study::parse("s.toml", text).unwrap_err().to_string();
        let unknown = error("workloads = ['malloc1']\nmachines = [\n'lkp-sb2']");
        assert!(
            unknown.starts_with("s.toml, line 3: unknown machine `lkp-sb2`; the closest are lkp-sb02, "),
            "{unknown}"
        );
        let unknown = error("machines = ['lkp-sb02']\nworkloads = ['malloc']");
        assert!(
            unknown.starts_with("s.toml, line 2: unknown workload `malloc`; the closest are malloc1, "),
            "{unknown}"
        );
        assert!(error("workloads = ['malloc1']").contains("missing field `machines`"));
    }
}
