//! page_fault1 with pages of the size that the core was built with, under several rules.
//!
//! `PAGESET_PAGE_KIB=16 cargo run --release -p pageset-sim --example page_sizes [MACHINE [SECONDS]]`; allowed sizes: 4, 16, 64.
//! The page size is a constant of the core, so the command `pageset` has pages of 4 KiB only: its pools need them.

use std::error::Error;

use pageset::Pfn;
use pageset::policy::Preset;
use pageset_sim::era::Era;
use pageset_sim::machine;
use pageset_sim::os::History;
use pageset_sim::run::Run;
use pageset_sim::time::Time;
use pageset_sim::workload::Workload;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "graviton4-2s192".to_owned());
    let seconds = arguments.next().map_or(Ok(0.2), |text| text.parse())?;
    let machine = machine::find(&name).ok_or("unknown machine")??;
    for rules in ["linux-4.17", "linux-6.18", "pageset"] {
        let run = Run {
            workload: Workload::find("page_fault1").ok_or("unknown workload")?,
            machine: &machine,
            tuning: Preset::find(rules).ok_or("unknown rules")?.tuning,
            era: Era::of_rules(rules),
            high_fraction: 0,
            tasks: machine.topology().cpus(),
            warm_up: Time::from_seconds(seconds),
            time: Time::from_seconds(seconds),
            detect_warm_up: false,
            precision_pct: None,
            history: History::NONE,
            whole: false,
            held: 0,
            seed: 1,
        };
        let outcome = run.run(|| true)?;
        println!(
            "{name}, pages of {} KiB, {rules}: {:.1} million faults a second, {:.0} GB a second, zone lock {:.1} %, LRU lock \
             {:.1} %",
            Pfn::PAGE_BYTES / 1024,
            outcome.score() / 1e6,
            outcome.score() * Pfn::PAGE_BYTES as f64 / 1e9,
            outcome.zone_pct(),
            outcome.lru_pct(),
        );
    }
    Ok(())
}
