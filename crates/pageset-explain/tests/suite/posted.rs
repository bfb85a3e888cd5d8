//! Texts of `/proc`, perf and tracing tools in the forms in which people post them: the sentence stays the same.

use pageset_explain::explain;

use crate::{SENTENCES, read};

/// The texts.
const TEXTS: [&str; 22] = [
    "zoneinfo-6.13.txt",
    "zoneinfo-highs-differ.txt",
    "zoneinfo-batch-15.txt",
    "zoneinfo-3.7-i686.txt",
    "buddyinfo-healthy.txt",
    "buddyinfo-small-blocks.txt",
    "pagetypeinfo-cma.txt",
    "vmstat.txt",
    "vmstat-reclaim.txt",
    "extfrag.txt",
    "unusable-index.txt",
    "perf-report-zone.txt",
    "perf-report-children.txt",
    "perf-report-kworker.txt",
    "perf-top-graph-lru.txt",
    "perf-top-flat.txt",
    "perf-script-zone.txt",
    "perf-script-slab.txt",
    "perf-lock-contention.txt",
    "perf-folded-slab-reclaim.txt",
    "bpftrace-zone.txt",
    "trace-direct-reclaim.txt",
];

/// What stands before each line; `#` is the line's number.
const HEADS: [(&str, &str); 24] = [
    ("grep -n", "#:"),
    ("grep -H", "/proc/zoneinfo:"),
    ("grep -Hn", "/proc/zoneinfo:#:"),
    ("grep --color", "\u{1b}[35m\u{1b}[K/proc/zoneinfo\u{1b}[m\u{1b}[K\u{1b}[36m\u{1b}[K:\u{1b}[m\u{1b}[K"),
    ("cat -n", "     #\t"),
    ("cat -n, tabs to spaces", "     #  "),
    ("nl of a web page", "#. "),
    ("pdsh", "node07: "),
    ("clush, two levels", "rack2: node07: "),
    ("knife ssh", "node07.example.com "),
    ("parallel --tag", "node07\t"),
    ("kubectl logs --prefix", "[pod/node-debug-x7k2q/debug] "),
    ("kubectl logs --timestamps", "2026-11-28T10:01:02.00000012Z "),
    ("stern", "node-debug-x7k2q debug "),
    ("docker compose", "node-1  | "),
    ("logger", "Nov 28 10:01:02 db-07 check.sh[311]: "),
    ("logger, the kernel's name", "Nov 28 10:01:02 db-07 kernel: "),
    ("ts", "Nov 28 10:01:02 "),
    ("ts -s", "00:00:02 "),
    ("a list of Ansible", "            \""),
    ("mail", "> "),
    ("mail, two levels", "> >> "),
    ("mail, without blanks", ">"),
    ("indented", "\t"),
];

/// The whole text as something else prints it.
type Dress = fn(&str) -> String;

const FORMS: [(&str, Dress); 25] = [
    ("CRLF", |text| text.replace('\n', "\r\n")),
    ("CR CRLF", |text| text.replace('\n', "\r\r\n")),
    ("BOM", |text| format!("\u{feff}{text}")),
    ("blanks at the end", |text| text.replace('\n', "   \n")),
    ("no blank at the begin", |text| each(text, |line| line.trim_start().to_owned())),
    ("blanks collapsed", |text| each(text, |line| line.split_whitespace().collect::<Vec<_>>().join(" "))),
    ("tabs to spaces", |text| text.replace('\t', "        ")),
    ("unexpand", |text| each(text, tabs)),
    ("a blank line after each", |text| text.replace('\n', "\n\n")),
    ("hard blanks", |text| text.replace("  ", " \u{a0}")),
    ("HTML", |text| format!("<pre><code>{}</code></pre>\n", entities(text))),
    ("HTML, line breaks", |text| entities(text).replace('\n', "<br />\n")),
    ("Markdown", |text| format!("Here it is:\n```text\n{text}```\nAny idea?\n")),
    ("BBCode", |text| format!("[code]{text}[/code]\n")),
    ("Jira", |text| format!("{{noformat}}\n{text}{{noformat}}\n")),
    ("dashes", |text| text.replace("--", "–")),
    ("a prompt", |text| {
        format!("root@db-07:~# cat /proc/x\n{text}root@db-07:~# uname -r\n6.1.0-18-amd64\nroot@db-07:~# \n")
    }),
    ("sudo", |text| format!("[bob@db-07 ~]$ sudo cat /proc/x\n[sudo] password for bob: \n{text}[bob@db-07 ~]$ \n")),
    ("set -x", |text| format!("+ cat /proc/x\n{text}+ exit 0\n")),
    ("head", |text| {
        format!("==> /proc/x <==\n{text}\n==> /proc/version <==\nLinux version 6.1.0-18-amd64 (a@b) (gcc 12.2.0)\n")
    }),
    ("supportconfig", |text| {
        format!(
            "#==[ Command ]======================================#\n# /bin/cat /proc/x\n{text}\n#==[ Command ]======================================#\n# /bin/true\n"
        )
    }),
    ("a script's banner", |text| {
        format!("Script started on 2026-11-28 10:01:02+01:00\n=== /proc/x ===\n{text}=== end ===\nScript done\n")
    }),
    ("oc debug", |text| {
        format!(
            "Starting pod/node-debug ...\nTo use host binaries, run `chroot /host`\n{text}\nRemoving debug pod ...\n"
        )
    }),
    ("watch", |text| format!("Every 2.0s: cat /proc/x                db-07: Sat Nov 28 10:01:02 2026\n\n{text}")),
    ("colours", |text| each(text, |line| format!("\u{1b}[1;32m{line}\u{1b}(B\u{1b}[m"))),
];

/// Breaks between words, as mail programs and forms make them.
const WIDTHS: [usize; 3] = [80, 76, 72];

/// What the answer says if a form has lost which function of a call graph calls which, and the forms that lose it.
const LOST: &str =
    "the call graph has lost its indentation, so it does not show which functions wait, and for which lock";
const LOSING: [&str; 3] = ["no blank at the begin", "blanks collapsed", "at "];

fn each(text: &str, dress: impl Fn(&str) -> String) -> String {
    text.lines().map(|line| dress(line) + "\n").collect()
}

/// Blanks at the begin as tabs.
fn tabs(line: &str) -> String {
    let blanks = line.len() - line.trim_start_matches(' ').len();
    format!("{}{}{}", "\t".repeat(blanks / 8), " ".repeat(blanks % 8), &line[blanks..])
}

fn entities(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

fn headed(text: &str, head: &str) -> String {
    let end = if head.ends_with('"') { "\"," } else { "" };
    let line = |(line, at): (&str, u64)| match head.contains("#\t") || head.contains("#  ") {
        true => format!("{at:6}{}{line}\n", head.split('#').next_back().unwrap_or("")),
        false => format!("{}{line}{end}\n", head.replace('#', &at.to_string())),
    };
    text.lines().zip(1..).map(line).collect()
}

/// The text in lines of at most `width` characters, each with what a mail puts before it.
fn wrapped(text: &str, width: usize, quote: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut rest = line;
        while rest.chars().count() > width {
            let end = rest.char_indices().nth(width).map_or(rest.len(), |(at, c)| at + c.len_utf8());
            let begin = |at: &usize| !rest[..*at].trim().is_empty();
            let Some(at) = rest[..end].trim_end().rfind(' ').filter(begin) else { break };
            out += &format!("{quote}{}\n", rest[..at].trim_end());
            rest = rest[at..].trim_start();
        }
        out += &format!("{quote}{rest}\n");
    }
    out
}

fn said(text: &str) -> String {
    explain(&[("-", text)]).map(|found| found.answer).unwrap_or_default()
}

#[test]
fn forms_do_not_change_the_sentence() {
    let (mut seen, mut wrong) = (0, String::new());
    for name in TEXTS {
        let sentence = SENTENCES.iter().find(|(known, _)| *known == name).unwrap().1;
        let text = read(name);
        let heads = HEADS.map(|(form, head)| (form.to_owned(), headed(&text, head)));
        let wholes = FORMS.map(|(form, dress)| (form.to_owned(), dress(&text)));
        let wraps = WIDTHS
            .iter()
            .flat_map(|width| ["", "> "].map(|quote| (format!("{quote}at {width}"), wrapped(&text, *width, quote))));
        for (form, dressed) in heads.into_iter().chain(wholes).chain(wraps) {
            seen += 1;
            let said = said(&dressed);
            let is_lost = name.starts_with("perf-report") || name == "perf-top-graph-lru.txt";
            let is_lost = is_lost && said.contains(LOST) && LOSING.iter().any(|part| form.contains(part));
            if said != sentence && !is_lost {
                wrong += &format!("{name} / {form}: {said}\n");
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {seen} differ:\n{wrong}", wrong.lines().count());
}

/// A wait for the zone lock, the innermost function first.
const STACK: [&str; 5] =
    ["native_queued_spin_lock_slowpath", "_raw_spin_lock", "rmqueue_bulk", "get_page_from_freelist", "alloc_pages_vma"];

/// The stack with something around each function, from the outermost or the innermost on.
fn stack(is_outermost_first: bool, line: impl Fn(usize, &str) -> String) -> String {
    let lines = |(at, function): (usize, &&str)| line(at, function);
    match is_outermost_first {
        true => STACK.iter().rev().enumerate().map(lines).collect(),
        false => STACK.iter().enumerate().map(lines).collect(),
    }
}

/// What options of perf and other tools print, and leave out.
#[test]
fn fields_of_profiles_do_not_matter() {
    let address =
        |at: usize, function: &str| format!("\tffffffff9e1d0a{at:02x} {function}+0x16b ([kernel.kallsyms])\n");
    let sample = |head: &str| format!("{head}\n{}\n", stack(false, address)).repeat(2);
    let row = "    62.40%    62.40%  cc1      [kernel.kallsyms]  [k] native_queued_spin_lock_slowpath\n            |\n";
    let inner = |at: usize, function: &str| match at {
        0 => format!("            ---{function}\n"),
        _ => format!("               {function}\n"),
    };
    let shares = |at: usize, function: &str| {
        let lines = format!("{}|\n", " ".repeat(12 + 11 * at));
        format!("{lines}{}--62.40%--{function}\n", " ".repeat(13 + 11 * at))
    };
    let browser = |at: usize, function: &str| format!("{}- 62.40% {function}\n", " ".repeat(3 + 3 * at));
    let names = |joint: &str, is_outermost_first: bool| {
        let all = stack(is_outermost_first, |_, function| format!("{joint}{function}"));
        all[joint.len()..].to_owned()
    };
    let header = "# ========\n# captured on    : Sat Nov 28 10:01:02 2026\n# hostname : db-07\n# cmdline : /usr/bin/perf record -a -g\n# ========\n#\n";
    let table: Vec<(&str, String)> = vec![
        ("perf script", sample("cc1 12 [001] 9.512345:     250000 cycles:ppp: ")),
        ("perf script --header", header.to_owned() + &sample("cc1 12 [001] 9.512345:     250000 cycles:ppp: ")),
        ("perf script --ns", sample("cc1 12/14 [001] 9.512345678:     250000 cpu-clock:pppH: ")),
        ("perf script of a task with a blank", sample("Web Content  1234 [003] 9.512345: 1 cycles: ")),
        (
            "perf script -F comm,ip,sym",
            format!("cc1 \n{}\n", stack(false, |at, f| format!("\tffffffff9e1d0a{at:02x} {f}\n"))).repeat(2),
        ),
        (
            "perf script -F ip,sym",
            format!("\n{}\n", stack(false, |at, f| format!("\tffffffff9e1d0a{at:02x} {f}\n"))).repeat(2),
        ),
        ("perf script -F comm,pid,event,ip,sym", sample("cc1    12 cycles:ppp: ")),
        ("perf script -F time,event,ip,sym", sample("9.512345: cycles:P: ")),
        (
            "perf script with lines of the source",
            format!(
                "cc1 12 [001] 9.5: 250000 cycles: \n{}\n",
                stack(false, |at, f| address(at, f) + "  page_alloc.c:3051\n")
            )
            .repeat(2),
        ),
        ("perf report, callers", row.to_owned() + &stack(true, shares)),
        ("perf report, callees", row.to_owned() + &stack(false, inner)),
        ("perf report, one column", row.replacen("    62.40%", "", 1) + &stack(false, inner)),
        ("perf report -n", row.replacen("cc1 ", "   1234  cc1 ", 1) + &stack(false, inner)),
        ("perf report -s sym", format!("    62.40%  [k] {}\n            |\n{}", STACK[0], stack(false, inner))),
        (
            "perf report --header",
            format!(
                "{header}# Samples: 8K of event 'cycles'\n# Event count (approx.): 1\n#\n# Children      Self  Command  Shared Object      Symbol\n# ........  ........  .......  .................  ......\n#\n{row}{}",
                stack(false, inner)
            ),
        ),
        (
            "perf report, its browser",
            format!("-   62.40%    62.40%  cc1  [kernel.kallsyms]  [k] {}\n{}", STACK[0], stack(true, browser)),
        ),
        ("perf report, a graph without its row", stack(true, shares)),
        ("perf report, lines of boxes", row.replace('|', "│") + &stack(true, shares).replace('|', "│")),
        (
            "perf report -g folded",
            format!("    62.40%    62.40%  cc1  [kernel.kallsyms]  [k] {}\n62.40% {}\n", STACK[0], names(";", true)),
        ),
        (
            "perf report -g folded, callees",
            format!("    62.40%    62.40%  cc1  [kernel.kallsyms]  [k] {}\n62.40% {}\n", STACK[0], names(";", false)),
        ),
        ("stackcollapse", format!("cc1;{} 1234\n", names(";", true))),
        (
            "stackcollapse with kinds",
            format!("cc1-12/14;{} 1234\n", names("_[k];", true).replace("slowpath", "slowpath_[k]")),
        ),
        ("bpftrace", format!("@[\n{}]: 1234\n", stack(false, |_, f| format!("    {f}+645\n")))),
        (
            "bpftrace with the task",
            format!("@[\n{}, cc1, 12]: 1234\n", stack(false, |_, f| format!("    {f}+645\n")).trim_end()),
        ),
        (
            "bpftrace -f perf",
            format!(
                "@stacks[\n{}]: 1234\n",
                stack(false, |at, f| format!("\tffffffff9e1d0a{at:02x} {f}+645 ([kernel.kallsyms])\n"))
            ),
        ),
        ("bcc", format!("{}    cc1 (12)\n        1234\n\n", stack(false, |_, f| format!("    {f}\n")))),
        (
            "bcc with addresses",
            format!(
                "{}    -                cc1 (12)\n        1234\n\n",
                stack(false, |at, f| format!("    b'{f}+0x{at}'\n"))
            ),
        ),
        ("a task's stack", stack(false, |_, f| format!("[<0>] {f}+0x16b/0x200\n"))),
        (
            "sysrq",
            format!(
                "task:cc1 state:R  running task     stack:    0 pid:   12\nCall Trace:\n <TASK>\n{} </TASK>\n",
                stack(false, |_, f| format!(" {f}+0x16b/0x200\n"))
            ),
        ),
        (
            "gdb",
            stack(false, |at, f| {
                format!("#{at}  0xffffffff9e1d0a{at:02x} in {f} (lock=0xffff9e1d) at mm/page_alloc.c:3051\n")
            }),
        ),
        ("crash", stack(false, |at, f| format!(" #{at} [ffff9e1d0a{at:02x}00c8] {f} at ffffffff9e1d0a{at:02x}\n"))),
    ];
    let mut wrong = String::new();
    for (form, text) in &table {
        let said = said(text);
        if !said.starts_with("The waits are for the zone lock: 100 % of them, in rmqueue_bulk") {
            wrong += &format!("{form}: {said}\n");
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{wrong}", wrong.lines().count(), table.len());
}

/// Several files in one paste, each with what head, sosreport and people put between; and records of tools that keep what a command said.
#[test]
fn several_files_in_one_paste() {
    let zoneinfo = "Node 0, zone   Normal\n  pages free     20000\n        min      10000\n        low      24000\n        high     38000\n        present  1048576\n        managed  1015000\n        protection: (0, 0)\n  pagesets\n    cpu: 0\n              count: 310\n              high:  378\n              batch: 63\n  start_pfn:           1048576\n";
    let buddyinfo =
        "Node 0, zone   Normal    400    300    200    100      0      0      0      0      0      0      0\n";
    let vmstat = "nr_free_pages 20000\nallocstall_normal 12\npgscan_direct 300\n";
    let files = [("/proc/zoneinfo", zoneinfo), ("/proc/buddyinfo", buddyinfo), ("/proc/vmstat", vmstat)];
    let all = |form: fn(&str, &str) -> String| files.map(|(path, text)| form(path, text)).concat();
    let plain = said(&all(|_, text| text.to_owned()));
    assert!(plain.starts_with("Node 0 Normal is below its low mark: 20,000 pages free of 24,000 pages"), "{plain}");
    fn escaped(text: &str) -> String {
        text.replace('\n', "\\n").replace('\t', "\\t")
    }
    let table: Vec<(&str, String)> = vec![
        ("head", all(|path, text| format!("==> {path} <==\n{text}\n"))),
        ("grep -H", all(|path, text| each(text, |line| format!("{path}:{line}")))),
        (
            "grep -Hn",
            all(|path, text| text.lines().zip(1..).map(|(line, at)| format!("{path}:{at}:{line}\n")).collect()),
        ),
        ("a heading for each", all(|path, text| format!("### {path}\n{text}\n"))),
        ("prompts", all(|path, text| format!("[root@db-07 ~]# cat {path}\n{text}"))),
        ("pdsh", all(|_, text| each(text, |line| format!("node07: {line}")))),
        (
            "pdsh with a prompt",
            format!(
                "$ pdsh -w node07 cat /proc/zoneinfo\n{}",
                all(|_, text| each(text, |line| format!("node07: {line}")))
            ),
        ),
        (
            "a mail with prose",
            format!(
                "Hi all,\n\nsince the update our database stalls for seconds, see below.\nThe machine has 4 GiB and one node.\n\n{}\nThanks,\nBob\n",
                all(|path, text| each(&format!("{path}:\n{text}\n"), |line| format!("> {line}")))
            ),
        ),
        (
            "an issue",
            format!(
                "### What happened\nThe node stalls.\n\n<details><summary>zoneinfo</summary>\n\n{}\n</details>\n",
                all(|path, text| format!("**{path}**\n```\n{text}```\n"))
            ),
        ),
        ("Ansible", all(|_, text| format!("db-07 | CHANGED | rc=0 >>\n{text}"))),
        (
            "Ansible, JSON",
            all(|_, text| {
                format!(
                    "{{\n    \"changed\": true,\n    \"stdout_lines\": [\n{}    ]\n}}\n",
                    each(text, |line| format!("        \"{}\",", escaped(line)))
                )
            }),
        ),
        (
            "Ansible, one string",
            all(|path, text| {
                format!(
                    "ok: [db-07] => {{\"changed\": true, \"cmd\": \"cat {path}\", \"rc\": 0, \"stdout\": \"{}\", \"stderr\": \"\"}}\n",
                    escaped(text.trim_end())
                )
            }),
        ),
        ("salt", all(|_, text| format!("db-07:\n{}", each(text, |line| format!("    {line}"))))),
        (
            "kubectl logs --prefix --timestamps",
            all(|_, text| each(text, |line| format!("[pod/debug-x7/debug] 2026-11-28T10:01:02.123Z {line}"))),
        ),
        (
            "a line in a log of containers",
            all(|_, text| each(text, |line| format!("2026-11-28T10:01:02.123456789Z stdout F {line}"))),
        ),
        (
            "the journal of a script",
            all(|_, text| each(text, |line| format!("Nov 28 10:01:02 db-07 watch-mem.sh[4711]: {line}"))),
        ),
        (
            "a systemd unit in the journal, ISO",
            all(|_, text| each(text, |line| format!("2026-11-28T10:01:02+0100 db-07 watch-mem.sh[4711]: {line}"))),
        ),
        ("sosreport's folder", all(|path, text| format!("$ cat sosreport-db-07-2026-11-28/{path}\n{text}"))),
        ("a time before each", all(|_, text| format!("Sat Nov 28 10:01:02 CET 2026\n{text}"))),
    ];
    let mut wrong = String::new();
    for (form, text) in &table {
        let said = said(text);
        if said != plain {
            wrong += &format!("{form}: {said}\n");
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{wrong}", wrong.lines().count(), table.len());
}
