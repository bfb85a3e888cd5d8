//! `pageset report`, as a user runs it.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use support::{Small, ends, json};

/// JSON of a replay and the page made of it.
fn replayed(small: &Small) -> (serde_json::Value, String) {
    let (file, page) = (small.at("replay.json"), small.at("report.html"));
    ends(0, &[&"replay", &small.events(), &"--rules", &"kernel,linux-5.18", &"--json", &file]);
    let (text, error) = ends(0, &[&"report", &file, &"-o", &page, &"--svg", &small.0.path()]);
    assert_eq!((text.as_str(), error.as_str()), ("", ""));
    (json(&fs::read_to_string(file).unwrap()), fs::read_to_string(page).unwrap())
}

/// A number as tables have it.
fn grouped(value: &serde_json::Value) -> String {
    let digits = value.as_u64().unwrap().to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn the_page_has_the_numbers_and_needs_nothing() {
    let small = Small::new();
    let (result, page) = replayed(&small);
    for row in result["rules"].as_array().unwrap().iter().filter(|row| row["level"] == "reconstructed") {
        for name in ["refill_pages", "drain_pages", "held_pages_max"] {
            assert!(page.contains(&format!("<td>{}</td>", grouped(&row[name]))), "{name}: {row}");
        }
    }
    assert!(!page.contains("<script") && !page.contains("<link rel=\"stylesheet\"") && !page.contains("@import"));
    let addresses: Vec<&str> = page.match_indices("http").map(|(at, _)| &page[at..at + 26]).collect();
    assert!(
        addresses.iter().all(|address| *address == "http://www.w3.org/2000/svg" || address.starts_with("http-equiv")),
        "{addresses:?}"
    );
    assert_eq!(page.matches("<svg").count(), 4);
    assert_eq!(page.matches("<h2>").count(), page.matches("<table>").count(), "each question has its data");
}

/// Bars of a chart alone are as high as the numbers say, to the tenth of a unit that they are rounded to.
#[test]
fn charts_alone_are_well_formed_and_to_scale() {
    let small = Small::new();
    let (result, _) = replayed(&small);
    let text = fs::read_to_string(small.at("chart-1.svg")).unwrap();
    let svg = roxmltree::Document::parse(&text).unwrap();
    let bars: Vec<f64> = svg
        .descendants()
        .filter(|node| node.has_tag_name("rect"))
        .map(|node| node.attribute("height").unwrap().parse().unwrap())
        .collect();
    let locks: Vec<f64> = result["rules"].as_array().unwrap()[..2]
        .iter()
        .map(|row| row["zone_lock_acquisitions_per_1000_operations"].as_f64().unwrap())
        .collect();
    assert_eq!(bars.len(), 2);
    assert!((bars[0] / bars[1] - locks[0] / locks[1]).abs() < 0.01, "{bars:?} {locks:?}");
    assert!(text.contains("<style>") && text.contains("prefers-color-scheme: dark"));
}

#[test]
fn names_are_escaped() {
    let small = Small::new();
    let rules = small.at("<b>&.toml");
    fs::write(&rules, "name = '<img src=x onerror=alert(1)>'\n").unwrap();
    let (file, page) = (small.at("replay.json"), small.at("report.html"));
    ends(0, &[&"replay", &small.events(), &"--rules", &rules, &"--json", &file]);
    ends(0, &[&"report", &file, &"-o", &page]);
    let page = fs::read_to_string(page).unwrap();
    assert!(!page.contains("<img") && page.contains("&lt;img"), "a name became a tag");
}

#[test]
fn every_kind_of_input() {
    let small = Small::new();
    let page = |input: &dyn AsRef<Path>| {
        let out = small.at("report.html");
        ends(0, &[&"report", &input, &"-o", &out]);
        fs::read_to_string(out).unwrap()
    };
    let recording = page(&small.events());
    assert!(recording.contains("How full was each CPU") && recording.contains("<polyline"), "{recording}");
    let advice = small.at("advice.json");
    ends(0, &[&"advise", &small.events(), &"--json", &advice]);
    assert!(page(&advice).contains("Verdict: change nothing"));
    let looks = small.at("looks.json");
    let (text, _) = ends(0, &[&"top", &"--json", &"-n", &"3", &"-i", &"0.1"]);
    fs::write(&looks, text).unwrap();
    assert!(page(&looks).contains("Pagesets over 3 looks"));
    let (markdown, _) = ends(0, &[&"report", &"--markdown", &advice, &"-o", &"-"]);
    assert!(markdown.contains("\n| --- | ---: |\n"), "{markdown}");
}

#[test]
fn what_is_no_result_is_refused() {
    let small = Small::new();
    for (text, message) in [
        ("{}", "there is no `schema`"),
        ("{\"schema\": \"pageset.replay/9\"}", "the schema pageset.replay/9 is not known"),
        ("{\"schema\": \"pageset.replay/1\"}", "there is no list `rules`"),
        ("{\"schema\": ", "EOF"),
        ("[]", "there is no `schema`"),
    ] {
        fs::write(small.at("bad.json"), text).unwrap();
        let out = small.at("out.html");
        let (_, error) = ends(4, &[&"report", &small.at("bad.json"), &"-o", &out]);
        assert!(error.contains(message), "{text}: {error}");
        assert!(!out.exists(), "half a report");
    }
}

/// In a browser: what the page shows, and that it is content with itself.
#[test]
fn a_browser_shows_it() {
    let small = Small::new();
    let (result, _) = replayed(&small);
    let browser = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0", "--dump-dom"])
        .arg(format!("--user-data-dir={}", small.at("profile").display()))
        .arg(format!("file://{}", small.at("report.html").display()))
        .stdin(Stdio::null())
        .output();
    let shown = match browser {
        Ok(shown) => shown,
        Err(error) => return println!("SKIPPED a_browser_shows_it: chromium: {error}"),
    };
    let (page, said) = (String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
    assert!(shown.status.success(), "{said}");
    assert!(!said.contains("CONSOLE"), "{said}");
    assert_eq!(
        page.matches("<rect").count(),
        page.matches("</title></rect>").count() + 4,
        "bars and keys of two charts"
    );
    let refills = grouped(&result["rules"][0]["refill_pages"]);
    assert!(page.contains(&format!("linux-6.18, refill pages: {refills}</title>")), "{refills}");
}
