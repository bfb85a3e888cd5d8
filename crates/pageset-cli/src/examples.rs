//! The examples and the files of each page of the manual.

/// An example: the command line without `pageset`, and what it does.
type Example = (&'static str, &'static str);

/// The examples of each page.
pub(crate) const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "pageset",
        &[
            ("", "Show what works on this machine for this user."),
            ("demo", "Show what pageset does, on a recording that comes with the command."),
        ],
    ),
    ("pageset-demo", &[("demo -o /tmp/demo", "Write the recording and the report into a folder.")]),
    (
        "pageset-record",
        &[
            ("record --empty-lists -o build.pstrace -- make -j2", "Record a build."),
            ("record --duration 10s", "Record the machine for ten seconds."),
            ("record --duration 1m --rotate 5", "Record a file a minute until Ctrl-C, and keep the last five."),
        ],
    ),
    (
        "pageset-replay",
        &[
            ("replay my.pstrace --rules kernel,linux-5.18", "Compare the recorded kernel's rules with those of 5.18."),
            ("replay my.pstrace --rules linux-6.18 --set high_fraction=8", "Replay under another setting."),
            ("replay my.pstrace --check", "Exit with code 1 unless the replay follows the kernel."),
        ],
    ),
    ("pageset-identify", &[("identify my.pstrace", "Find the kernel whose rules produced a recording.")]),
    ("pageset-trace", &[("trace info my.pstrace", "Show what a recording contains.")]),
    ("pageset-trace-view", &[("trace view my.pstrace", "Open a recording in Perfetto, in the browser.")]),
    ("pageset-trace-info", &[("trace info my.pstrace --json", "Print the contents as JSON.")]),
    ("pageset-trace-import", &[("trace import perf.data -o my.pstrace", "Convert a recording of perf.")]),
    (
        "pageset-trace-export",
        &[("trace export my.pstrace -o my.events", "Write the events into my.events, the snapshots into my.snap.")],
    ),
    (
        "pageset-diff",
        &[
            ("diff before.pstrace after.pstrace", "Compare two recordings."),
            (
                "diff old/ new/ --fail-above 5%",
                "Compare all results of two folders; exit with code 1 if a metric worsens by more than 5 % and not by noise.",
            ),
            ("diff a1.json a2.json -- b1.json b2.json", "Compare several results on each side."),
        ],
    ),
    (
        "pageset-run",
        &[
            (
                "run page_fault1 --machine lkp-bdw-ep2 --rules linux-4.17,kernel",
                "Compare 4.17 with the kernel of this machine.",
            ),
            ("run trace my.pstrace --machine lkp-skl-4sp1 --rules kernel", "Spread a recording over 192 CPUs."),
            ("run page_fault1 --machine vm-8 --seeds 5 --json=run.json", "Keep every sample of five seeds."),
        ],
    ),
    (
        "pageset-sweep",
        &[("sweep page_fault1 --machine lkp-bdw-ep2 --rules linux-4.17 --batch 31,63", "Compare two batches.")],
    ),
    ("pageset-study", &[("study run study.toml --out results", "Run the cells that are not finished.")]),
    ("pageset-study-plan", &[("study plan study.toml", "List the cells of a study.")]),
    ("pageset-study-run", &[("study run study.toml --out results --jobs 2", "Run a study on two threads.")]),
    (
        "pageset-study-collect",
        &[("study collect study.toml --out results -o table.parquet", "Write the finished cells as one table.")],
    ),
    (
        "pageset-compare",
        &[(
            "compare page_fault1-batch-sweep.csv --machine lkp-bdw-ep2 --seeds 1",
            "Compare a published table with simulations.",
        )],
    ),
    ("pageset-machine", &[("machine list", "List the built-in machines.")]),
    ("pageset-machine-list", &[("machine list", "List the built-in machines.")]),
    ("pageset-machine-show", &[("machine show vm-8", "Print a machine's description.")]),
    ("pageset-machine-detect", &[("machine detect -o host.toml", "Describe this host.")]),
    (
        "pageset-machine-measure",
        &[("machine measure -o host.toml", "Measure this host for a minute, and write its description.")],
    ),
    ("pageset-machine-calibrate", &[("machine calibrate lkp-sb02", "Fit a machine's pace.")]),
    (
        "pageset-machine-share",
        &[("machine share --machine lkp-sb02,lkp-hsw-ep2", "Set the shared costs on two machines.")],
    ),
    ("pageset-interleave", &[("interleave --rules kernel --seeds 1000", "Try a thousand interleavings.")]),
    (
        "pageset-bench",
        &[(
            "bench --patterns hot,bulk --threads 1,2 --json=bench.json",
            "Measure two patterns, and keep every sample.",
        )],
    ),
    (
        "pageset-advise",
        &[
            ("advise my.pstrace", "Advise on a recorded load."),
            ("advise --live 5", "Record this machine for five seconds, and advise."),
        ],
    ),
    (
        "pageset-top",
        &[
            ("top", "Watch this machine."),
            ("top --plain --interval 5", "Print text every five seconds."),
            ("top --listen 127.0.0.1:9763", "Serve metrics to Prometheus."),
        ],
    ),
    (
        "pageset-report",
        &[("report my.pstrace run.json -o report.html", "Write a page about a recording and a result.")],
    ),
    (
        "pageset-explain",
        &[
            ("explain locks/1000 ops", "Describe a column of a table."),
            ("explain --schema replay", "Print the JSON schema of a result."),
        ],
    ),
];

/// A file, and what it is for.
type FileOf = (&'static str, &'static str);

/// The files that every page names.
const FILES: [FileOf; 2] = [
    (
        "NAME.pstrace",
        "A recording in the project's own form. A perf.data with FILE.zoneinfo in the same folder, and NAME.events.zst with \
         NAME.snap.zst, are recordings too.",
    ),
    ("NAME.toml", "A set of rules, a machine, or a study, by the argument that names it."),
];

/// The files of single pages.
const FILES_OF: [(&str, FileOf); 9] = [
    (
        "pageset-record",
        ("/sys/kernel/tracing", "The tracing file system. It is mounted for the recording if it is not mounted."),
    ),
    ("pageset-record", ("pageset.pstrace", "The recording, unless -o names another file.")),
    ("pageset-top", ("/proc/zoneinfo, /proc/vmstat", "The kernel's zones, pagesets and counters.")),
    ("pageset-advise", ("/sys/kernel/tracing", "The tracing file system, for --live.")),
    ("pageset-demo", ("pageset-demo/", "The folder of the recording and the report, unless -o names another one.")),
    ("pageset-report", ("pageset.html, pageset.md", "The page, unless -o names another file.")),
    ("pageset-study-run", ("DIR/results.parquet", "The table of the finished cells.")),
    (
        "pageset-bench",
        ("pageset-bench-peers", "The program that measures external allocators, next to the command or in PATH."),
    ),
    ("pageset", ("/proc/zoneinfo, /sys/kernel/tracing", "What the command looks at without a subcommand.")),
];

/// The files of a page.
pub(crate) fn files(page: &str) -> impl Iterator<Item = FileOf> {
    let own = FILES_OF.iter().filter(move |(of, _)| *of == page).map(|(_, file)| *file);
    own.chain(FILES)
}
