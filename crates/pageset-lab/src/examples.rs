//! The examples and the files of each page of the manual.

use pageset_report::program::{Example, FileOf, Program};
use pageset_sim::machine::SHIPPED;
use pageset_sim::workload::WORKLOADS;

/// The program, for the manual and the completions.
pub(crate) static PROGRAM: Program =
    Program { name: "pageset-lab", examples: EXAMPLES, files: &FILES, files_of: &FILES_OF, names };

/// The names that an argument takes.
fn names(argument: &str) -> Option<Vec<&'static str>> {
    match argument {
        "machine" => Some(SHIPPED.iter().map(|(name, _)| *name).collect()),
        "workload" => Some(WORKLOADS.iter().map(|workload| workload.name).chain(["trace"]).collect()),
        _ => None,
    }
}

/// The examples of each page.
const EXAMPLES: &[(&str, &[Example])] = &[
    ("pageset-lab", &[("sim page_fault1 --machine vm-8", "Simulate a workload on a machine of 8 CPUs.")]),
    (
        "pageset-lab-sim",
        &[
            (
                "sim page_fault1 --machine lkp-bdw-ep2 --rules linux-4.17,kernel",
                "Compare 4.17 with the kernel of this machine.",
            ),
            ("sim page_fault1 --machine lkp-bdw-ep2 --rules linux-4.17 --set batch=31,63", "Compare two batches."),
            ("sim trace my.pstrace --machine lkp-skl-4sp1 --rules kernel", "Spread a recording over 192 CPUs."),
            ("sim page_fault1 --machine vm-8 --seeds 5 --json=run.json", "Keep every sample of five seeds."),
        ],
    ),
    ("pageset-lab-study", &[("study run study.toml --out results", "Run the cells that are not finished.")]),
    ("pageset-lab-study-plan", &[("study plan study.toml", "List the cells of a study.")]),
    ("pageset-lab-study-run", &[("study run study.toml --out results --jobs 2", "Run a study on two threads.")]),
    (
        "pageset-lab-study-collect",
        &[("study collect study.toml --out results -o table.parquet", "Write the finished cells as one table.")],
    ),
    (
        "pageset-lab-compare",
        &[(
            "compare page_fault1-batch-sweep.csv --machine lkp-bdw-ep2 --seeds 1",
            "Compare a published table with simulations.",
        )],
    ),
    ("pageset-lab-machine", &[("machine list", "List the built-in machines.")]),
    ("pageset-lab-machine-list", &[("machine list", "List the built-in machines.")]),
    ("pageset-lab-machine-show", &[("machine show vm-8", "Print a machine's description.")]),
    ("pageset-lab-machine-detect", &[("machine detect -o host.toml", "Describe this host.")]),
    (
        "pageset-lab-machine-measure",
        &[("machine measure -o host.toml", "Measure this host for a minute, and write its description.")],
    ),
    ("pageset-lab-machine-calibrate", &[("machine calibrate lkp-sb02", "Fit a machine's pace.")]),
    (
        "pageset-lab-machine-share",
        &[("machine share --machine lkp-sb02,lkp-hsw-ep2", "Set the shared costs on two machines.")],
    ),
    ("pageset-lab-interleave", &[("interleave --rules kernel --seeds 1000", "Try a thousand interleavings.")]),
    (
        "pageset-lab-bench",
        &[(
            "bench --patterns hot,bulk --threads 1,2 --json=bench.json",
            "Measure two patterns, and keep every sample.",
        )],
    ),
    ("pageset-lab-kernels", &[("kernels all", "Record and replay all kernels, and write the table.")]),
    ("pageset-lab-kernels-install", &[("kernels install", "Install QEMU and the other tools.")]),
    ("pageset-lab-kernels-fetch", &[("kernels fetch 6.18-amd64", "Download a kernel.")]),
    ("pageset-lab-kernels-boot", &[("kernels boot 6.1-*", "Boot a kernel on all its machines, and record.")]),
    ("pageset-lab-kernels-replay", &[("kernels replay *.2node.*", "Replay the recordings of a machine.")]),
    ("pageset-lab-kernels-truth", &[("kernels truth -o truth.csv", "Write the table of what there is.")]),
    ("pageset-lab-kernels-all", &[("kernels all --again", "Repeat all steps.")]),
    (
        "pageset-lab-diff",
        &[(
            "diff old/ new/ --fail-above 5%",
            "Compare the results of two folders; exit with code 1 if a metric worsens.",
        )],
    ),
    ("pageset-lab-report", &[("report run.json -o report.html", "Write a page about a result.")]),
    (
        "pageset-lab-explain",
        &[
            ("explain zone lock %", "Describe a column of a table."),
            ("explain --schema sim", "Print the JSON schema of a result."),
        ],
    ),
];

/// The files that the page of the program names.
const FILES: [FileOf; 2] = [
    ("NAME.toml", "A set of rules, a machine, or a study, by the argument that names it."),
    ("NAME.pstrace", "A recording of `pageset record`, as a workload."),
];

/// The files of single pages.
const FILES_OF: [(&str, FileOf); 3] = [
    ("pageset-lab-report", ("pageset.html, pageset.md", "The page, unless -o names another file.")),
    ("pageset-lab-study-run", ("DIR/results.parquet", "The table of the finished cells.")),
    (
        "pageset-lab-bench",
        ("pageset-bench-peers", "The program that measures external allocators, next to the command or in PATH."),
    ),
];
