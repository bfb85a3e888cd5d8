//! `pageset-lab predict`: predicts from a recording what another batch or high does, makes that setting in the same kernel with
//! `linux/module/settings.c`, records the load again, and compares. Modules in call order: `module`, `compare`.

mod compare;
mod module;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use pageset_rules::Chosen;
use pageset_trace::Trace;
use pageset_trace::measure::{How, Measured};
use pageset_trace::replay;

use self::compare::{Amounts, Comparison, NO_SETTING, RECORDED, REPLAYED, Row, SETTINGS, Table};
use super::definition::{Boot, Lab, Workload};
use super::progress::Progress;
use super::tool::{at, run as command};
use super::{Runner, guest, initramfs, packages};
use crate::error::{Exit, Failure};
use crate::output::{self, Output};

/// Predict what another batch or high does in a stock kernel, and measure it there
///
/// Boots kernels of the lab under QEMU. Write a prediction, keep it, and measure it: the settings are made by a module that is
/// built with the kernel's headers. Needs the sources of pageset, Debian, and root.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder for kernels, recordings and results
    #[arg(long, global = true, value_name = "DIR", default_value = "target/lab/predict")]
    dir: PathBuf,

    /// The definition file [default: lab/predict.toml]
    #[arg(long, global = true, value_name = "FILE")]
    definition: Option<PathBuf>,

    /// The `pageset` of guests, packed with its libraries [default: a static build of the repository's]
    #[arg(long, global = true, value_name = "FILE")]
    guest_pageset: Option<PathBuf>,

    #[command(subcommand)]
    command: Part,
}

#[derive(clap::Subcommand)]
enum Part {
    /// Record loads, replay them under each setting, and write the prediction
    Write {
        /// KERNEL.MACHINE of the definition file
        boot: String,

        /// Write the prediction to FILE, which must not exist
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
    },
    /// Make each setting in the kernel, record the loads again, and compare
    Measure {
        /// The prediction
        prediction: PathBuf,

        /// Write what is measured to FILE
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
    },
    /// Compare a prediction with what was measured
    Compare {
        /// The prediction
        prediction: PathBuf,

        /// What was measured
        measured: PathBuf,
    },
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let failed = |error| Failure::new(Exit::Failed, error);
    match &args.command {
        Part::Write { boot, output } => {
            if output.exists() {
                let error =
                    format!("cannot write {}: a prediction is written once; name another file", output.display());
                return Err(failed(error));
            }
            output::check(output)?;
            let table = Guest::new(args).and_then(|guest| guest.predict(boot)).map_err(failed)?;
            write(output, &table)?;
            eprintln!("{}: keep it, then run `pageset-lab predict measure`", output.display());
            Ok(Exit::Done)
        }
        Part::Measure { prediction, output } => {
            output::check(output)?;
            let predicted = read(prediction)?;
            let measured = Guest::new(args).and_then(|guest| guest.measure(&predicted)).map_err(failed)?;
            write(output, &measured)?;
            show(&predicted, &measured)
        }
        Part::Compare { prediction, measured } => show(&read(prediction)?, &read(measured)?),
    }
}

fn read(path: &Path) -> Result<Table, Failure> {
    let text = at(path, fs::read_to_string(path)).map_err(|error| Failure::new(Exit::Unreadable, error))?;
    Table::parse(&text).map_err(|error| Failure::new(Exit::Damaged, format!("{}: {error}", path.display())))
}

fn write(path: &Path, table: &Table) -> Result<(), Failure> {
    let mut out = Output::create(path)?;
    out.write_all(table.csv().as_bytes())?;
    Ok(out.commit()?)
}

/// Prints the comparison. Exit code 1 if a setting was not measured.
fn show(predicted: &Table, measured: &Table) -> Result<Exit, Failure> {
    let comparison = Comparison::new(predicted, measured).map_err(|error| Failure::new(Exit::Damaged, error))?;
    output::print(&comparison.text())?;
    Ok(if comparison.is_complete() { Exit::Done } else { Exit::Failed })
}

/// The kernel of a guest, and what is put into it.
struct Guest<'a> {
    args: &'a Args,
    lab: Lab,
    dir: PathBuf,
}

/// A load under a setting, as a workload of its own. The recorder empties the lists with a sysctl after which the kernel computes the
/// sizes anew, so the recorded command makes the setting. Without the module it fails.
fn under(load: &Workload, setting: &str) -> Workload {
    let mut changed = load.clone();
    changed.name = format!("{}@{setting}", load.name);
    let command = load.command.replace('\'', r"'\''");
    changed.command = format!("sh -c 'insmod /settings.ko {setting} && exec {command}'");
    changed.after = format!("rmmod pageset_settings\n{}", load.after);
    changed
}

impl<'a> Guest<'a> {
    fn new(args: &'a Args) -> Result<Self, String> {
        let default = || initramfs::repository().join("lab/predict.toml");
        let lab = Lab::read(&args.definition.clone().unwrap_or_else(default))?;
        at(&args.dir, fs::create_dir_all(&args.dir))?;
        let dir = at(&args.dir, fs::canonicalize(&args.dir))?;
        Ok(Guest { args, lab, dir })
    }

    /// Records each load, and replays it under each setting.
    fn predict(self, boot: &str) -> Result<Table, String> {
        self.record(boot, false)?;
        let mut rows = Vec::new();
        for load in self.workloads(boot)? {
            let trace = self.recording(boot, &load)?;
            rows.push(Row { load: load.clone(), setting: RECORDED.into(), amounts: replayed(&trace, None)?.0 });
            for setting in [NO_SETTING].into_iter().chain(SETTINGS) {
                let (_, amounts) = replayed(&trace, (setting != NO_SETTING).then_some(setting))?;
                rows.push(Row { load: load.clone(), setting: setting.into(), amounts });
            }
        }
        Ok(Table { boot: boot.into(), written: now()?, rows })
    }

    /// Records each load of a prediction without a setting and under each.
    fn measure(mut self, predicted: &Table) -> Result<Table, String> {
        let boot = &predicted.boot;
        let known = self.workloads(boot)?;
        if let Some(unknown) = predicted.loads().iter().find(|load| !known.iter().any(|known| known == *load)) {
            return Err(format!("the definition has no load `{unknown}` for {boot}"));
        }
        self.lab.workloads.retain(|load| predicted.loads().contains(&&*load.name));
        let settings = |load: &Workload| {
            let of_load = predicted.rows.iter().filter(|row| row.load == load.name);
            of_load
                .map(|row| row.setting.clone())
                .filter(|setting| ![RECORDED, NO_SETTING].contains(&&**setting))
                .collect()
        };
        let each = |load: Workload| {
            let settings: Vec<String> = settings(&load);
            let changed: Vec<_> = settings.iter().map(|setting| under(&load, setting)).collect();
            std::iter::once(load).chain(changed)
        };
        self.lab.workloads = std::mem::take(&mut self.lab.workloads).into_iter().flat_map(each).collect();
        self.record(boot, true)?;
        let mut rows = Vec::new();
        for name in self.workloads(boot)? {
            let (load, setting) = name.split_once('@').unwrap_or((&name, NO_SETTING));
            match self.rows(boot, load, setting) {
                Ok(of_recording) => rows.extend(of_recording),
                Err(reason) => eprintln!("gap: {name}: {reason}"),
            }
        }
        Ok(Table { boot: boot.clone(), written: now()?, rows })
    }

    /// What the kernel did in a recording of a measurement, and, under a setting, what the replay of the same recording does.
    fn rows(&self, boot: &str, load: &str, setting: &str) -> Result<Vec<Row>, String> {
        let row = |setting: String, amounts| Row { load: load.into(), setting, amounts };
        if setting == NO_SETTING {
            return Ok(vec![row(setting.into(), replayed(&self.recording(boot, load)?, None)?.0)]);
        }
        let (amounts, replay) = replayed(&made(self.recording(boot, &format!("{load}@{setting}"))?, setting), None)?;
        Ok(vec![row(setting.into(), amounts), row(format!("{setting}{REPLAYED}"), replay)])
    }

    fn boot(&self, name: &str) -> Result<Boot<'_>, String> {
        let boots = self.lab.boots();
        let names = || boots.iter().map(Boot::name).collect::<Vec<_>>().join(", ");
        let found = boots.iter().find(|boot| boot.name() == name);
        found.copied().ok_or_else(|| format!("no boot is named {name}; the definition has {}", names()))
    }

    fn workloads(&self, boot: &str) -> Result<Vec<String>, String> {
        Ok(self.lab.workloads(self.boot(boot)?).iter().map(|load| load.name.clone()).collect())
    }

    fn recording(&self, boot: &str, load: &str) -> Result<Trace, String> {
        let path = self.dir.join("recordings").join(format!("{boot}.{load}.pstrace"));
        let trace = Trace::open(&path).map_err(|error| error.to_string())?;
        succeeded(trace.facts().command_status)?;
        Ok(trace)
    }

    /// Boots the kernel and records all loads, with the module that makes settings if `sets`.
    fn record(&self, name: &str, sets: bool) -> Result<(), String> {
        let boot = self.boot(name)?;
        let runner = Runner { lab: &self.lab, dir: self.dir.clone(), again: false, jobs: None };
        runner.fetch(&[boot.kernel])?;
        let (arch, pageset) = (boot.kernel.arch(), self.args.guest_pageset.as_deref());
        let mut programs = initramfs::Programs::build(arch, &self.dir, &self.lab.suites, pageset)?;
        if sets {
            let (root, headers) = packages::build_root(boot.kernel, &self.dir)?;
            programs.add("settings.ko", module::build(&root, &headers)?);
        }
        // What an earlier boot recorded is no answer to this one.
        for load in self.lab.workloads(boot) {
            let _ = fs::remove_file(self.dir.join(format!("recordings/{name}.{}.pstrace", load.name)));
        }
        let progress = Progress::new(1);
        let ended = runner.boot_one(boot, &programs, &progress);
        let failed = runner.report(boot, ended, &progress);
        progress.clear();
        let said = guest::ended(&self.dir, name).and_then(|ended| ended.failed);
        if failed { Err(said.unwrap_or_else(|| "the boot failed".into())) } else { Ok(()) }
    }
}

/// Refuses a recording whose command failed: the module did not load, or the load did not run to its end.
fn succeeded(status: Option<i32>) -> Result<(), String> {
    match status {
        Some(0) => Ok(()),
        Some(code) => Err(format!("the module did not load, or the load failed with exit code {code}")),
        None => Err("the load did not end by itself".into()),
    }
}

/// A recording in which the module made a setting, with the bounds of `high` that the kernel may not print.
fn made(trace: Trace, setting: &str) -> Trace {
    match setting.strip_prefix("high=").and_then(|pages| pages.parse().ok()) {
        Some(high) => trace.with_bounds_set(high, high),
        None => trace,
    }
}

/// What the kernel did in a recording, and what it does under a setting by the replay of its rules.
fn replayed(trace: &Trace, setting: Option<&str>) -> Result<(Amounts, Amounts), String> {
    let set: Vec<String> = setting.into_iter().map(str::to_owned).collect();
    let chosen = Chosen::parse(&["kernel".to_owned()], &set, true).map_err(|error| error.to_string())?;
    let how = How { level: replay::Level::Input, only: Vec::new() };
    let result = Measured::new(trace, &chosen, &how, &mut |_| {}).map_err(|error| error.to_string())?.result;
    let row = result.rules.first().ok_or("the replay has no row")?;
    let operations = result.trace.operations;
    Ok((Amounts::of(operations, &result.kernel.totals), Amounts::of(operations, &row.totals)))
}

fn now() -> Result<String, String> {
    Ok(command("date", ["-u", "+%FT%TZ"])?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without its setting a load does not run: the recording would be of the kernel's own sizes.
    #[test]
    fn a_module_that_does_not_load() {
        let lab = Lab::parse(include_str!("../../../../../lab/predict.toml")).unwrap();
        let load = under(&lab.workloads[0], "batch=31");
        assert_eq!((load.name.as_str(), load.after.as_str()), ("unix1@batch=31", "rmmod pageset_settings\n"));
        let run = |insmod: &str| {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in [("insmod", insmod), ("wl", "echo wl \"$@\"")] {
                let path = folder.path().join(name);
                fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
                command("chmod", ["+x", &path.to_string_lossy()]).unwrap();
            }
            command("sh", ["-c", &format!("PATH={}:$PATH; {}", folder.path().display(), load.command)])
        };
        assert_eq!(run("echo insmod \"$@\"").unwrap(), "insmod /settings.ko batch=31\nwl unix 3 1\n");
        assert_eq!(run("exit 1").unwrap_err(), "`sh` failed: it wrote no error");
    }

    /// The words of a load are the same with a setting as without one, quotes included.
    #[test]
    fn a_load_with_quotes() {
        let lab = Lab::parse(include_str!("../../../../../lab/predict.toml")).unwrap();
        let mut load = lab.workloads[0].clone();
        load.command = r#"printf '<%s>' 'a  b' "c'd" "'e f'""#.to_owned();
        let printed = |load: &Workload| command("sh", ["-c", &load.command]).unwrap();
        let mut changed = under(&load, "batch=31");
        changed.command = changed.command.replace("insmod /settings.ko batch=31", "true");
        assert_eq!(printed(&changed), "<a  b><c'd><'e f'>");
        assert_eq!(printed(&load), printed(&changed));
    }

    /// A recording whose command failed is no measurement, though it can be replayed.
    #[test]
    fn a_load_that_failed() {
        assert_eq!(succeeded(Some(0)), Ok(()));
        assert!(succeeded(Some(1)).unwrap_err().ends_with("exit code 1"));
        assert_eq!(succeeded(None).unwrap_err(), "the load did not end by itself");
    }

    #[test]
    fn a_prediction_of_a_recording() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/lab/6.12-amd64.4cpu.unix1.pstrace");
        let trace = Trace::open(&path).unwrap();
        let (recorded, replayed_alone) = replayed(&trace, None).unwrap();
        let (same, small) = replayed(&trace, Some("batch=31")).unwrap();
        assert_eq!(recorded, same);
        assert_eq!(recorded.operations, small.operations);
        // Half the batch takes about twice the refills.
        let ratio = small.moved[0] as f64 / replayed_alone.moved[0] as f64;
        assert!((1.5..3.0).contains(&ratio), "{recorded:?} {small:?}");
        assert!(replayed(&trace, Some("batch=0")).unwrap_err().contains("batch"));
    }

    /// The page has one row for each measurement that is in the repository, with its counts.
    #[test]
    fn the_page_has_the_counts_of_the_files() {
        let docs = initramfs::repository().join("docs");
        let page = fs::read_to_string(docs.join("trust.md")).unwrap();
        let section = page.split("\n## ").find(|section| section.starts_with("Advice and predictions\n")).unwrap();
        // The first line of the table is its heading; the next one has no cells.
        let mut shown: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
        shown.sort_unstable();
        let mut rows = Vec::new();
        for entry in fs::read_dir(docs.join("predictions")).unwrap() {
            let path = entry.unwrap().path();
            let Some(boot) = path.to_str().unwrap().strip_suffix(".measured.csv") else { continue };
            let table = |path: &Path| Table::parse(&fs::read_to_string(path).unwrap()).unwrap();
            let (predicted, measured) = (table(Path::new(&format!("{boot}.predicted.csv"))), table(&path));
            assert!(predicted.written < measured.written, "{boot}");
            let comparison = Comparison::new(&predicted, &measured).unwrap();
            rows.push(format!("| {} | {} |", predicted.boot, comparison.row()));
        }
        rows.sort_unstable();
        assert_eq!(shown, rows, "docs/trust.md shows other rows than docs/predictions has");
    }

    #[test]
    fn every_kernel_of_the_definition_names_suites_for_its_headers() {
        let lab = Lab::parse(include_str!("../../../../../lab/predict.toml")).unwrap();
        assert!(lab.kernels.iter().all(|kernel| !kernel.headers.is_empty()));
        assert!(lab.boots().iter().all(|boot| lab.workloads(*boot).len() >= 5 && boot.record() == ["--empty-lists"]));
    }
}
