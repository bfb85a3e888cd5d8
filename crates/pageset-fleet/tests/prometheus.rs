//! A Prometheus server that does not exist, asked for its machines.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use pageset_fleet::agent::of_view;
use pageset_fleet::look::{Look, When};
use pageset_fleet::metrics::Exporter;
use pageset_fleet::view::View;
use pageset_fleet::{Fleet, Merge};
use pageset_record::live::{Holds, Traffic, Wait, Waits};
use pageset_trace::procfs::Zoneinfo;
use pageset_trace::verdict::machine::judge;

/// Serves what `answer` says of a query, and returns the address.
fn server(answer: impl Fn(&str) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // All of the request is read, so that closing does not reset the connection.
            let request: Vec<String> =
                BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let request = &request[0];
            let _ = stream.write_all(answer(request).as_bytes());
        }
    });
    format!("http://{address}")
}

fn asked(url: &str) -> Result<Fleet, String> {
    let mut merge = Merge::default();
    merge.query(url)?;
    Ok(merge.finish())
}

fn ok(result: &str) -> String {
    format!(
        "HTTP/1.0 200 OK\r\n\r\n{{\"status\":\"success\",\"data\":{{\"resultType\":\"vector\",\"result\":[{result}]}}}}"
    )
}

/// A sample with the labels of `labels`, in JSON.
fn sample(labels: &str, value: &str) -> String {
    format!("{{\"metric\":{{{labels}}},\"value\":[1795809600.5,\"{value}\"]}}")
}

fn metrics(request: &str) -> String {
    let kernel = |instance: &str, tuning: &str, fraction: u32| {
        let labels = format!(
            "\"instance\":\"{instance}\",\"release\":\"6.12.1\",\"rules\":\"linux-6.12\",\"auto_tuning\":\"{tuning}\",\
             \"high_fraction\":\"{fraction}\""
        );
        sample(&labels, "1")
    };
    let of = |instance: &str, more: &str, value: &str| sample(&format!("\"instance\":\"{instance}\"{more}"), value);
    let all = match request {
        _ if request.contains("pageset_kernel_info") => {
            // The second series of the first machine differs in a label that does not count.
            let [a, b, c] =
                [kernel("a:9763", "off-by-fraction", 100), kernel("b:9763", "on", 0), kernel("c:9763", "on", 0)];
            vec![a.clone(), a.replace("\"release\"", "\"replica\":\"2\",\"release\""), b, c]
        }
        _ if request.contains("zone_lock_wait") => vec![
            of("a:9763", ",\"cpu\":\"3\",\"path\":\"refill\"", "0.11"),
            of("a:9763", ",\"cpu\":\"3\",\"path\":\"drain\"", "0.02"),
            of("a:9763", ",\"cpu\":\"4\",\"path\":\"drain\"", "NaN"),
            of("b:9763", ",\"cpu\":\"0\",\"path\":\"drain\"", "0.0001"),
        ],
        _ if request.contains("refill_pages_total") => {
            vec![
                of("a:9763", ",\"cpu\":\"3\"", "5000"),
                of("b:9763", ",\"cpu\":\"0\"", "7.4"),
                of("c:9763", ",\"cpu\":\"1\"", "3"),
            ]
        }
        _ if request.contains("pageset_high_pages") => {
            ["a:9763", "b:9763", "c:9763"].map(|host| of(host, "", "8")).to_vec()
        }
        _ if request.starts_with("GET /api/v1/query?query=pageset_zone_low_pages%20%3E") => {
            vec![of("c:9763", ",\"node\":\"0\",\"zone\":\"Normal\"", "5000")]
        }
        _ if request.contains("pageset_zone_free_pages%20%3C") => {
            vec![of("c:9763", ",\"node\":\"0\",\"zone\":\"Normal\"", "4100")]
        }
        _ => Vec::new(),
    };
    ok(&all.join(","))
}

/// The verdicts of metrics are those of an agent.
#[test]
fn metrics_get_the_verdict_of_an_agent() {
    let fleet = asked(&server(metrics)).unwrap();
    let rows: Vec<(&str, &str)> =
        fleet.groups.iter().map(|group| (group.hosts[0].as_str(), group.verdict.as_str())).collect();
    assert_eq!(rows, [("a:9763", "tuning-off"), ("c:9763", "memory-short"), ("b:9763", "healthy")]);
    assert!(fleet.sentence.starts_with("1 of 3 machines waits for zone locks; set "), "{}", fleet.sentence);
    let waits = fleet.groups[0].waiting_cpus.unwrap();
    assert!((waits - 0.13).abs() < 1e-9, "{waits}");
}

/// Machines whose holds are counted, and whose waits are not: both lists a fraction of 100 fixes, and one has few holds.
fn holds(request: &str) -> String {
    let kernel = |instance: &str| {
        let labels = "\"release\":\"6.12.1\",\"rules\":\"linux-6.12\",\"auto_tuning\":\"off-by-fraction\"";
        sample(&format!("\"instance\":\"{instance}\",{labels},\"high_fraction\":\"100\""), "1")
    };
    let of = |instance: &str, cpu: u32, value: &str| {
        sample(&format!("\"instance\":\"{instance}\",\"cpu\":\"{cpu}\""), value)
    };
    let all = match request {
        _ if request.contains("pageset_kernel_info") => vec![kernel("a:9763"), kernel("b:9763")],
        _ if request.contains("pageset_zone_lock_holds_total") => {
            vec![of("a:9763", 3, "2400"), of("a:9763", 4, "1300"), of("b:9763", 0, "12")]
        }
        // One hold may move 32 batches.
        _ if request.contains("refill_pages_total") => vec![of("a:9763", 4, "9000"), of("b:9763", 0, "5000")],
        _ => Vec::new(),
    };
    ok(&all.join(","))
}

/// Counted holds replace the pages per batch. How many of them larger lists avoid no metric tells, so that a recording has to.
#[test]
fn counted_holds_of_a_server_set_nothing_without_a_recording() {
    let fleet = asked(&server(holds)).unwrap();
    let of = |group: &pageset_fleet::Group| (group.hosts[0].clone(), group.verdict.clone(), group.needs_recording);
    let rows: Vec<_> = fleet.groups.iter().map(of).collect();
    let row = |host: &str, verdict: &str, recording| (host.to_owned(), verdict.to_owned(), recording);
    assert_eq!(rows, [row("a:9763", "tuning-off", true), row("b:9763", "healthy", false)]);
    assert!(fleet.sentence.contains("run `pageset advise --live 5`"), "{}", fleet.sentence);
}

/// A look at a machine of one node, whose CPU 1 has moved what `traffic` says.
fn look(second: u64, (release, fraction): (&str, u32), traffic: Traffic, free: u64) -> Look {
    let tunes = fraction == 0 && release != "6.1.0";
    let high = 50_000_u32.checked_div(fraction).unwrap_or(500);
    let sets = [0, 1].map(|cpu| {
        let bounds = match release {
            "6.1.0" | "6.12.0" => String::new(),
            _ => format!(" high_min: {high}\n high_max: {}\n", if tunes { 6250 } else { high }),
        };
        format!("    cpu: {cpu}\n count: 0\n high: {high}\n batch: 63\n{bounds}")
    });
    let zone = format!(
        "Node 0, zone Normal\n  pages free {free}\n boost 0\n min 100\n low 200\n high 300\n spanned 100000\n present 100000\n \
         managed 100000\n cma 0\n protection: (0, 0)\n  pagesets\n{}  node_unreclaimable: 0\n  start_pfn: 1\n",
        sets.concat()
    );
    Look {
        source: "live".to_owned(),
        when: Some(When { unix_ns: Some(second * 1_000_000_000), since: Duration::from_secs(second) }),
        zoneinfo: Zoneinfo::parse(&zone).unwrap(),
        buddyinfo: None,
        vmstat: [("allocstall_normal".to_owned(), traffic.fallbacks)].into(),
        release: Some(release.to_owned()),
        version: None,
        high_fraction: Some(fraction),
        counted: true,
        counts_holds: true,
        traffic: Some(vec![Traffic { waits: traffic.waits.map(|_| Waits::default()), ..Traffic::default() }, traffic]),
        wait_times: None,
        processes: None,
        sites: None,
        cpu_nodes: Vec::new(),
        caches: Vec::new(),
        batch_scale_max: None,
        missing: Vec::new(),
    }
}

/// What a CPU may do in a minute: nothing, and loads of each kind that a verdict tells apart.
fn loads() -> Vec<Traffic> {
    let counted = |refill, drain, direct, orders: [(u32, u64); 2]| {
        let mut traffic = Traffic { cpu: 1, holds: Holds { refill, drain, direct }, ..Traffic::default() };
        orders.into_iter().for_each(|(order, blocks)| {
            traffic.refilled(order, blocks);
            traffic.drained(order, blocks);
        });
        traffic.passed_largest = [traffic.refill_pages, traffic.drain_pages / 5];
        traffic
    };
    let mut all = vec![
        counted(0, 0, 0, [(0, 0); 2]),
        counted(70_000, 60_000, 0, [(0, 9_000_000), (3, 10)]),
        // Only the rules tell these holds: drains of order 3, and those of 6.19 for each batch.
        counted(600, 600, 0, [(0, 1000), (3, 90_000)]),
        counted(600, 600, 0, [(0, 8_000_000), (9, 3)]),
        counted(0, 0, 40_000, [(0, 0); 2]),
    ];
    all.push(Traffic { passed_largest: [0; 2], ..all[1] });
    all.push(Traffic { drain_pages: 0, drain_blocks: [0; 5], ..all[1] });
    // Direct reclaim, and waits.
    all.push(Traffic { fallbacks: 6000, ..all[0] });
    let waits = |ns| Some(Waits { drain: Wait { times: 9, ns }, ..Waits::default() });
    all.extend([1_000_000, 20_000_000_000].map(|ns| Traffic { waits: waits(ns), ..all[1] }));
    all
}

/// The samples of a text by name and labels.
fn samples(text: &str) -> BTreeMap<(String, String), f64> {
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let (name, labels) = series.split_once('{')?;
        Some(((name.to_owned(), labels.trim_end_matches('}').to_owned()), value.parse().ok()?))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect()
}

/// A server that has scraped these two texts of a machine, a minute apart, and knows the queries of `fleet`.
fn scraped(texts: [String; 2], has_verdict: bool) -> String {
    let [then, now] = texts.map(|text| samples(&text));
    server(move |request| {
        let query = request.split("query=").nth(1).unwrap().split(' ').next().unwrap();
        let query =
            query.replace("%28", "(").replace("%29", ")").replace("%20", " ").replace("%3E", ">").replace("%3C", "<");
        let query = query.replace("%5B", "[").replace("%2B", "+");
        let named = |name: &str| now.iter().filter(move |((of, _), _)| of == name).collect::<Vec<_>>();
        let json = |labels: &str| {
            labels
                .strip_suffix('"')
                .unwrap_or_default()
                .split("\",")
                .map(|part| {
                    let (label, value) = part.split_once("=\"").unwrap();
                    format!(",\"{label}\":\"{value}\"")
                })
                .collect::<String>()
        };
        let of = |labels: &str, value: f64| sample(&format!("\"instance\":\"m\"{}", json(labels)), &value.to_string());
        let rate = |name: &str| -> Vec<(String, f64)> {
            let rate = |((_, labels), value): &(&(String, String), &f64)| {
                Some((labels.clone(), (*value - then.get(&(name.to_owned(), labels.clone()))?) / 60.0))
            };
            named(name).iter().filter_map(rate).collect()
        };
        let compared = |mark: char| {
            let (a, b) = query.split_once(&format!(" {mark} ")).unwrap();
            let pairs = named(a).into_iter().map(|((_, labels), a)| (labels, *a, now[&(b.to_owned(), labels.clone())]));
            pairs
                .filter(|(_, a, b)| if mark == '>' { a > b } else { a < b })
                .map(|(labels, a, _)| of(labels, a))
                .collect::<Vec<_>>()
        };
        let all: Vec<String> = match &query {
            _ if query == "pageset_verdict_info" && !has_verdict => Vec::new(),
            _ if query.ends_with("_info") => {
                named(&query).into_iter().map(|((_, labels), value)| of(labels, *value)).collect()
            }
            _ if query.contains("pageset_high_pages") => vec![sample("\"instance\":\"m\"", "2")],
            _ if query.contains("pageset_refill_pages_total") => {
                let drains: BTreeMap<String, f64> = rate("pageset_drain_pages_total").into_iter().collect();
                rate("pageset_refill_pages_total")
                    .into_iter()
                    .map(|(cpu, rate)| of(&cpu, (rate + drains[&cpu]) / 63.0))
                    .collect()
            }
            _ if query.contains("(rate(") => {
                let name = query.split("(rate(").nth(1).unwrap().split('[').next().unwrap();
                rate(name).into_iter().map(|(labels, rate)| of(&labels, rate)).collect()
            }
            _ if query.contains(" > ") => compared('>'),
            _ => compared('<'),
        };
        ok(&all.join(","))
    })
}

/// An agent has one verdict, in its lines and over Prometheus, under each kernel's rules. Without an agent, the metrics of `top` never look
/// healthier: they have the holds that the kernel's rules add.
#[test]
fn a_verdict_over_prometheus_is_that_of_the_line() {
    let (mut seen, mut by_rules) = (BTreeSet::new(), 0);
    for kernel in ["6.1.0", "6.12.0", "6.18.0", "6.19.0", "7.3.0"]
        .into_iter()
        .flat_map(|release| [0, 50, 1000].map(|f| (release, f)))
    {
        let loads = loads();
        let short = [(loads[0], 150), (loads[1], 50)];
        for (traffic, free) in loads.into_iter().map(|load| (load, 90_000)).chain(short) {
            let before = Traffic { cpu: 1, waits: traffic.waits.map(|_| Waits::default()), ..Traffic::default() };
            let (then, now) = (look(0, kernel, before, free), look(60, kernel, traffic, free));
            let view = View::new(&now, Some(&then));
            let finding = &judge(&view.numbers())[0];
            let line = of_view(&view, finding);
            let mut merge = Merge::default();
            merge.read("line", serde_json::to_string(&line).unwrap().as_bytes()).unwrap();
            let (expected, mut exporter) = (merge.finish(), Exporter::default());
            let texts = [exporter.text(then, None), exporter.text(now, Some(finding))];
            let same = |fleet: &Fleet| {
                let group = &fleet.groups[0];
                (
                    group.verdict.clone(),
                    group.level,
                    group.set.clone(),
                    group.needs_recording,
                    group.kernels.clone(),
                    fleet.groups.len(),
                )
            };
            let of_agent = asked(&scraped(texts.clone(), true)).unwrap();
            assert_eq!(same(&of_agent), same(&expected), "{kernel:?} {traffic:?} {free}");
            let is_waiting = |fleet: &Fleet| fleet.groups[0].waiting_cpus.map(|cpus| (1000.0 * cpus).round());
            assert_eq!(is_waiting(&of_agent), is_waiting(&expected));
            let of_top = asked(&scraped(texts, false)).unwrap();
            let key = line.verdict.key.as_str();
            if key != "direct-reclaim" {
                let (top, is_healthy) = (&of_top.groups[0], key == "healthy");
                assert_eq!(
                    top.verdict == "healthy",
                    is_healthy,
                    "{kernel:?} {traffic:?} {free}: {key} {}",
                    top.verdict
                );
            }
            by_rules += u32::from(key != "healthy" && free == 90_000 && traffic.holds.refill == 600);
            seen.insert(line.verdict.key);
        }
    }
    assert_eq!(seen.len(), 7, "{seen:?}");
    assert!(by_rules > 4, "{by_rules} looks are not healthy by the rules only");
}

#[test]
fn a_server_that_does_not_answer_is_one_line() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (url, why) in [
        (format!("http://{unused}"), "no answer from"),
        (server(|_| String::new()), "the answer is not HTTP"),
        (server(|_| "HTTP/1.0 503 busy\r\n\r\n".to_owned()), "503 busy"),
        (server(|_| "HTTP/1.0 200 OK\r\n\r\n<html>".to_owned()), "is no Prometheus server"),
        (
            server(|_| "HTTP/1.0 400 Bad\r\n\r\n{\"status\":\"error\",\"error\":\"parse error\"}".to_owned()),
            "refuses the query pageset_kernel_info: parse error",
        ),
        ("https://host:9090".to_owned(), "only http:// is possible"),
        ("http://".to_owned(), "no answer from"),
    ] {
        let error = asked(&url).unwrap_err();
        assert!(error.contains(why) && !error.contains('\n'), "{url}: {error}");
    }
}
