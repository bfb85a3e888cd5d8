//! The outputs of `pageset replay`, `explain`, `advise`, `fleet` and `top --from` in the documentation are the real outputs. With
//! `PAGESET_DOCS=write` in the environment the test rewrites outputs that differ, but not figures in the text around
//! them. A last line `…` stands for the rest of an output.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The forms of the command in the documentation.
const CALLS: [&str; 2] = ["$ cargo run --release -p pageset-cli -- ", "$ pageset "];

/// The subcommands whose output is the same on every machine.
const SAME_EVERYWHERE: [&str; 5] = ["replay ", "explain ", "advise ", "fleet ", "top --from "];

/// The commands in a document that are shown with their output.
fn shown(text: &str) -> Vec<(&str, String)> {
    let blocks = text.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks
        .filter_map(|block| {
            let (command, output) = block.split_once('\n')?;
            let arguments = CALLS.iter().find_map(|call| command.strip_prefix(call))?;
            SAME_EVERYWHERE.iter().find(|subcommand| arguments.starts_with(**subcommand))?;
            let is_output = !output.is_empty() && !output.starts_with('$');
            is_output.then(|| (arguments, output.to_owned()))
        })
        .collect()
}

#[test]
fn outputs_are_as_shown() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let write = env::var("PAGESET_DOCS").is_ok_and(|value| value == "write");
    let mut seen = 0;
    for file in [
        "README.md",
        "docs/guide/replay.md",
        "docs/guide/advice.md",
        "docs/guide/explain.md",
        "docs/guide/fleet.md",
        "docs/guide/purgers.md",
    ] {
        let text = fs::read_to_string(root.join(file)).unwrap();
        let mut anew = text.clone();
        for (arguments, output) in shown(&text) {
            let mut command = Command::new(crate::PROGRAM);
            let printed = command.current_dir(&root).args(arguments.split(' ')).output().unwrap();
            assert!(printed.status.success(), "{file}: {arguments}: {}", String::from_utf8_lossy(&printed.stderr));
            let mut printed = String::from_utf8(printed.stdout).unwrap();
            if output.ends_with("\n…\n") {
                let lines = printed.lines().take(output.lines().count() - 1);
                printed = lines.map(|line| format!("{line}\n")).collect::<String>() + "…\n";
            }
            assert!(
                write || printed == output,
                "{file} shows another output of `pageset {arguments}` (PAGESET_DOCS=write mends it); it is\n{printed}"
            );
            anew = anew.replace(&output, &printed);
            seen += 1;
        }
        if anew != text {
            fs::write(root.join(file), anew).unwrap();
        }
    }
    assert_eq!(seen, 7, "the number of shown outputs has changed, or the test misses some");
}

/// A page is read in one sitting. Words are those of `wc -w`.
#[test]
fn pages_are_short() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let count = |path: &Path| fs::read_to_string(path).unwrap().split_whitespace().count();
    let mut pages = vec![(root.join("docs/trust.md"), 1200)];
    let guide = fs::read_dir(root.join("docs/guide")).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(guide.filter(|path| path.extension().is_some_and(|kind| kind == "md")).map(|path| (path, 900)));
    assert!(pages.len() > 10);
    let long: Vec<String> = pages
        .iter()
        .filter(|(path, most)| count(path) > *most)
        .map(|(path, most)| format!("{} has {} words; at most {most} are allowed", path.display(), count(path)))
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
    let lines = fs::read_to_string(root.join("README.md")).unwrap().lines().count();
    assert!(lines <= 120, "README.md has {lines} lines; at most 120 are allowed");
}

/// The checks of `docs/trust.md` that need no build print what the page says: "`COMMAND` prints `TEXT`".
#[test]
fn the_checks_of_the_page_on_trust_print_what_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/trust.md")).unwrap();
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts: Vec<&str> = page.split('`').collect();
    let mut seen = 0;
    for check in parts.windows(3).filter(|check| check[1] == " prints ") {
        let printed = Command::new("sh").args(["-c", check[0]]).current_dir(&root).output().unwrap();
        assert_eq!(String::from_utf8(printed.stdout).unwrap().trim(), check[2], "`{}`", check[0]);
        seen += 1;
    }
    assert_eq!(seen, 3);
}

#[test]
fn the_rule_file_is_as_shown() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |file| fs::read_to_string(root.join(file)).unwrap();
    let block = format!("```toml\n{}```\n", read("docs/guide/rules/no-auto-tuning.toml"));
    assert!(
        read("docs/reference/rules.md").contains(&block),
        "docs/reference/rules.md shows another file than\n{block}"
    );
}

/// The example of the guide is the one at the top of the allocator's documentation, which the tests compile and run.
#[test]
fn the_example_for_kernels_is_the_one_that_is_tested() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |file| fs::read_to_string(root.join(file)).unwrap();
    let guide = read("docs/guide/embed.md");
    let shown = guide.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let library = read("crates/pageset/src/lib.rs");
    let lines = library.lines().map_while(|line| line.strip_prefix("//!"));
    let lines = lines.map(|line| line.strip_prefix(' ').unwrap_or(line));
    // The documentation hides lines that begin so.
    let tested: String = lines.filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    // The page ends the program earlier.
    let end = "    Ok(())\n}\n";
    let body = shown.strip_suffix(end).expect("a whole program");
    assert!(
        shown.contains("\nfn main() ") && tested.contains(body) && tested.contains(end),
        "docs/guide/embed.md shows another example than crates/pageset/src/lib.rs:\n{shown}"
    );
}

/// Every key of a rule has a paragraph in `docs/reference/rules.md`, and every paragraph has an existing key.
#[test]
fn every_rule_is_explained() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut keys: Vec<&str> = pageset_rules::key_names().collect();
    let text = fs::read_to_string(root.join("docs/reference/rules.md")).unwrap();
    let headings = text.lines().filter_map(|line| line.strip_prefix("### "));
    let mut explained: Vec<&str> =
        headings.flat_map(|line| line.split(", ")).map(|key| key.trim_matches('`')).collect();
    keys.sort_unstable();
    explained.sort_unstable();
    assert_eq!(explained, keys);
}
