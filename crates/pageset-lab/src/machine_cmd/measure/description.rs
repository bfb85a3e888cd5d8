//! The measured values as a machine's description. Another format of descriptions changes only [`values`] and
//! `pageset_sim::machine::describe`.

use pageset_bench::hardware::{Figure, Quantity};
use pageset_sim::machine::{self, Host, Value, Values};

use super::result::{Fit, Measured, Measurement, note};

/// The quantity of each measured key.
const KEYS: [(&str, Quantity); 10] = [
    ("turbo", Quantity::Turbo),
    ("l1_ns", Quantity::L1),
    ("l2_ns", Quantity::L2),
    ("llc_ns", Quantity::LastLevel),
    ("memory_ns", Quantity::Memory),
    ("remote_memory_ns", Quantity::RemoteMemory),
    ("remote_transfer_ns", Quantity::OtherSocket),
    ("clear_l2_ns", Quantity::ClearL2),
    ("clear_llc_ns", Quantity::ClearLastLevel),
    ("clear_memory_ns", Quantity::ClearMemory),
];

/// The largest ratio of clocks. A larger one is a disturbance: no processor doubles its clock twice.
const MOST_TURBO: f64 = 4.0;

/// The values of the description. `pairs` are the numbers of pairs of CPUs in a socket with the same last level and with
/// another one.
pub(super) fn values(measured: &Measured, linux: &Host, pairs: [usize; 2], fit: Option<Fit>) -> Values {
    let mut values = linux.values("host");
    let like = values.like;
    values.head = format!(
        "# This host: {}, kernel {}: counts, memory and caches, as Linux tells them, and measurements.\n\
         # Another machine, {like}: all values that name it, and the guesses.\n",
        measured.host.processor, measured.host.kernel
    );
    for (key, quantity) in KEYS {
        let measurement = measured.of(quantity);
        values.values.push(match measurement.and_then(|it| Some((it, it.median?))) {
            // A ratio below one is noise: a core alone is not slower.
            Some((it, median)) if quantity == Quantity::Turbo => {
                value(key, Some(median.clamp(1.0, MOST_TURBO)), from(&it.figure))
            }
            Some((it, median)) => value(key, Some(median), from(&it.figure)),
            // The key's default, in a description without turbo.
            None if quantity == Quantity::Turbo => continue,
            None => value(key, None, not_measured(measurement, like)),
        });
    }
    values.values.push(core_to_core(measured, pairs, like));
    values.values.push(atomic(measured, like));
    values.values.push(value("core_cv", Some(0.0), "equal cores: which of them is slow is not known".to_owned()));
    let of_one = "to the page faults of one process";
    values.values.push(match fit {
        Some(fit) if fit.reached => value("pace", Some(fit.pace), format!("fitted: {of_one}")),
        Some(fit) => value("pace", Some(fit.pace), format!("fitted, without reaching: {of_one}")),
        None => value("pace", None, format!("not fitted; the value of {like}")),
    });
    values
}

fn value(key: &'static str, value: Option<f64>, note: String) -> Value {
    Value { key, value, note }
}

/// A line of another core of the socket: the mean over all pairs of cores, as the simulator has one latency.
fn core_to_core(measured: &Measured, pairs: [usize; 2], like: &str) -> Value {
    let of = [Quantity::SameLastLevel, Quantity::SameSocket].map(|quantity| measured.of(quantity));
    let parts: Vec<(&Measurement, f64, f64)> =
        of.into_iter().zip(pairs).filter_map(|(it, pairs)| Some((it?, it?.median?, pairs as f64))).collect();
    let weight: f64 = parts.iter().map(|(_, _, pairs)| pairs).sum();
    let mean = parts.iter().map(|(_, median, pairs)| median * pairs / weight).sum();
    match parts.as_slice() {
        [] => value("core_to_core_ns", None, not_measured(of[0], like)),
        [(it, ..)] => value("core_to_core_ns", Some(mean), from(&it.figure)),
        _ => value("core_to_core_ns", Some(mean), "measured: mean over the pairs of cores of a socket".to_owned()),
    }
}

/// An atomic operation on an own line. A description has cycles of its clock, which is that of `like`.
fn atomic(measured: &Measured, like: &str) -> Value {
    let measurement = measured.of(Quantity::Atomic);
    let clock = machine::find(like).and_then(Result::ok).map(|like| like.cited.clock_ghz.get());
    match measurement.and_then(|it| Some((it, it.median?, clock?))) {
        Some((it, ns, ghz)) => {
            let note = format!("{}: {ns:.2} ns at {ghz} GHz", from(&it.figure));
            value("atomic_cycles", Some(ns * ghz), note)
        }
        None => value("atomic_cycles", None, not_measured(measurement, like)),
    }
}

/// The comment at a measured value.
fn from(figure: &Figure) -> String {
    let samples = figure.samples.len();
    let spread = figure.spread_pct().map_or_else(|| "unknown".to_owned(), |pct| format!("{pct:.1} %"));
    let over = if figure.over.is_empty() { String::new() } else { format!(", over {}", figure.over) };
    let doubt = if figure.disturbed { "; disturbed" } else { "" };
    format!("measured: median of {samples}, spread {spread}{over}{doubt}")
}

/// The comment at a value that is not measured.
fn not_measured(measurement: Option<&Measurement>, like: &str) -> String {
    let why = measurement.map_or_else(|| "not measured".to_owned(), |it| note(&it.figure));
    format!("{why}; the value of {like}")
}

#[cfg(test)]
mod tests {
    use pageset_sim::machine::{Machine, describe};

    use super::super::result::example;
    use super::*;

    fn linux() -> Host {
        Host {
            sockets: 1,
            cores_per_socket: 8,
            threads_per_core: 1,
            memory_gib: 16,
            l1_kib: 48,
            l2_kib: 2048,
            llc_kib: 30_720,
            last_levels: (1, 30_720),
            cpus: vec![],
        }
    }

    #[test]
    fn measured_values_and_their_sources_are_in_the_description() {
        let measured = example();
        let text = describe(&values(&measured, &linux(), [12, 16], measured.fit));
        let machine = Machine::parse("host.toml", &text).unwrap();
        assert_eq!((machine.name.as_str(), machine.topology().cpus()), ("host", 8));
        assert_eq!(machine.cited.memory_ns.get(), 200.0);
        assert_eq!(machine.cited.turbo.get(), 1.0, "a core alone is not slower");
        for line in [
            "l1_ns = 1.5 # measured: median of 3, spread 0.7 %, over 16 KiB",
            "memory_ns = 200 # measured: median of 1, spread unknown, over 64 MiB; disturbed",
            "remote_memory_ns = 140 # not measured: only one socket; the value of lkp-skl-2sp2",
            "l2_ns = 5 # not measured; the value of lkp-skl-2sp2",
            "pace = 1.2345 # fitted: to the page faults of one process",
            "atomic_cycles = 12.5 # measured: median of 1, spread unknown: 5.00 ns at 2.5 GHz",
            "memory_gb_per_s = 102 # lkp-skl-2sp2",
            "sockets = 1 # this host",
            // So the description gives the printed predictions.
            "core_cv = 0 # equal cores: which of them is slow is not known",
            // 12 of 28 pairs have 40 ns, the others 100.
            "core_to_core_ns = 74.3 # measured: mean over the pairs of cores of a socket",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn a_single_cpu_keeps_the_values_of_the_similar_machine() {
        let mut measured = example();
        measured.quantities.clear();
        let linux = Host { cores_per_socket: 1, ..linux() };
        let text = describe(&values(&measured, &linux, [0, 0], None));
        let machine = Machine::parse("host.toml", &text).unwrap();
        let like = pageset_sim::machine::find("lkp-skl-d01").unwrap().unwrap();
        assert_eq!(machine.fitted, like.fitted);
        assert_eq!(machine.cited.core_to_core_ns, like.cited.core_to_core_ns);
        assert_eq!(machine.cited.atomic_cycles, like.cited.atomic_cycles);
        assert!(text.contains(" # not measured; the value of lkp-skl-d01\n"), "{text}");
    }
}
