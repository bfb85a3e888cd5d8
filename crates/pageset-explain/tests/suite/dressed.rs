//! The same report as different tools print it: the sentence stays the same.

use pageset_explain::explain;

/// A failed request, as the kernel prints it.
const REPORT: [&str; 11] = [
    "worker: page allocation failure: order:4, mode:0xcc0(GFP_KERNEL), nodemask=(null),cpuset=/,mems_allowed=0",
    "CPU: 2 PID: 77 Comm: worker Not tainted 6.1.0-18-amd64 #1",
    "Call Trace:",
    " warn_alloc.cold+0x7b/0xdf",
    "Mem-Info:",
    "active_anon:6561 inactive_anon:67964 isolated_anon:0",
    " free:31000 free_pcp:1688 free_cma:0",
    "Node 0 Normal free:124000kB boost:0kB min:6400kB low:8000kB high:9600kB present:4194304kB managed:4061184kB free_pcp:6752kB",
    "lowmem_reserve[]: 0 0 0 0 0",
    "Node 0 Normal: 21000*4kB (UM) 5000*8kB (UM) 0*16kB 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB 0*1024kB 0*2048kB 0*4096kB = 124000kB",
    "1048576 pages RAM",
];

const SENTENCE: &str = "An order-4 GFP_KERNEL request of worker failed because order 4 (64 kB) is missing, not memory: node 0 Normal has \
                        124,000 kB free";

fn said(text: &str) -> String {
    explain(&[("-", text)]).map(|found| found.answer).unwrap_or_default()
}

fn is_understood(name: &str, text: &str) {
    let said = said(text);
    assert!(said.starts_with(SENTENCE), "{name}: {said}\n{text}");
}

/// The text before each line; `@` is the kernel's time.
const HEADS: [(&str, &str); 24] = [
    ("dmesg", "@"),
    ("dmesg -T", "[Fri Nov 28 10:01:02 2026] "),
    ("dmesg --time-format iso", "2026-11-28T10:01:02,000123+00:00 "),
    ("dmesg -x", "kern  :warn  : @"),
    ("dmesg of a kernel that prints callers", "@[  T1234] "),
    ("journalctl -o short-iso", "2026-11-28T10:01:02+0100 db-07 kernel: "),
    ("journalctl -o short-precise", "Nov 28 10:01:02.000123 db-07 kernel: "),
    ("journalctl -o short-full", "Sat 2026-11-28 10:01:02 CET db-07 kernel: "),
    ("journalctl -o short-monotonic", "@db-07 kernel: "),
    ("journalctl -o short-unix", "1795860062.000123 db-07 kernel: "),
    ("journald with its number", "Nov 28 10:01:02 db-07 kernel[0]: "),
    ("syslog", "Nov 28 10:01:02 db-07 kernel: @"),
    ("klogd", "Nov 28 10:01:02 db-07 klogd: "),
    ("RFC 5424", "<4>1 2026-11-28T10:01:02.000123Z db-07 kernel - - - @"),
    ("RFC 5424 in a file", "2026-11-28T10:01:02.000123Z db-07 kernel - - - "),
    ("BusyBox", "Sat Nov 28 10:01:02 2026 kern.warn kernel: @"),
    ("a serial console with dates", "2026-11-28 10:01:02.345 "),
    ("a serial console with dates, and the kernel's time", "2026-11-28 10:01:02 @"),
    ("a serial console with times", "10:01:02.345 @"),
    ("conserver", "console.db-07: @"),
    ("netconsole", "2026-11-28 10:01:02 192.0.2.7:6665 @"),
    ("docker compose", "node-1  | @"),
    ("the console of Xen", "(XEN) @"),
    ("a log of Windows", "11/28/2026 10:01:02 AM @"),
];

#[test]
fn heads_of_lines_do_not_matter() {
    for (name, head) in HEADS {
        let line = |(at, line): (usize, &&str)| format!("{}{line}", head.replace('@', &format!("[ 1000.{at:06}] ")));
        let lines: Vec<_> = REPORT.iter().enumerate().map(line).collect();
        is_understood(name, &(lines.join("\n") + "\n"));
        is_understood(&format!("{name}, CRLF"), &(lines.join("\r\n") + "\r\n"));
        // Lines of other programs between.
        let between =
            lines.join("\nNov 28 10:01:02 db-07 sshd[311]: Accepted publickey for a from 192.0.2.1 port 22\n");
        is_understood(&format!("{name}, interleaved"), &between);
    }
}

#[test]
fn records_of_the_journal() {
    let records = |record: fn(&str) -> String| REPORT.map(record).join("\n");
    for (name, text) in [
        ("json", records(|line| format!("{{\"PRIORITY\": \"4\", \"MESSAGE\": \"{line}\"}}"))),
        ("export", records(|line| format!("__CURSOR=s=1\nPRIORITY=4\n_TRANSPORT=kernel\nMESSAGE={line}\n"))),
        (
            "verbose",
            records(|line| format!("Sat 2026-11-28 10:01:02 CET [s=1;i=2]\n    PRIORITY=4\n    MESSAGE={line}")),
        ),
        ("a list of Ansible", records(|line| format!("    \"[ 1000.000001] {line}\","))),
        (
            "a table of a web page",
            records(|line| format!("\"2026-11-28T10:01:02.000Z\",\"db\",\"[ 1000.000001] {line}\"")),
        ),
    ] {
        is_understood(name, &text);
    }
}
