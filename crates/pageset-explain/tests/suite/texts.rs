//! The texts in `inputs`, each with its sentence in `sentences.txt`. They are shortened from public issue threads and mailing lists,
//! without names of hosts and users; `sources.txt` has their addresses. Some are made from the described form of a kernel or a tool.

use pageset_explain::explain;

use crate::{SENTENCES, pairs, read};

#[test]
fn each_text_has_its_sentence() {
    let mut wrong = String::new();
    for (name, sentence) in SENTENCES.iter() {
        let found = explain(&[("-", &read(name))]).map(|found| found.answer).unwrap_or_default();
        if found != *sentence {
            wrong += &format!("{name} {found}\n");
        }
    }
    assert_eq!(wrong, "", "these lines of sentences.txt differ");
    let files = std::fs::read_dir(format!("{}/tests/inputs", env!("CARGO_MANIFEST_DIR"))).unwrap();
    assert_eq!(files.count(), SENTENCES.len(), "a file without a sentence");
}

/// Where each text is from: a public address, `made` from the described form of a kernel or a tool, or `unknown` if the address was
/// not kept.
#[test]
fn each_text_has_its_source() {
    let sources = pairs(include_str!("../sources.txt"));
    let named: Vec<&str> = sources.iter().map(|(name, _)| *name).collect();
    assert_eq!(named, SENTENCES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    let is_known = |source: &str| source.starts_with("https://") || matches!(source, "made" | "unknown");
    assert!(sources.iter().all(|(_, source)| is_known(source)));
    let public = sources.iter().filter(|(_, source)| source.starts_with("https://")).count();
    assert!(public >= 25, "only {public} texts have a public address");
}

/// What another program makes of a line.
type Dress = fn(&str) -> String;

/// Each line of a log with what other programs put before it.
#[test]
fn prefixes_do_not_change_the_sentence() {
    let is_log = |name: &&str| name.starts_with("log-") || name.starts_with("soft-");
    let dressed: [(&str, Dress); 7] = [
        ("dmesg", |line| format!("[ 1234.567890] {line}\n")),
        ("dmesg with the caller", |line| format!("[ 1234.567890][  T123] {line}\n")),
        ("journal", |line| format!("Feb 09 08:09:39 host kernel: {line}\n")),
        ("syslog with CRLF", |line| format!("Feb  9 08:09:39 host kernel: [ 12.345678] {line}\r\n")),
        ("mail", |line| format!("> > {line}\n")),
        ("serial console", |line| format!("<4>[    1.234567] {line}\n")),
        ("indented", |line| format!("        {line}\n")),
    ];
    let mut seen = 0;
    for (name, sentence) in SENTENCES.iter().filter(|(name, _)| is_log(name)) {
        for (form, dress) in dressed {
            let text: String = read(name).lines().map(dress).collect();
            let found = explain(&[("-", &text)]).map(|found| found.answer);
            assert_eq!(found.as_deref(), Some(*sentence), "{name} as {form}");
            seen += 1;
        }
    }
    assert!(seen >= 80, "{seen}");
}

/// Texts of one machine together: the failure is the answer, and zoneinfo adds what the log lacks.
#[test]
fn several_texts_are_explained_together() {
    let (log, info) = (read("log-4.9-order10-only-cma.txt"), read("zoneinfo-highs-differ.txt"));
    let found = explain(&[("dmesg", &log), ("zoneinfo", &info)]).unwrap();
    assert!(found.answer.starts_with("An order-10 GFP_ATOMIC request"), "{}", found.answer);
    assert_eq!(found.auto_tuning.as_deref(), Some("on"));
    assert!(found.answer.contains("the lists tune themselves"), "{}", found.answer);
    // In one file, after each other.
    let one = explain(&[("-", &(log + "\n" + &info))]).unwrap();
    assert_eq!(one.answer, found.answer);
}

/// One bad line is counted and named; the others count.
#[test]
fn a_bad_line_is_counted() {
    let text = read("buddyinfo-healthy.txt").replace("Node 0, zone    DMA32", "zone?? DMA32 x");
    let found = explain(&[("b.txt", &text)]).unwrap();
    assert_eq!((found.lines, found.lines_unknown), (4, 2));
    let first = found.first_unknown.unwrap();
    assert_eq!((first.file.as_str(), first.line), ("b.txt", 1));
    assert!(explain(&[("-", "nothing\nof a known kind\n")]).is_none());
    assert!(explain(&[("-", "")]).is_none());
}

/// kB of a log and its pages: the amounts in JSON are pages of the size that the log shows.
#[test]
fn amounts_are_pages() {
    let of = |name: &str| explain(&[("-", &read(name))]).unwrap();
    let large = of("log-64k-pages.txt");
    let zone = &large.zones[0];
    assert_eq!((large.page_bytes, zone.free, zone.min, zone.held), (65_536, Some(3000), Some(11_008), Some(40)));
    let small = of("log-2.6.38-atomic-markdown.txt");
    let zone = &small.zones[1];
    assert_eq!(
        (small.page_bytes, zone.free, zone.reserve, zone.serves),
        (4096, Some(12_233), Some(13_130), Some(false))
    );
    let info = of("zoneinfo-prompt-crlf.txt");
    assert_eq!((info.zones[1].free, info.zones[1].low), (Some(20_000), Some(82_000)));
}

/// The text as the command prints it, and JSON.
#[test]
fn results_have_two_forms() {
    for (name, sentence) in SENTENCES.iter() {
        let found = explain(&[("-", &read(name))]).unwrap();
        let text = pageset_explain::text(&found, None);
        let first: String = text.split("\n\n").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(first, *sentence);
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(json["schema"], pageset_explain::SCHEMA);
    }
}
