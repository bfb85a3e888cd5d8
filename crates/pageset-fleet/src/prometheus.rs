//! A Prometheus server as the source. The verdict of `pageset agent --listen` is read as it is; the metrics of `pageset top --listen` are
//! judged as an agent does, without what no metric shows: waits for direct reclaim, and how many holds larger lists avoid.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use pageset_trace::printable::printable;
use pageset_trace::verdict::machine::{Held, KEYS, Larger, Lists, Numbers, PURPOSES, Short, Wait, judge};
use serde::Deserialize;

use crate::line::{Line, Verdict};

/// The longest wait for a connection, and for the next bytes of an answer.
const SILENCE: Duration = Duration::from_secs(10);
/// The longest time for one answer.
const ANSWER: Duration = Duration::from_secs(60);
/// The largest answer: the paths of 10,000 machines of 64 CPUs are about a third of it. Unit: bytes.
const ANSWER_MAX: u64 = 1 << 30;
/// The paths to a zone lock, in the order of [`PURPOSES`].
const PATHS: [&str; 4] = ["refill", "drain", "direct_alloc", "direct_free"];

/// A value with its labels.
#[derive(Deserialize)]
struct Sample {
    metric: BTreeMap<String, String>,
    value: (f64, String),
}

#[derive(Deserialize)]
struct Data {
    result: Vec<Sample>,
}

#[derive(Deserialize)]
struct Answer {
    data: Option<Data>,
    error: Option<String>,
}

impl Sample {
    fn label(&self, name: &str) -> &str {
        self.metric.get(name).map_or("", String::as_str)
    }

    fn cpu(&self) -> u32 {
        self.label("cpu").parse().unwrap_or(0)
    }

    /// The value, if it is a number: a rate without two samples is none.
    fn number(&self) -> Option<f64> {
        self.value.1.parse().ok().filter(|value: &f64| value.is_finite())
    }
}

/// What the server knows of a machine.
#[derive(Default)]
struct Machine {
    numbers: Numbers,
    cpus: u32,
    /// That of an agent.
    verdict: Option<Verdict>,
    /// The waits of each CPU by path, in percent of its time.
    waits: BTreeMap<u32, [f64; 4]>,
}

/// A line for each machine that the server at `url` scrapes.
pub(crate) fn lines(url: &str) -> Result<Vec<Line>, String> {
    let server = Server::of(url)?;
    let mut machines: HashMap<String, Machine> = HashMap::new();
    let kernels = server.query("pageset_kernel_info")?;
    let mut each = |query: &str, add: &dyn Fn(&mut Machine, &Sample, f64)| -> Result<(), String> {
        for sample in server.query(query)? {
            if let Some(number) = sample.number() {
                add(machines.entry(sample.label("instance").to_owned()).or_default(), &sample, number);
            }
        }
        Ok(())
    };
    each("pageset_verdict_info", &|machine, sample, _| {
        // Series of one machine may differ in other labels: the first one counts.
        machine.verdict = machine.verdict.take().or_else(|| verdict(sample));
    })?;
    each("count by (instance) (count by (instance, cpu) (pageset_high_pages))", &|machine, _, number| {
        machine.cpus = number as u32;
    })?;
    each(
        "sum by (instance, cpu, path) (rate(pageset_zone_lock_wait_seconds_total[5m]))",
        &|machine, sample, number| {
            if let Some(path) = PATHS.iter().position(|path| *path == sample.label("path")) {
                machine.waits.entry(sample.cpu()).or_default()[path] = 100.0 * number;
            }
        },
    )?;
    let moves = "sum by (instance, cpu) (rate(pageset_refill_pages_total[5m]) + rate(pageset_drain_pages_total[5m])) \
                 / on (instance) group_left max by (instance) (pageset_zone_batch_pages)";
    each(moves, &|machine, sample, number| {
        let most = machine.numbers.moves.filter(|(_, most)| *most >= number);
        machine.numbers.moves = most.or(Some((sample.cpu(), number)));
    })?;
    each("sum by (instance, cpu) (rate(pageset_zone_lock_holds_total[5m]))", &|machine, sample, number| {
        // Counted holds replace the pages per batch: they have what the kernel's rules add.
        let most = machine.numbers.moves.filter(|(_, most)| machine.numbers.held.is_some() && *most >= number);
        machine.numbers.moves = most.or(Some((sample.cpu(), number)));
        // No metric tells how many of them larger lists avoid.
        machine.numbers.held = Some(Held::default());
    })?;
    for (mark, is_min) in [("low", false), ("min", true)] {
        each(&format!("pageset_zone_{mark}_pages > pageset_zone_free_pages"), &|machine, sample, number| {
            let zone = format!("{} {}", sample.label("node"), sample.label("zone"));
            machine.numbers.short.retain(|short| short.zone != zone);
            let mark = number as u64;
            machine.numbers.short.push(Short { zone, free: 0, is_min, mark });
        })?;
    }
    each("pageset_zone_free_pages < pageset_zone_low_pages", &|machine, sample, number| {
        let zone = format!("{} {}", sample.label("node"), sample.label("zone"));
        let short = machine.numbers.short.iter_mut().filter(|short| short.zone == zone);
        short.for_each(|short| short.free = number as u64);
    })?;
    // Series of one machine may differ in other labels: the first one counts.
    let mut seen = HashSet::new();
    let kernels = kernels.iter().filter(|kernel| seen.insert(kernel.label("instance")));
    Ok(kernels.map(|kernel| line(kernel, machines.remove(kernel.label("instance")).unwrap_or_default())).collect())
}

/// The verdict in an agent's labels; `None` if no agent has such.
fn verdict(sample: &Sample) -> Option<Verdict> {
    let key = KEYS.into_iter().find(|key| *key == sample.label("verdict"))?;
    let level = serde_json::from_value(sample.label("level").into()).ok()?;
    let set = [Larger::Tune, Larger::Eighth].map(Larger::text).into_iter().find(|set| *set == sample.label("set"));
    let needs_recording = sample.label("needs_recording") == "true";
    Some(Verdict { key: key.to_owned(), level, sentence: key.to_owned(), set: set.map(str::to_owned), needs_recording })
}

/// The line of a machine, of its kernel's labels and its numbers.
fn line(kernel: &Sample, machine: Machine) -> Line {
    let fraction = kernel.label("high_fraction").parse().ok();
    let lists = match (kernel.label("auto_tuning"), fraction) {
        ("on", _) => Lists::Tuned,
        ("off-by-fraction", Some(fraction)) => Lists::Fraction(fraction),
        ("not-in-kernel", Some(fraction)) => Lists::Fixed(fraction),
        _ => Lists::Unknown,
    };
    let wait = |(cpu, paths): (&u32, &[f64; 4])| {
        let most = PURPOSES.into_iter().zip(paths).max_by(|a, b| a.1.total_cmp(b.1));
        Wait { cpu: *cpu, percent: paths.iter().sum(), mostly: most.map_or("", |(purpose, _)| purpose) }
    };
    let waits: Vec<Wait> = machine.waits.iter().map(wait).collect();
    let ns_per_s = (!waits.is_empty()).then(|| 1e7 * waits.iter().map(|wait| wait.percent).sum::<f64>());
    let numbers = Numbers {
        lists,
        counted: machine.numbers.moves.is_some(),
        two_looks: true,
        waits: Some(waits).filter(|waits| !waits.is_empty()),
        ..machine.numbers
    };
    Line {
        host: printable(kernel.label("instance")).into_owned(),
        kernel: Some(printable(kernel.label("release")).into_owned()).filter(|release| !release.is_empty()),
        cpus: machine.cpus.max(1),
        time_ns: Some((kernel.value.0 * 1e9) as u64),
        high_fraction: fraction,
        auto_tuning: kernel.label("auto_tuning").to_owned(),
        rules: kernel.label("rules").to_owned(),
        zone_lock_wait_ns_per_s: ns_per_s,
        ..Line::of(machine.verdict.unwrap_or_else(|| Verdict::from(&judge(&numbers)[0])))
    }
}

/// A server, and what precedes the paths of its API.
struct Server<'u> {
    url: &'u str,
    /// `host:port`.
    address: String,
    prefix: &'u str,
}

impl<'u> Server<'u> {
    fn of(url: &'u str) -> Result<Server<'u>, String> {
        let rest =
            url.strip_prefix("http://").ok_or("only http:// is possible; try a tunnel or a proxy for https://")?;
        let (host, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if host.contains('@') {
            return Err("a name or a password in the address; allowed: http://HOST:PORT without them".to_owned());
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { host.to_owned() } else { format!("{host}:9090") };
        Ok(Server { url, address, prefix: prefix.trim_end_matches('/') })
    }

    fn query(&self, query: &str) -> Result<Vec<Sample>, String> {
        let body = self.get(query).map_err(|error| format!("no answer from {}: {error}", self.url))?;
        let answer: Answer =
            serde_json::from_slice(&body).map_err(|error| format!("{} is no Prometheus server: {error}", self.url))?;
        match (answer.data, answer.error) {
            (Some(data), None) => Ok(data.result),
            (_, error) => Err(format!("{} refuses the query {query}: {}", self.url, error.unwrap_or_default())),
        }
    }

    /// The body of an answer. A request of HTTP/1.0 has an answer that ends with the connection.
    fn get(&self, query: &str) -> std::io::Result<Vec<u8>> {
        let other = |text: &str| std::io::Error::other(text.to_owned());
        let begin = Instant::now();
        let mut opened = Err(other("the name has no address"));
        for address in self.address.to_socket_addrs()? {
            opened = TcpStream::connect_timeout(&address, SILENCE);
            if opened.is_ok() {
                break;
            }
        }
        let mut stream = opened?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        let (prefix, address, query) = (self.prefix, &self.address, encoded(query));
        // In one piece: a server may answer, and end the connection, once it has the first line.
        let request = format!("GET {prefix}/api/v1/query?query={query} HTTP/1.0\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let (mut text, mut part) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            let read = stream.read(&mut part).map_err(|error| match error.kind() {
                std::io::ErrorKind::WouldBlock => other("it is silent"),
                _ => error,
            })?;
            text.extend_from_slice(&part[..read]);
            match read {
                0 => break,
                _ if text.len() as u64 > ANSWER_MAX => return Err(other("the answer is too long")),
                _ if begin.elapsed() > ANSWER => return Err(other("the answer takes too long")),
                _ => {}
            }
        }
        let end =
            text.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(|| other("the answer is not HTTP"))?;
        let body = text.split_off(end + 4);
        let head = String::from_utf8_lossy(&text);
        let status = head.lines().next().unwrap_or_default();
        // Wrong queries have a body that says what is wrong.
        match status.split(' ').nth(1) {
            Some("200" | "400" | "422") => Ok(body),
            _ => Err(other(status)),
        }
    }
}

/// A query as a part of a URL.
fn encoded(query: &str) -> String {
    let letter = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    query.bytes().map(letter).collect()
}
