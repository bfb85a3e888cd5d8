//! `pageset-lab study`: the same bytes whatever happens to the workers, and messages for bad input.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::{command, ends, json, pageset};

/// 48 cells of some milliseconds each.
const SMALL: &str = "machines = ['lkp-sb02']\nworkloads = ['malloc1', 'page_fault1']\nrules = ['linux-4.17', 'pageset']\n\
                     tasks = [1, 'all']\nseeds = 3\nseconds = 0.01\nwarm_up = 0.005\n[set]\nbatch = [31, 63]\n";
const CELLS: usize = 48;

/// A folder with a study file.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(study: &str) -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        fs::write(folder.study(), study).unwrap();
        folder
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn study(&self) -> PathBuf {
        self.at("s.toml")
    }

    /// Runs the study into the folder `out`, and returns what it prints.
    fn run(&self, code: i32, out: &str, more: &[&str]) -> (String, String) {
        let (study, out) = (self.study(), self.at(out));
        let mut arguments: Vec<&dyn AsRef<Path>> = vec![&"study", &"run", &study, &"--out", &out];
        arguments.extend(more.iter().map(|word| word as &dyn AsRef<Path>));
        ends(code, &arguments)
    }

    fn table(&self, out: &str) -> Vec<u8> {
        fs::read(self.at(out).join("results.parquet")).unwrap()
    }

    /// The files of cells in `out`, those that are finished or those that failed.
    fn cells(&self, out: &str, extension: &str) -> Vec<PathBuf> {
        let folders = fs::read_dir(self.at(out).join("cells")).into_iter().flatten();
        let files = folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
        files.map(|file| file.unwrap().path()).filter(|file| file.extension().unwrap() == extension).collect()
    }
}

#[test]
fn ten_kills_change_no_byte_and_repeat_no_finished_cell() {
    let folder = Folder::new(SMALL);
    let (out, err) = folder.run(0, "one", &["--jobs", "1"]);
    assert!(out.starts_with("48 cells: 48 finished now, 0 found, 0 failed; "), "{out}");
    assert_eq!(err, "", "a pipe shows no progress");

    let mut random = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut progress = Vec::new();
    for _ in 0..10 {
        let mut child = command(&[&"study", &"run", &folder.study(), &"--out", &folder.at("killed"), &"--jobs", &"2"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        thread::sleep(Duration::from_millis(10 + (random >> 33) % 40));
        child.kill().unwrap();
        child.wait().unwrap();
        progress.push(folder.cells("killed", "jsonl").len());
    }
    let finished = *progress.last().unwrap();
    assert!(progress.is_sorted(), "a kill lost a finished cell: {progress:?}");
    assert!(progress[0] < CELLS, "the first kill came after the last cell, and tests nothing");
    let (out, _) = folder.run(0, "killed", &["--jobs", "2"]);
    let expected = format!("48 cells: {} finished now, {finished} found, 0 failed; ", CELLS - finished);
    assert!(out.starts_with(&expected), "{progress:?}: {out}");
    assert_eq!(folder.table("killed"), folder.table("one"));
}

#[test]
fn shards_and_duplicate_workers_give_the_same_bytes() {
    let folder = Folder::new(SMALL);
    folder.run(0, "one", &["--jobs", "1"]);
    let study = folder.study();
    let together = |out: &str, more: [&[&str]; 3]| {
        let out = folder.at(out);
        let start = |more: &&[&str]| {
            let mut command = command(&[&"study", &"run", &study, &"--out", &out, &"--jobs", &"2"]);
            command.args(*more).stdout(Stdio::null()).spawn().unwrap()
        };
        let children: Vec<_> = more.iter().map(start).collect();
        children.into_iter().for_each(|mut child| assert!(child.wait().unwrap().success()));
    };
    together("twins", [&[], &[], &[]]);
    assert_eq!(folder.table("twins"), folder.table("one"));

    together("shards", [&["--shard", "0/3"], &["--shard", "2/3"], &["--shard", "2/3"]]);
    let (out, table) = (folder.at("shards"), folder.at("table.parquet"));
    let (text, _) = ends(1, &[&"study", &"collect", &study, &"--out", &out, &"-o", &table]);
    assert!(text.starts_with("32 of 48 cells are in ") && text.matches(": not finished\n").count() == 16, "{text}");
    together("shards", [&["--shard", "0/3"], &["--shard", "1/3"], &["--shard", "2/3"]]);
    ends(0, &[&"study", &"collect", &study, &"--out", &out, &"-o", &table]);
    assert_eq!(fs::read(&table).unwrap(), folder.table("one"));
}

#[test]
fn a_failing_cell_is_listed_and_the_others_finish() {
    let folder = Folder::new(&SMALL.replace("[1, 'all']", "[5, 1]").replace("seeds = 3", "seeds = 1"));
    for _ in 0..2 {
        let (out, _) = folder.run(1, "out", &["--jobs", "2"]);
        assert!(out.contains(" 8 failed; ") && out.contains("\n8 of 16 cells are in "), "{out}");
        let line = "missing: malloc1 on lkp-sb02, linux-4.17 batch=31, era linux-4.16, 5 tasks, seed 1: \
                    5 tasks on 4 CPUs; allowed: 1 to 4\n";
        assert!(out.contains(line) && out.matches("missing: ").count() == 8, "{out}");
        assert_eq!([folder.cells("out", "jsonl").len(), folder.cells("out", "failed").len()], [8, 8]);
    }
    let (out, _) = folder.run(1, "shard", &["--shard", "0/1"]);
    assert!(out.matches("failed: ").count() == 8, "{out}");
}

#[test]
fn a_damaged_cell_is_reported_and_runs_again() {
    let folder = Folder::new(SMALL);
    folder.run(0, "out", &[]);
    let whole = folder.table("out");
    let cells = folder.cells("out", "jsonl");
    let text = fs::read_to_string(&cells[0]).unwrap();
    fs::write(&cells[0], text.replacen("\"operations\":", "\"operations\":9", 1)).unwrap();
    fs::write(&cells[1], &text[..100]).unwrap();
    fs::remove_file(&cells[2]).unwrap();
    let (study, out) = (folder.study(), folder.at("out"));
    let (text, _) = ends(1, &[&"study", &"collect", &study, &"--out", &out]);
    assert!(text.starts_with("45 of 48 cells are in "), "{text}");
    for damage in ["damaged: the checksum differs\n", "damaged: no checksum\n", ": not finished\n"] {
        assert_eq!(text.matches(damage).count(), 1, "{text}");
    }
    let (text, _) = folder.run(0, "out", &[]);
    assert!(text.starts_with("48 cells: 3 finished now, 45 found, 0 failed; "), "{text}");
    assert!(folder.table("out") == whole);
}

/// A file that cannot be read concerns its own cell: the others finish, and have rows.
#[test]
fn a_cell_that_cannot_be_read_is_listed_and_the_others_finish() {
    let folder = Folder::new(SMALL);
    folder.run(0, "out", &[]);
    let cells = folder.cells("out", "jsonl");
    fs::remove_file(&cells[0]).unwrap();
    fs::create_dir(&cells[0]).unwrap();
    fs::remove_file(&cells[1]).unwrap();
    let (text, _) = folder.run(1, "out", &[]);
    assert!(text.starts_with("48 cells: 1 finished now, 46 found, 1 failed; "), "{text}");
    assert!(text.contains("\n47 of 48 cells are in ") && text.matches("missing: ").count() == 1, "{text}");
    let message = format!(": cannot read {}: Is a directory (os error 21)\n", cells[0].display());
    assert!(text.contains(&message), "{text}");
}

/// Where nothing can be read, the table stays as it was.
#[test]
fn a_folder_that_cannot_be_read_replaces_no_table() {
    let folder = Folder::new(SMALL);
    folder.run(0, "out", &[]);
    let whole = folder.table("out");
    for cell in folder.cells("out", "jsonl") {
        fs::remove_file(&cell).unwrap();
        fs::create_dir(&cell).unwrap();
    }
    let (study, out) = (folder.study(), folder.at("out"));
    let (text, err) = ends(1, &[&"study", &"collect", &study, &"--out", &out]);
    assert!(text.is_empty() && err.starts_with("error: cannot read ") && err.contains("Is a directory"), "{text}{err}");
    assert!(folder.table("out") == whole);
}

/// Somebody removes a part of the folder during a run: it is made again, and nothing is lost.
#[test]
fn a_folder_that_loses_a_part_is_mended() {
    let folder = Folder::new(&SMALL.replace("seeds = 3", "seeds = 20"));
    let out = folder.at("out");
    let mut child = command(&[&"study", &"run", &folder.study(), &"--out", &out, &"--jobs", &"1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    while folder.cells("out", "jsonl").len() < 3 && child.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    // A file that appears meanwhile makes the removal fail.
    while fs::remove_dir_all(out.join("tmp")).is_err() && out.join("tmp").exists() {}
    let ran = child.wait_with_output().unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success() && text.starts_with("320 cells: 320 finished now, 0 found, 0 failed; "), "{text}");
}

#[test]
fn a_table_on_standard_output_has_no_text_in_it() {
    let folder = Folder::new(SMALL);
    folder.run(0, "out", &[]);
    let (study, out) = (folder.study(), folder.at("out"));
    let output = pageset(&[&"study", &"collect", &study, &"--out", &out, &"-o", &"-"]);
    assert!(output.status.success());
    assert_eq!(output.stdout, folder.table("out"));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "48 of 48 cells are in -\n");
    // A folder that is not there: the exit code of every output that cannot be written.
    let table = folder.at("none/table.parquet");
    let (_, err) = ends(6, &[&"study", &"collect", &study, &"--out", &out, &"-o", &table]);
    assert!(err.starts_with(&format!("error: cannot write {}: No such file", table.display())), "{err}");
}

#[test]
fn options_of_another_executor_are_refused() {
    let folder = Folder::new(SMALL);
    for (options, message) in [
        (&["--dry-run"][..], "cannot use --dry-run with --executor local; allowed: --executor slurm or kubernetes"),
        (
            &["--sbatch=--qos=x", "--executor", "kubernetes"],
            "cannot use --sbatch with --executor kubernetes; allowed: --executor slurm",
        ),
        (
            &["--shard", "0/4", "--executor", "slurm"],
            "cannot use --shard with --executor slurm; allowed: --executor local",
        ),
        (&["--image", "x"], "cannot use --image with --executor local; allowed: --executor kubernetes"),
    ] {
        let (out, err) = folder.run(2, "out", options);
        assert!(out.is_empty() && err.starts_with(&format!("error: {message}\n")), "{err}");
        assert!(!folder.at("out").exists());
    }
}

#[test]
fn a_cell_is_a_row_of_sim() {
    let folder = Folder::new(SMALL);
    folder.run(0, "out", &[]);
    let arguments = "sim page_fault1 --machine lkp-sb02 --rules linux-4.17 --set batch=63 --tasks 4 --seconds 0.01 \
                     --warm-up 0.005 --seeds 3 --json";
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let (run, _) = ends(0, &arguments.iter().map(|word| word as &dyn AsRef<Path>).collect::<Vec<_>>());
    let run = json(&run);
    let cells = folder.cells("out", "jsonl");
    for sample in run["rows"][0]["samples"].as_array().unwrap() {
        let is_it = |cell: &&PathBuf| fs::read_to_string(cell).unwrap().contains(&format!("\"sample\":{sample}"));
        let cell = cells.iter().find(is_it).unwrap_or_else(|| panic!("no cell has {sample}"));
        let described = json(fs::read_to_string(cell).unwrap().lines().next().unwrap());
        assert_eq!(described["rules"]["name"], "linux-4.17 batch=63");
        assert_eq!((&described["seed"], described["tasks"].as_u64()), (&sample["seed"], Some(4)));
    }
    // The same figures in a report of the table and of the result.
    let (table, json) = (folder.at("out").join("results.parquet"), folder.at("run.json"));
    fs::write(&json, run.to_string()).unwrap();
    let report = |input: &Path| ends(0, &[&"report", &input, &"--markdown", &"-o", &"-"]).0;
    let (of_table, of_run) = (report(&table), report(&json));
    let score = of_run.lines().find(|line| line.starts_with("| linux-4.17 batch=63 | ")).unwrap();
    let score = score.split(" | ").nth(1).unwrap().trim_end_matches(" |");
    assert!(score.contains(" to ") && of_table.contains(score), "{score}\n{of_table}");
    assert!(of_table.contains("at most 3 seeds") && of_table.contains("# malloc1 on lkp-sb02"), "{of_table}");
}

#[test]
fn a_file_that_is_no_table_is_refused() {
    let folder = Folder::new(SMALL);
    folder.run(0, "out", &[]);
    let table = folder.table("out");
    let path = folder.at("cut.parquet");
    for length in [4, 100, table.len() - 1] {
        fs::write(&path, &table[..length]).unwrap();
        let (_, err) = ends(4, &[&"report", &path, &"-o", &"-"]);
        assert!(err.starts_with(&format!("error: {}: ", path.display())), "{err}");
    }
}

#[test]
fn invalid_files_name_file_and_line() {
    let folder = Folder::new("");
    let machine = |from: &str, to: &str| {
        let (text, _) = ends(0, &[&"machine", &"show", &"lkp-sb02"]);
        assert!(text.contains(from), "{text}");
        fs::write(folder.at("mine.toml"), text.replace(from, to)).unwrap();
    };
    let refused = |study: &str| {
        fs::write(folder.study(), study).unwrap();
        let (out, err) = folder.run(4, "out", &[]);
        assert!(out.is_empty() && !folder.at("out").exists(), "{out}");
        err.replace(&format!("{}/", folder.0.path().display()), "")
    };
    let mine = "machines = ['mine.toml']\nworkloads = ['malloc1']\nseconds = 0.01\nwarm_up = 0.01\n";
    machine("sockets = 1", "sockets = 5000");
    let error = refused(mine);
    assert!(
        error.starts_with("error: s.toml: mine.toml, line ") && error.contains(", sockets: 20000 CPUs in all"),
        "{error}"
    );
    machine("[guessed]", "[guessed]\nmodel = 3");
    let error = refused(mine);
    assert!(error.starts_with("error: s.toml: mine.toml, line ") && error.contains("unknown field `model`"), "{error}");
    let error = refused("machines = ['lkp-sb02']\nworkload = ['malloc1']\n");
    assert!(error.starts_with("error: s.toml, line 2: unknown field `workload`, expected one of "), "{error}");
    assert!(error.contains("\nhelp: a study file has lines such as machines = ['vm-8']"), "{error}");
    let (_, error) = ends(5, &[&"study", &"plan", &folder.at("missing.toml")]);
    assert!(error.starts_with("error: cannot read ") && error.contains("missing.toml: No such file"), "{error}");
    // Files lie next to the study.
    machine("sockets = 1", "sockets = 2");
    fs::write(folder.study(), mine).unwrap();
    folder.run(0, "out", &[]);
}

/// Runs a study in a file system of its own, mounted with `options`. `None` if this host does not allow that.
fn on_tmpfs(options: &str) -> Option<(i32, String)> {
    let folder = Folder::new(SMALL);
    let out = folder.at("out");
    fs::create_dir(&out).unwrap();
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script, "sh"]);
        command.arg(&out).arg(options).arg(crate::PROGRAM).arg(folder.study()).output()
    };
    let mount = "mount -t tmpfs -o \"$2\" tmpfs \"$1\"";
    if !unshare(mount).is_ok_and(|output| output.status.success()) {
        println!("SKIPPED a study on a file system of its own: no permission to mount one");
        return None;
    }
    let output = unshare(&format!("{mount} && exec \"$3\" study run \"$4\" --out \"$1\" --jobs 2")).unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    Some((output.status.code().unwrap(), err.replace(&format!("{}", out.display()), "OUT")))
}

#[test]
fn a_read_only_and_a_full_folder_are_named() {
    let help = "\nhelp: finished cells are kept; mend the cause and run the study again\n";
    if let Some((code, err)) = on_tmpfs("ro") {
        let message = format!("error: cannot create OUT/tmp: Read-only file system (os error 30){help}");
        assert_eq!((code, err), (1, message));
    }
    // Room for the folders and some of the cells.
    if let Some((code, err)) = on_tmpfs("size=40k") {
        assert_eq!(code, 1, "{err}");
        let full = err.starts_with("error: cannot write OUT/cells/") && err.contains("No space left on device");
        assert!(full && err.ends_with(help), "{err}");
    }
}

#[test]
fn the_plan_has_every_address_once() {
    let folder = Folder::new(SMALL);
    let (plan, _) = ends(0, &[&"study", &"plan", &folder.study()]);
    let head = "48 cells: 2 numbers of tasks on 1 machine x 2 workloads x 4 sets of rules x 3 seeds\n\n";
    let mut addresses: Vec<&str> = plan.strip_prefix(head).unwrap().lines().map(|line| &line[..32]).collect();
    addresses.sort_unstable();
    addresses.dedup();
    folder.run(0, "out", &[]);
    let mut files: Vec<String> = folder
        .cells("out", "jsonl")
        .iter()
        .map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort_unstable();
    assert_eq!(addresses, files);
}

#[test]
fn the_script_of_slurm_runs_every_shard() {
    let folder = Folder::new(SMALL);
    let (script, _) = folder.run(
        0,
        "it's here",
        &[
            "--executor",
            "slurm",
            "--dry-run",
            "--shards",
            "3",
            "--jobs",
            "2",
            "--parallelism",
            "2",
            "--sbatch=--partition=short",
        ],
    );
    // Slurm does not create the folder of its logs.
    assert!(
        script.contains("/it'\\''s here/slurm'\n") && script.contains("\n# Before sbatch: mkdir -p '/"),
        "{script}"
    );
    assert!(
        script.contains("\n#SBATCH --array=0-2%2\n") && script.contains("\n#SBATCH --partition=short\n"),
        "{script}"
    );
    for shard in 0..3 {
        let mut shell = Command::new("sh");
        let ran = shell.args(["-c", &script]).env("SLURM_ARRAY_TASK_ID", shard.to_string()).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        assert!(String::from_utf8(ran.stdout).unwrap().starts_with("16 cells: 16 finished now, 0 found, 0 failed; "));
    }
    let (out, _) = folder.run(0, "it's here", &[]);
    assert!(out.starts_with("48 cells: 0 finished now, 48 found, 0 failed; "), "{out}");
    assert!(!folder.at("it's here/slurm").exists(), "a dry run writes nothing");
    let refused = folder.run(2, "50%", &["--executor", "slurm", "--dry-run"]).1;
    assert!(refused.contains("Slurm cannot write logs there"), "{refused}");
}

/// Reads a value as a type of the real schema, and checks that the type has all of it.
fn of_schema<T: serde::de::DeserializeOwned + serde::Serialize>(value: &serde_json::Value) {
    let typed: T = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), *value);
}

#[test]
fn the_manifest_of_kubernetes_has_the_real_schema() {
    let folder = Folder::new(SMALL);
    let options =
        ["--executor", "kubernetes", "--dry-run", "--image", "pageset:1", "--claim", "shared", "--shards", "4"];
    // The folder is on the claim, so it is relative.
    let mut command = command(&[&"study", &"run", &folder.study(), &"--out", &"batches"]);
    let output = command.args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let list = json(&String::from_utf8(output.stdout).unwrap());
    // Another study, folder or division is another Job, with a config map of its own that does not change.
    let name = list["items"][1]["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("pageset-s-") && name.len() == 18, "{name}");
    assert_eq!((&list["items"][0]["metadata"]["name"], &list["items"][0]["immutable"]), (&name.into(), &true.into()));
    let other = Folder::new(&SMALL.replace("seeds = 3", "seeds = 4"));
    for (folder, out, shards, same) in [
        (&folder, "batches", "4", true),
        (&other, "batches", "4", false),
        (&folder, "others", "4", false),
        (&folder, "batches", "5", false),
    ] {
        let mut command = crate::support::command(&[&"study", &"run", &folder.study(), &"--out", &out]);
        let mut options = options;
        options[8] = shards;
        let list = json(&String::from_utf8(command.args(options).output().unwrap().stdout).unwrap());
        assert_eq!(list["items"][1]["metadata"]["name"] == name, same, "{out} {shards}");
    }
    of_schema::<k8s_openapi::api::core::v1::ConfigMap>(&list["items"][0]);
    of_schema::<k8s_openapi::api::batch::v1::Job>(&list["items"][1]);
    let (map, job) = (&list["items"][0], &list["items"][1]);
    assert_eq!(map["data"]["s.toml"], SMALL);
    assert_eq!([&job["spec"]["completions"], &job["spec"]["parallelism"]], [4, 4]);
    // The container's command, run here as the kubelet would: one shard after the other.
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["command"], serde_json::json!(["pageset-lab"]));
    let words = container["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    let words: Vec<String> =
        words.map(|word| word.replace("/results/", &format!("{}/", folder.0.path().display()))).collect();
    for shard in 0..4 {
        let here = |word: &String| word.replace("$(SHARD)", &shard.to_string());
        let words: Vec<String> = words
            .iter()
            .map(here)
            .map(|word| word.replace("/study/s.toml", folder.study().to_str().unwrap()))
            .collect();
        let ran = pageset(&words.iter().map(|word| word as &dyn AsRef<Path>).collect::<Vec<_>>());
        assert!(String::from_utf8(ran.stdout).unwrap().starts_with("12 cells: 12 finished now, 0 found, 0 failed; "));
    }
    for (missing, message) in [("--image", "--image is missing"), ("--claim", "--claim is missing")] {
        let mut options = options.to_vec();
        let at = options.iter().position(|option| *option == missing).unwrap();
        options.drain(at..at + 2);
        let mut command = crate::support::command(&[&"study", &"run", &folder.study(), &"--out", &"batches"]);
        let output = command.args(options).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8(output.stderr).unwrap().contains(message));
    }
}

/// A report of a study trusts it no more than `sim` trusts the same simulations.
#[test]
fn a_report_of_cells_that_have_not_settled_says_so() {
    let folder = Folder::new(
        "machines = ['vm-8']\nworkloads = ['page_fault1']\nrules = ['linux-4.17', 'linux-6.18']\n\
         tasks = [8]\nseeds = 2\nseconds = 0.01\nwarm_up = 0.01\n",
    );
    let (out, _) = folder.run(0, "out", &[]);
    let table = folder.at("out/results.parquet");
    assert!(out.ends_with(&format!("next: pageset-lab report {}\n", table.display())), "{out}");
    let page = folder.at("page.md");
    ends(0, &[&"report", &table, &"-o", &page]);
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("Trust: low") && text.contains("2 rows have not settled"), "{text}");
}
