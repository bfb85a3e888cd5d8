//! Speed of the simulator: page operations and lock events a second on one core.
//!
//! `cargo run --release -p pageset-sim --example sim_speed [MACHINE [BATCH [SECONDS [NODES [WORKLOAD [RULES]]]]]]`
//!
//! SECONDS is the measured virtual time, after a warm-up of 0.2 s. NODES is `one-node`, where one node represents all
//! if possible, or `all-nodes`. RULES are `linux-4.17` with BATCH, or `linux-6.18` or `pageset` with batches of their own.
//! Rates use processor time, which other tasks on the host affect less than wall-clock time.

use std::error::Error;
use std::time::{Duration, Instant};

use pageset::Tuning;
use pageset::policy::BatchRule;
use pageset::policy::presets::{LINUX_4_17, LINUX_6_18, PAGESET};
use pageset_sim::engine::LockKind;
use pageset_sim::engine::Source;
use pageset_sim::era::Era;
use pageset_sim::machine;
use pageset_sim::os::History;
use pageset_sim::run::Run;
use pageset_sim::time::Time;
use pageset_sim::workload::Workload;
use rustix::time::{ClockId, clock_gettime};

/// Processor time of this thread.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "lkp-skl-4sp1".to_owned());
    let batch = arguments.next().map_or(Ok(31), |text| text.parse())?;
    let seconds = arguments.next().map_or(Ok(0.5), |text| text.parse())?;
    let one_node = arguments.next().is_some_and(|word| word == "one-node");
    let workload = arguments.next().unwrap_or_else(|| "page_fault1".to_owned());
    let (tuning, era) = match arguments.next().as_deref() {
        None | Some("linux-4.17") => (Tuning { batch: BatchRule::Fixed(batch), ..LINUX_4_17 }, Era::Linux4_16),
        Some("linux-6.18") => (LINUX_6_18, Era::Linux6_10),
        Some("pageset") => (PAGESET, Era::Linux6_10),
        Some(_) => return Err("unknown rules: allowed are linux-4.17, linux-6.18 and pageset".into()),
    };
    let machine = machine::find(&name).ok_or("unknown machine")??;
    let run = Run {
        workload: Workload::find(&workload).ok_or("unknown workload")?,
        machine: &machine,
        tuning,
        era,
        high_fraction: 0,
        zone_lock: LockKind::Queue,
        tasks: machine.topology().cpus(),
        warm_up: Time::from_seconds(0.2),
        time: Time::from_seconds(seconds),
        detect_warm_up: false,
        precision_pct: None,
        history: History::NONE,
        whole: !one_node,
        held: 0,
        seed: 1,
    };
    let (begin, processor) = (Instant::now(), processor_time());
    let outcome = run.run(|| true)?;
    let took = (processor_time() - processor).as_secs_f64();
    println!("{name}, {workload}, batch {batch}");
    println!("score {:.0}, zone {:.1} %, LRU {:.1} %", outcome.score(), outcome.zone_pct(), outcome.lru_pct());
    let all: f64 = 1.0 + 0.2 / seconds;
    println!(
        "{took:.2} s of a processor in {:.2} s: {:.2} million page operations a second, {:.2} million lock events, {:.2} \
         million switches",
        begin.elapsed().as_secs_f64(),
        outcome.page_operations as f64 / took / 1e6,
        outcome.lock_events as f64 * all / took / 1e6,
        outcome.switches as f64 / took / 1e6,
    );
    // Lines and pages are those of the measurement, of all nodes.
    for source in Source::ALL {
        let lines = outcome.lines[source as usize] as f64;
        let (pages, ns) = (outcome.moved.allocated as f64, 1e9 * outcome.time.seconds());
        let nodes = f64::from(outcome.nodes * outcome.stands_for);
        println!("{source:?}: {:.2} lines a page, {:.3} a nanosecond and node", lines / pages, lines / ns / nodes);
    }
    for (name, locks) in [("zone", &outcome.zone_locks), ("lru", &outcome.lru_locks)] {
        for (i, path) in locks[0].paths.iter().enumerate() {
            if path.holds > 0 {
                println!(
                    "{name} path {i}: {} holds, {:.0} % contended, hold {:.0} ns, wait {:.0} ns",
                    path.holds,
                    100.0 * path.contended as f64 / path.holds as f64,
                    path.hold.ps() as f64 / 1e3 / path.holds as f64,
                    path.wait.ps() as f64 / 1e3 / path.holds as f64
                );
            }
        }
    }
    Ok(())
}
