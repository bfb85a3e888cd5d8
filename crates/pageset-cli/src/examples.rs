//! The examples and the files of each page of the manual.

use pageset_report::program::{Example, FileOf, Program};

/// The program, for the manual and the completions.
pub(crate) static PROGRAM: Program =
    Program { name: "pageset", examples: EXAMPLES, files: &FILES, files_of: &FILES_OF, names: |_| None };

/// The examples of each page.
const EXAMPLES: &[(&str, &[Example])] = &[
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
        "pageset-agent",
        &[
            ("agent --once --interval 5", "Say whether this machine waits for zone locks now."),
            ("agent -o /var/log/pageset.ndjson", "Add a line a minute to a file."),
        ],
    ),
    (
        "pageset-fleet",
        &[
            ("fleet /var/log/agents/*.ndjson", "Merge the lines that machines have sent."),
            ("fleet - --json", "Merge the lines of standard input, and print JSON."),
        ],
    ),
    (
        "pageset-report",
        &[("report my.pstrace replay.json -o report.html", "Write a page about a recording and a result.")],
    ),
    (
        "pageset-explain",
        &[
            (
                "explain /proc/zoneinfo",
                "Say which zone is short, what waits in per-CPU lists, and which sysctls gave the marks.",
            ),
            (
                "explain dmesg.txt zoneinfo.txt",
                "Explain a failed allocation from a kernel's log and the zoneinfo of the machine.",
            ),
            ("explain -", "Read what is pasted: perf report, buddyinfo, stacks of bpftrace."),
            ("explain GFP_ATOMIC", "Describe a name of the kernel."),
            ("explain locks/1000 ops", "Describe a column of a table."),
            ("explain --schema replay", "Print the JSON schema of a result."),
        ],
    ),
];

/// The files that the page of the program names.
const FILES: [FileOf; 2] = [
    (
        "NAME.pstrace",
        "A recording in the project's own form. A perf.data with FILE.zoneinfo in the same folder, and NAME.events.zst with \
         NAME.snap.zst, are recordings too.",
    ),
    ("NAME.toml", "A set of rules."),
];

/// The files of single pages.
const FILES_OF: [(&str, FileOf); 7] = [
    (
        "pageset-record",
        ("/sys/kernel/tracing", "The tracing file system. It is mounted for the recording if it is not mounted."),
    ),
    ("pageset-record", ("pageset.pstrace", "The recording, unless -o names another file.")),
    ("pageset-top", ("/proc/zoneinfo, /proc/vmstat", "The kernel's zones, pagesets and counters.")),
    ("pageset-advise", ("/sys/kernel/tracing", "The tracing file system, for --live.")),
    ("pageset-demo", ("pageset-demo/", "The folder of the recording and the report, unless -o names another one.")),
    ("pageset-report", ("pageset.html, pageset.md", "The page, unless -o names another file.")),
    ("pageset", ("/proc/zoneinfo, /sys/kernel/tracing", "What the command looks at without a subcommand.")),
];
