//! A study as an array job of Slurm. The nodes share the study, the folder of results and this command.

use std::fs;
use std::io::{self, Write as _};

use pageset_study::cell::Cells;

use super::RunArgs;
use super::scheduler::{absolute, give, job_name, own_command, print};
use crate::error::{Exit, Failure};

/// Submits the job, or prints its script.
pub(super) fn submit(cells: &Cells<'_>, args: &RunArgs) -> Result<Exit, Failure> {
    let script = script(cells, args)?;
    if args.scheduled.dry_run {
        return print(&script);
    }
    let logs = args.out.join("slurm");
    fs::create_dir_all(&logs)
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot create {}: {error}", logs.display())))?;
    let job = give("sbatch", &["--parsable"], &script)?;
    let (file, out) = (args.file.display(), args.out.display());
    writeln!(io::stdout(), "submitted job {job}; when it has ended: pageset-lab study collect {file} --out {out}")?;
    Ok(Exit::Done)
}

/// A word of a shell script.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn script(cells: &Cells<'_>, args: &RunArgs) -> Result<String, Failure> {
    let shards = args.scheduled.shards(cells);
    let out = absolute(&args.out)?;
    if out.contains(['%', '"', '\\']) {
        let message = format!("{out}: Slurm cannot write logs there; allowed: paths without %, \" and \\");
        return Err(Failure::new(Exit::Usage, message));
    }
    let workers = args.jobs.map_or(1, std::num::NonZeroUsize::get);
    let at_once = args.scheduled.parallelism.map(|most| format!("%{most}")).unwrap_or_default();
    let mut script = format!(
        "#!/bin/sh\n\
         # Before sbatch: mkdir -p {}\n\
         #SBATCH --job-name={}\n\
         #SBATCH --array=0-{}{at_once}\n\
         #SBATCH --cpus-per-task={workers}\n\
         #SBATCH --requeue\n\
         #SBATCH --open-mode=append\n\
         #SBATCH --output=\"{out}/slurm/%A_%a.log\"\n",
        quoted(&format!("{out}/slurm")),
        job_name(&cells.study().name),
        shards - 1,
    );
    for option in &args.scheduled.sbatch {
        if option.contains(char::is_control) {
            return Err(Failure::new(Exit::Usage, format!("--sbatch {option:?}: allowed: one line")));
        }
        script += &format!("#SBATCH {option}\n");
    }
    script +=
        "# Restarted and duplicate tasks do no harm: a finished cell is found, and a file is complete or absent.\n";
    script += &format!(
        "exec {} study run {} --out {} --jobs {workers} --shard \"$SLURM_ARRAY_TASK_ID/{shards}\"\n",
        quoted(&own_command()?),
        quoted(&absolute(&args.file)?),
        quoted(&out),
    );
    Ok(script)
}
