//! A study as an indexed Job of Kubernetes. A config map has the study's files; a shared volume has the results.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use pageset_study::cell::{Cells, address};
use serde_json::{Value, json};

use super::RunArgs;
use super::scheduler::{give, job_name, print};
use crate::error::{Exit, Failure};

/// The annotation of a Pod with the number of its shard.
const INDEX: &str = "metadata.annotations['batch.kubernetes.io/job-completion-index']";
/// Hex digits of the hash in a Job's name: 32 bits, enough to tell the versions of a study apart.
const HASH_DIGITS: usize = 8;
/// How often a shard may fail before the Job gives up on it.
const RETRIES: u32 = 10;

pub(super) fn apply(cells: &Cells<'_>, args: &RunArgs) -> Result<Exit, Failure> {
    let mut text = serde_json::to_string_pretty(&manifest(cells, args)?).map_err(io::Error::from)?;
    text.push('\n');
    if args.scheduled.dry_run {
        return print(&text);
    }
    let said = give("kubectl", &["apply", "--filename", "-"], &text)?;
    writeln!(io::stdout(), "{said}")?;
    Ok(Exit::Done)
}

/// The study file and the files that it names, by name.
fn files(cells: &Cells<'_>, file: &Path) -> Result<(String, BTreeMap<String, String>), Failure> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut files = BTreeMap::new();
    for name in std::iter::once(&name).chain(&cells.study().files) {
        let is_key = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if !is_key {
            let message = format!(
                "{name}: a config map cannot hold this file; allowed: files next to the study, with letters, digits, \
                 `-`, `_` and `.` in their names"
            );
            return Err(Failure::new(Exit::Usage, message));
        }
        let path = folder.join(name);
        let text = fs::read_to_string(&path)
            .map_err(|error| Failure::new(Exit::Failed, format!("cannot read {}: {error}", path.display())))?;
        files.insert(name.clone(), text);
    }
    Ok((name, files))
}

fn manifest(cells: &Cells<'_>, args: &RunArgs) -> Result<Value, Failure> {
    let needed = |option: &str, value: &Option<String>| {
        let what = || Failure::new(Exit::Usage, format!("cannot make a Job: {option} is missing"));
        value.clone().ok_or_else(what)
    };
    let (image, claim) = (needed("--image", &args.scheduled.image)?, needed("--claim", &args.scheduled.claim)?);
    let out = args.out.to_str().filter(|out| !out.starts_with('/')).ok_or_else(|| {
        let what = format!("--out {}: allowed: a folder on the claim, without `/` in front", args.out.display());
        Failure::new(Exit::Usage, what)
    })?;
    let shards = args.scheduled.shards(cells);
    let workers = args.jobs.map_or(1, std::num::NonZeroUsize::get);
    let (study, files) = files(cells, &args.file)?;
    // Another study, folder, image or division is another Job: Pods of one Job must agree on which cells are whose.
    let mut hash = address(&json!([study, files, out, shards, image, claim]).to_string());
    hash.truncate(HASH_DIGITS);
    let name = format!("{}-{hash}", job_name(&cells.study().name));
    let container = json!({
        "name": "pageset",
        "image": image,
        "command": ["pageset-lab"],
        "args": [
            "study", "run", format!("/study/{study}"), "--out", format!("/results/{out}"),
            "--jobs", workers.to_string(), "--shard", format!("$(SHARD)/{shards}"),
        ],
        "env": [{ "name": "SHARD", "valueFrom": { "fieldRef": { "fieldPath": INDEX } } }],
        "resources": { "requests": { "cpu": workers.to_string() } },
        "volumeMounts": [
            { "name": "study", "mountPath": "/study", "readOnly": true },
            { "name": "results", "mountPath": "/results" },
        ],
    });
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": name },
        "spec": {
            "completionMode": "Indexed",
            "completions": shards,
            "parallelism": args.scheduled.parallelism.map_or(shards, |most| most.get().min(shards)),
            "backoffLimitPerIndex": RETRIES,
            // A shard whose cells failed is tried again, since storage may have failed: only these cells run. Wrong usage is not. A
            // Pod that the cluster removes does not count as a failure.
            "podFailurePolicy": { "rules": [
                { "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] },
                { "action": "FailIndex", "onExitCodes": { "containerName": "pageset", "operator": "In", "values": [2] } },
            ] },
            "template": { "spec": {
                "restartPolicy": "Never",
                "containers": [container],
                "volumes": [
                    { "name": "study", "configMap": { "name": name } },
                    { "name": "results", "persistentVolumeClaim": { "claimName": claim } },
                ],
            } },
        },
    });
    let metadata = json!({ "name": name });
    let map =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "immutable": true, "data": files });
    Ok(json!({ "apiVersion": "v1", "kind": "List", "items": [map, job] }))
}
