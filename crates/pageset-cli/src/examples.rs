//! The examples and the files of each page of the manual. `examples.txt` has the examples.

use pageset_report::program::{FileOf, Program};

/// The program, for the manual and the completions.
pub(crate) static PROGRAM: Program = Program {
    name: "pageset",
    examples: include_str!("examples.txt"),
    files: &FILES,
    files_of: &FILES_OF,
    names: |_| None,
};

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
