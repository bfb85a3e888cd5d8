//! `pageset report`, as a user runs it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Small, ends, json, json_to};

/// The JSON of a replay and its page.
fn replayed(small: &Small) -> (serde_json::Value, String) {
    let (file, page) = (small.at("replay.json"), small.at("report.html"));
    ends(0, &[&"replay", &small.events(), &"--rules", &"kernel,linux-5.18", &json_to(&file)]);
    let (text, error) = ends(0, &[&"report", &file, &"-o", &page, &"--svg", &small.0.path()]);
    assert_eq!((text.as_str(), error.as_str()), ("", ""));
    (json(&fs::read_to_string(file).unwrap()), fs::read_to_string(page).unwrap())
}

/// A number in the form of tables.
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
fn the_page_has_the_numbers_and_is_self_contained() {
    let small = Small::new();
    let (result, page) = replayed(&small);
    for row in result["rules"].as_array().unwrap().iter().filter(|row| row["level"] == "reconstructed") {
        for name in ["refill_pages", "drain_pages", "held_pages_max"] {
            assert!(page.contains(&format!("<td>{}</td>", grouped(&row[name]))), "{name}: {row}");
        }
    }
    assert!(!page.contains(" src=") && !page.contains("<link rel=\"stylesheet\"") && !page.contains("@import"));
    assert!(!page.contains("url(") && !page.contains("fetch(") && !page.contains("XMLHttpRequest"));
    let addresses: Vec<&str> = page.match_indices("http").map(|(at, _)| &page[at..at + 26]).collect();
    assert!(
        addresses.iter().all(|address| *address == "http://www.w3.org/2000/svg" || address.starts_with("http-equiv")),
        "{addresses:?}"
    );
    // Three charts, each for a screen and for a phone.
    assert_eq!(page.matches("<svg").count(), 6);
    assert_eq!(page.matches("<h2>").count(), page.matches("<table>").count(), "each question has its data");
}

/// The dots of an SVG file are to scale, up to their rounding to tenths of a unit.
fn dots(svg: &roxmltree::Document<'_>, locks: f64) -> f64 {
    let title = |node: &roxmltree::Node<'_, '_>| {
        let title = node.children().find(|child| child.has_tag_name("title")).unwrap().text().unwrap().to_owned();
        title.split_once(": ").unwrap().1.split(' ').next().unwrap().replace(',', "").parse::<f64>().unwrap()
    };
    let circles = svg.descendants().filter(|node| node.has_tag_name("circle"));
    let near = |a: &roxmltree::Node<'_, '_>, b: &roxmltree::Node<'_, '_>| {
        (title(a) - locks).abs().total_cmp(&(title(b) - locks).abs())
    };
    circles.min_by(near).unwrap().attribute("cy").unwrap().parse().unwrap()
}

#[test]
fn svg_charts_are_well_formed_and_to_scale() {
    let small = Small::new();
    let (result, _) = replayed(&small);
    let text = fs::read_to_string(small.at("chart-1.svg")).unwrap();
    let svg = roxmltree::Document::parse(&text).unwrap();
    let rows = &result["rules"].as_array().unwrap()[..2];
    let of = |name: &str| -> Vec<f64> { rows.iter().map(|row| row[name].as_f64().unwrap()).collect() };
    let dots = [
        dots(&svg, of("zone_lock_acquisitions_per_1000_operations")[0]),
        dots(&svg, of("zone_lock_acquisitions_per_1000_operations")[1]),
    ];
    // The axis of locks begins at 0 at the lower line of the grid.
    let locks = of("zone_lock_acquisitions_per_1000_operations");
    let bottom = svg
        .descendants()
        .filter(|node| node.attribute("class") == Some("grid"))
        .map(|node| node.attribute("y2").unwrap().parse::<f64>().unwrap())
        .fold(0.0, f64::max);
    let heights = dots.map(|dot| bottom - dot);
    assert!((heights[0] / heights[1] - locks[0] / locks[1]).abs() < 0.01, "{heights:?} {locks:?}");
    assert!(text.contains("<style>") && text.contains("prefers-color-scheme: dark"));
}

#[test]
fn names_are_escaped() {
    let small = Small::new();
    let rules = small.at("<b>&.toml");
    fs::write(&rules, "name = '<img src=x onerror=alert(1)>'\n").unwrap();
    let (file, page) = (small.at("replay.json"), small.at("report.html"));
    ends(0, &[&"replay", &small.events(), &"--rules", &rules, &json_to(&file)]);
    ends(0, &[&"report", &file, &"-o", &page]);
    let page = fs::read_to_string(page).unwrap();
    assert!(!page.contains("<img") && page.contains("&lt;img"), "a name became a tag");
}

/// What acts on a reader or hides text is escaped in each form of a report.
#[test]
fn names_cannot_act_on_a_reader() {
    let small = Small::new();
    let (mut result, _) = replayed(&small);
    let hostile = "\u{1b}]0;title\u{7}\u{202e}";
    (result["trace"]["name"], result["rules"][0]["name"]) = (hostile.into(), hostile.into());
    let file = small.at("replay.json");
    fs::write(&file, result.to_string()).unwrap();
    ends(0, &[&"report", &file, &"-o", &small.at("page.html"), &"--svg", &small.0.path()]);
    ends(0, &[&"report", &file, &"--markdown", &"-o", &small.at("page.md")]);
    for name in ["page.html", "page.md", "chart-1.svg"] {
        let text = fs::read_to_string(small.at(name)).unwrap();
        let acts = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(acts), "{name}");
        assert!(text.contains("u{1b}]0;title"), "{name}");
    }
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
    assert!(recording.contains("How many pages did each CPU") && recording.contains("<polyline"), "{recording}");
    assert!(recording.contains("<code>pageset replay "), "{recording}");
    let advice = small.at("advice.json");
    ends(0, &[&"advise", &small.events(), &json_to(&advice)]);
    assert!(page(&advice).contains("<p class=\"verdict\">Change nothing</p>"));
    let set = small.at("set.json");
    let json = format!("--json={}", set.display());
    ends(0, &[&"advise", &small.events(), &small.events(), &json]);
    let several = page(&set);
    assert!(several.contains("<h1>Advice on 2 recordings</h1>"), "{several}");
    assert_eq!(several.matches("<p class=\"verdict\">Change nothing</p>").count(), 3, "of both, and of each");
    assert!(several.contains("<span class=\"number\">2</span> <span class=\"unit\">recordings</span>"), "{several}");
    let looks = small.at("looks.json");
    let (text, _) = ends(0, &[&"top", &"--json", &"-n", &"3", &"-i", &"0.1"]);
    fs::write(&looks, text).unwrap();
    assert!(page(&looks).contains("Pagesets over 3 looks"));
    let (markdown, _) = ends(0, &[&"report", &"--markdown", &advice, &"-o", &"-"]);
    assert!(markdown.contains("\n| --- | ---: | ---: |\n"), "{markdown}");
    assert_eq!(markdown.matches("Advice on ").count(), 1, "the title once: {markdown}");
    assert!(markdown.starts_with("# Advice on "), "{markdown}");
    let (markdown, _) = ends(0, &[&"report", &"--markdown", &advice, &looks, &"-o", &"-"]);
    let heads: Vec<&str> = markdown.lines().filter(|line| line.starts_with("# ") || line.contains("## ")).collect();
    assert!(heads[0] == "# Report on 2 inputs" && heads[1].starts_with("## Advice on "), "{heads:?}");
}

#[test]
fn advice_is_drawn_with_its_gains_and_costs() {
    let small = Small::new();
    let advice = small.at("advice.json");
    ends(0, &[&"advise", &small.events(), &json_to(&advice)]);
    ends(0, &[&"report", &advice, &"-o", &small.at("report.html"), &"--svg", &small.0.path()]);
    let advice = json(&fs::read_to_string(advice).unwrap());
    let rows: Vec<&serde_json::Value> =
        ["settings", "other_kernels"].iter().flat_map(|list| advice[list].as_array().unwrap()).collect();
    let number = |row: &serde_json::Value, name: &str| row[name].as_f64().unwrap();
    // The chart that decides names the setting in force, and its table has all of them.
    let text = fs::read_to_string(small.at("chart-1.svg")).unwrap();
    assert!(text.contains(">0 (in force)") && text.contains(">linux-4.19<"), "{text}");
    assert_eq!(text.matches("<circle").count(), rows.len());
    // The page names the patterns, and the gain and the cost of a change.
    let page = fs::read_to_string(small.at("report.html")).unwrap();
    assert!(page.contains("Pattern travelling-pages: 100 % of the pages"), "{page}");
    // A sentence, because the room for huge pages hardly differs.
    let huge = rows.iter().map(|row| number(row, "huge_pages_free"));
    assert!(huge.clone().fold(0.0, f64::max) <= 1.02 * huge.fold(f64::MAX, f64::min));
    assert!(page.contains("<p class=\"said\">Nothing here differs by 2 %. huge pages free: "), "{page}");
    assert!(!page.contains("Price: "), "{page}");
    let mut changed = advice.clone();
    changed["verdict"] = serde_json::json!({ "basis": "gain", "high_fraction": 8, "why": "it is better" });
    (changed["gain"], changed["price"]) = ("fewer locks".into(), "more pages".into());
    changed["settings"][0]["huge_pages_free"] = serde_json::Value::Null;
    fs::write(small.at("changed.json"), changed.to_string()).unwrap();
    let (text, _) = ends(0, &[&"report", &"--markdown", &small.at("changed.json"), &"-o", &"-"]);
    assert!(text.contains("\nGain: fewer locks.\n") && text.contains("\nPrice: more pages.\n"), "{text}");
    assert!(text.contains("**Set vm.percpu_pagelist_high_fraction = 8.** It is better."), "{text}");
    assert!(!text.contains("how many huge pages"), "half of a chart: {text}");
}

/// The kernel's snapshots are drawn at the times when they were read.
#[test]
fn a_recording_is_drawn_over_its_time() {
    let small = Small::new();
    let (text, _) = ends(0, &[&"report", &"--markdown", &small.events(), &"-o", &"-"]);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(" | ").collect()).collect();
    let of_cpu = rows.iter().filter(|row| row[0] == "| CPU 0, 0 Normal");
    let seconds: Vec<f64> = of_cpu.map(|row| row[1].parse().unwrap()).collect();
    // Three snapshots before the load, some during it, three after it; a shortened recording covers less time.
    assert!(seconds.len() > 5 && seconds.is_sorted(), "{seconds:?}");
    let (first, last) = (seconds[0], *seconds.last().unwrap());
    assert!(first < 0.05 && (0.1..0.6).contains(&last), "{seconds:?}");
}

/// The charts agree with the looks: refills, drains, and the waits of each CPU summed over all paths.
#[test]
fn looks_are_drawn_over_time() {
    let small = Small::new();
    let path = |pct: f64| serde_json::json!({ "times": 1, "ns": 1, "per_s": 1.0, "pct": pct });
    let looks = (0..3_u64).map(|i| {
        let waits = serde_json::json!({
            "refill": path(i as f64), "drain": path(0.5), "direct_alloc": path(0.0), "direct_free": path(0.25)
        });
        let set = |cpu: u64, count, high| serde_json::json!({ "cpu": cpu, "count": count, "high": high, "batch": 63 });
        let traffic = |cpu: u64, refills: u64, drains: u64| {
            serde_json::json!({
                "cpu": cpu, "refill_pages": 0, "drain_pages": 0, "high_order_drains": 0, "fallbacks": 0,
                "refill_pages_per_s": refills, "drain_pages_per_s": drains
            })
        };
        let mut waiting = traffic(3, 100 + i, 200 + i);
        waiting["zone_lock_waits"] = waits;
        let look = serde_json::json!({
            "schema": "pageset.top/1", "source": "live", "elapsed_ns": 1_000_000_000,
            "time_ns": 1_000_000_000 * (7 + i),
            "kernel": {
                "release": "r", "rules": "linux-6.18", "auto_tuning": "on", "known": true, "is_another": false
            },
            "zones": [{
                "node": 0, "zone": "Normal", "managed": 1000, "free": 900, "min": 1, "low": 2, "high": 3, "batch": 63,
                "held": 40 + i, "held_change": 1, "held_pct": 4.0, "pagesets": [set(3, 40 + i, 500 + i), set(4, 0, 300)]
            }],
            "traffic": [traffic(1, 50 * i, 0), waiting],
            "cpu_nodes": [], "vmstat": [], "news": [], "missing": []
        });
        look.to_string() + "\n"
    });
    fs::write(small.at("looks.json"), looks.collect::<String>()).unwrap();
    // Colours do not depend on the order of peaks, and a line that is always 0 is only in the table.
    ends(0, &[&"report", &small.at("looks.json"), &"-o", &small.at("page.html"), &"--svg", &small.0.path()]);
    let legends = ["chart-3.svg", "chart-4.svg"].map(|file| {
        let text = fs::read_to_string(small.at(file)).unwrap();
        let svg = roxmltree::Document::parse(&text).unwrap();
        let named = svg.descendants().filter(|node| node.attribute("class") == Some("name"));
        let name = |node: roxmltree::Node<'_, '_>| node.text().unwrap().to_owned();
        let lines = svg.descendants().filter(|node| node.has_tag_name("polyline")).count();
        (named.map(name).collect::<Vec<_>>(), lines)
    });
    // A bound is dashed and has the colour of its pageset.
    let text = fs::read_to_string(small.at("chart-2.svg")).unwrap();
    let svg = roxmltree::Document::parse(&text).unwrap();
    let lines = svg.descendants().filter(|node| node.has_tag_name("polyline"));
    assert_eq!(lines.filter_map(|line| line.attribute("class")).collect::<Vec<_>>(), ["line0", "line0 dashed"]);
    assert_eq!(legends[0], (vec!["CPU 1".to_owned(), "CPU 3".to_owned()], 2));
    assert_eq!(legends[1], (vec!["CPU 3".to_owned()], 1));
    let (text, _) = ends(0, &[&"report", &"--markdown", &small.at("looks.json"), &"-o", &"-"]);
    assert!(text.contains("Healthy: 5 moves a second of 1,000, waits 2.8 % of the time"), "{text}");
    assert!(text.contains("\n| 0 Normal | 2.000 | 42 |\n"), "{text}");
    assert!(text.contains("\n| CPU 3, 0 Normal | 2.000 | 42 | 502 |\n"), "{text}");
    assert!(text.contains("\n| CPU 4, 0 Normal | 2.000 | 0 | 300 |\n"), "{text}");
    for (question, last) in [
        ("How many pages do refills take?", "102"),
        ("How many pages do drains return?", "202"),
        ("How much of its time does each CPU wait for zone locks?", "2.75"),
    ] {
        let section = text.split("## ").find(|section| section.starts_with(question)).unwrap();
        assert!(section.contains(&format!("| CPU 3 | 2.000 | {last} |")), "{section}");
    }
}

/// Markdown does not get the name of a page, and the folder of charts need not exist.
#[test]
fn outputs_have_their_own_names() {
    let small = Small::new();
    let run = |arguments: &[&str]| {
        let folder: &Path = small.0.path();
        let mut report = std::process::Command::new(crate::PROGRAM);
        let output = report.current_dir(folder).args(["report", "small.events"]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(run(&["--markdown"]), "wrote pageset.md\n");
    assert!(fs::read_to_string(small.at("pageset.md")).unwrap().starts_with("# "));
    assert!(!small.at("pageset.html").exists());
    assert_eq!(run(&["--svg", "a/new/folder"]), "wrote pageset.html\n");
    assert!(fs::read_to_string(small.at("pageset.html")).unwrap().starts_with("<!"));
    assert!(small.at("a/new/folder/chart-1.svg").exists());
    fs::write(small.at("file"), "").unwrap();
    let (_, error) = ends(6, &[&"report", &small.events(), &"-o", &small.at("x"), &"--svg", &small.at("file/charts")]);
    assert!(error.contains("cannot make the folder") && error.contains("file/charts"), "{error}");
}

/// Charts over time have the same axis, although rates begin with the second look.
#[test]
fn charts_share_the_axis_of_time() {
    let small = Small::new();
    let (text, _) = ends(0, &[&"top", &"--json", &"-n", &"1", &"-i", &"0.1", &"--no-count"]);
    let mut looks = String::new();
    for second in 0..5_u64 {
        let mut look = json(&text);
        look["time_ns"] = (1_000_000_000_000 + second * 1_000_000_000).into();
        let traffic = serde_json::json!([{
            "cpu": 0, "refill_pages": 0, "drain_pages": 0, "high_order_drains": 0, "fallbacks": 0,
            "refill_pages_per_s": 5.0 * second as f64
        }]);
        // The first look has no rates, and counting ends before the last look.
        look["traffic"] = if (1..4).contains(&second) { traffic } else { serde_json::Value::Null };
        looks += &format!("{look}\n");
    }
    fs::write(small.at("looks.json"), looks).unwrap();
    ends(0, &[&"report", &small.at("looks.json"), &"-o", &small.at("page.html"), &"--svg", &small.0.path()]);
    let labels = |file: &str| {
        let text = fs::read_to_string(small.at(file)).unwrap();
        let svg = roxmltree::Document::parse(&text).unwrap();
        let texts = svg.descendants().filter(|node| node.has_tag_name("text"));
        let times = texts.filter(|node| node.text().is_some_and(|text| text.trim().ends_with(" s")));
        let place = |node: roxmltree::Node<'_, '_>| {
            (node.text().unwrap().trim().to_owned(), node.attribute("x").unwrap().to_owned())
        };
        times.map(place).collect::<Vec<_>>()
    };
    let held = labels("chart-1.svg");
    assert!(held.len() > 3, "{held:?}");
    assert_eq!(held, labels("chart-3.svg"));
}

/// A day of looks, ten seconds apart: the drawing stays small, and no peak is lost.
#[test]
fn ten_thousand_looks_are_drawn_with_few_points() {
    let small = Small::new();
    let (text, _) = ends(0, &[&"top", &"--json", &"-n", &"1", &"--no-count"]);
    let look = json(&text);
    let looks = (0..10_000_u64).map(|i| {
        let mut look = look.clone();
        look["time_ns"] = (1_700_000_000_000_000_000 + i * 10_000_000_000).into();
        for zone in look["zones"].as_array_mut().unwrap() {
            zone["held"] = (if i == 5003 { 77_777 } else { 1000 + i % 7 }).into();
        }
        look.to_string() + "\n"
    });
    fs::write(small.at("looks.json"), looks.collect::<String>()).unwrap();
    ends(0, &[&"report", &small.at("looks.json"), &"-o", &small.at("report.html"), &"--svg", &small.0.path()]);
    let text = fs::read_to_string(small.at("chart-1.svg")).unwrap();
    let svg = roxmltree::Document::parse(&text).unwrap();
    let lines: Vec<usize> = svg
        .descendants()
        .filter(|node| node.has_tag_name("polyline"))
        .map(|node| node.attribute("points").unwrap().split(' ').count())
        .collect();
    assert!(!lines.is_empty() && lines.iter().all(|points| (600..=1400).contains(points)), "{lines:?}");
    // The peak is at the top of the scale; all other values are low.
    let highest = |points: &str| {
        points.split(' ').map(|p| p.split_once(',').unwrap().1.parse::<f64>().unwrap()).fold(f64::MAX, f64::min)
    };
    let line = svg.descendants().find(|node| node.has_tag_name("polyline")).unwrap().attribute("points").unwrap();
    assert!(highest(line) < 60.0, "{}", highest(line));
    let page = fs::read_to_string(small.at("report.html")).unwrap();
    assert_eq!(
        page.matches(">77,777<").count(),
        look["zones"].as_array().unwrap().len(),
        "a look is missing in the table"
    );
    // Tables are split into parts that the browser lays out when they become visible. Each part has its heading.
    assert!(page.matches("<div class=\"part\"><table>").count() >= 10_000 / 200, "the table is not split into parts");
    assert_eq!(page.matches("<table>").count(), page.matches("<thead>").count());
}

#[test]
fn inputs_that_are_not_results_are_refused() {
    let small = Small::new();
    for (text, message) in [
        ("{}", "missing text `schema`"),
        ("{\"schema\": \"pageset.replay/9\"}", "unknown schema `pageset.replay/9`"),
        ("{\"schema\": \"pageset.replay/1\"}", "missing field `level`"),
        (r#"{"schema": "pageset.run/1"}"#, "unknown schema `pageset.run/1`; `pageset-lab report` reads it"),
        ("{\"schema\": ", "EOF"),
        ("[]", "missing text `schema`"),
    ] {
        fs::write(small.at("bad.json"), text).unwrap();
        let out = small.at("out.html");
        let (_, error) = ends(4, &[&"report", &small.at("bad.json"), &"-o", &out]);
        assert!(error.contains(message), "{text}: {error}");
        assert!(!out.exists(), "a failed report left a file");
    }
}

/// The page's policy allows its own scripts and no others: each by its hash.
#[test]
fn only_the_own_scripts_may_run() {
    use base64::Engine as _;
    use sha2::Digest as _;

    let small = Small::new();
    let out = small.at("report.html");
    ends(0, &[&"report", &small.events(), &"-o", &out]);
    let page = fs::read_to_string(out).unwrap();
    let policy = page.split("Content-Security-Policy\" content=\"").nth(1).unwrap().split('"').next().unwrap();
    // An attribute has a slash as a reference to it.
    let policy = policy.replace("&#x2f;", "/");
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    let scripts: Vec<&str> =
        page.split("<script>").skip(1).map(|rest| rest.split_once("</script>").unwrap().0).collect();
    assert_eq!((scripts.len(), policy.matches("'sha256-").count()), (2, 2));
    for script in scripts {
        let hash = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(script));
        assert!(policy.contains(&hash), "{policy} does not allow {hash}: {}", &script[..80.min(script.len())]);
    }
    // Data are no scripts.
    assert!(page.matches("<script type=\"application/json\">").count() >= 2);
}

/// The page and its Markdown begin with the same card.
#[test]
fn a_report_answers_first() {
    let small = Small::new();
    let (result, page) = replayed(&small);
    let file = small.at("replay.json");
    let (text, _) = ends(0, &[&"report", &file, &"--markdown", &"-o", &"-"]);
    let verdict = text.split("**").nth(1).unwrap().trim_end_matches('.');
    assert!(verdict.contains("the zone lock least"), "{text}");
    assert!(page.contains(&format!("<p class=\"verdict\">{}</p>", verdict.replace('\'', "&#x27;"))), "{verdict}");
    assert!(text.find("Trust: ").unwrap() < text.find("\n## small: ").unwrap(), "{text}");
    assert_eq!(page.matches("<span class=\"number\">").count(), 3);
    // Where the replay under the kernel's own rules fails, nothing is said about the others.
    let mut failed = result.clone();
    failed["kernel"]["refills"] = (10 * result["kernel"]["refills"].as_u64().unwrap()).into();
    fs::write(&file, failed.to_string()).unwrap();
    let (text, _) = ends(0, &[&"report", &file, &"--markdown", &"-o", &"-"]);
    assert!(text.contains("**No verdict.** ") && text.contains("by -90.0 %"), "{text}");
    assert!(text.contains("\nTrust: low\n") && !text.contains("zone-lock holds, "), "{text}");
}

/// A map of CPUs by time: each cell is the sum of the kernel's moves, so that all cells together are its totals.
#[test]
fn a_map_of_cpus_has_all_pages() {
    let small = Small::new();
    let (text, _) = ends(0, &[&"report", &small.events(), &"--markdown", &"-o", &"-"]);
    let section = text.split("\n## Which CPUs move pages").nth(1).unwrap().split("\n## ").next().unwrap();
    let pages: u64 = section
        .lines()
        .filter_map(|line| line.strip_prefix("| CPU ")?.split(" | ").nth(1)?.replace(',', "").parse::<u64>().ok())
        .sum();
    let fact = text.lines().find(|line| line.starts_with("The kernel made ")).unwrap();
    let numbers: Vec<u64> = fact.split(' ').filter_map(|word| word.replace(',', "").parse().ok()).collect();
    assert_eq!(pages, numbers[1] + numbers[3], "{fact}");
}

/// A browser shows the page, without errors on its console.
#[test]
fn a_browser_shows_it() {
    let small = Small::new();
    let (result, _) = replayed(&small);
    let browser = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--v=0", "--dump-dom"])
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
    // The script has run: values are read back from it, and no longer from titles.
    let titles = page.matches("</title></rect>").count() + page.matches("</title></circle>").count();
    assert_eq!((page.matches("class=\"tip\"").count(), titles), (3, 0));
    assert!(page.contains(&grouped(&result["rules"][0]["refill_pages"])));
}

/// The form of a page is that of its name.
#[test]
fn a_name_gives_the_form() {
    let small = Small::new();
    for (name, begin) in [("a.md", "# "), ("a.markdown", "# "), ("a.html", "<!DOCTYPE html>"), ("a", "<!DOCTYPE html>")]
    {
        ends(0, &[&"report", &"demo", &"-o", &small.at(name)]);
        assert!(fs::read_to_string(small.at(name)).unwrap().starts_with(begin), "{name}");
    }
    let (_, error) = ends(2, &[&"report", &"demo", &"--markdown", &"-o", &small.at("b.html")]);
    assert!(error.contains("--markdown writes no .html") && !small.at("b.html").exists(), "{error}");
    let (_, error) = ends(2, &[&"report", &"demo", &"-o", &small.at("a.pdf")]);
    assert!(
        error.contains("cannot write a report as .pdf; allowed: .html, .md") && !small.at("a.pdf").exists(),
        "{error}"
    );
}
