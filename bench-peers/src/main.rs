//! `pageset bench` with allocators from outside beside the pool and the floors, in the same rounds.
//!
//! `cargo run --release --manifest-path bench-peers/Cargo.toml -- --json`; the arguments are those of `pageset bench`.
//! What a peer does not offer it is not measured in: orders, frees on another thread, calls for many pages.

#[cfg(dpdk)]
mod dpdk;
mod frames;
mod global;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use clap::Parser;

#[derive(Parser)]
#[command(about)]
struct Cli {
    #[command(flatten)]
    args: pageset_bench::Args,
}

fn main() -> ExitCode {
    let Cli { args } = Cli::parse();
    let mut entries = pageset_bench::entries();
    entries.extend(frames::entries());
    entries.extend(global::entries());
    #[cfg(dpdk)]
    entries.extend(dpdk::entries());
    let report = match pageset_bench::run(&args, &entries, &AtomicBool::new(false), |_, _| {}) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    report.warnings().iter().for_each(|warning| eprintln!("warning: {warning}"));
    if args.json {
        match serde_json::to_string_pretty(&report) {
            Ok(text) => println!("{text}"),
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::FAILURE;
            }
        }
    } else {
        print!("{}", report.table());
    }
    ExitCode::SUCCESS
}
