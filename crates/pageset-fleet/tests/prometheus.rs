//! A Prometheus server that does not exist, asked for its machines.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::thread;

use pageset_fleet::{Fleet, Merge};

/// Serves what `answer` says of a query, and returns the address.
fn server(answer: fn(&str) -> String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = String::new();
            BufReader::new(&stream).read_line(&mut request).unwrap();
            // The rest of the request is read, so that closing does not reset the connection.
            thread::sleep(std::time::Duration::from_millis(5));
            let _ = stream.write_all(answer(&request).as_bytes());
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
