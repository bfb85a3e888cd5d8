//! `pageset-lab bench` with external allocators next to the pool and the floor, in the same rounds.
//!
//! If this program is installed, `pageset-lab bench` runs it and renders its result. On its own it writes the result as
//! JSON: `cargo run --release --manifest-path bench-peers/Cargo.toml`; it takes the arguments of `pageset-lab bench`. A
//! peer is not measured under patterns that it does not support: orders, frees on another thread, calls for many pages.

#[cfg(dpdk)]
mod dpdk;
mod frames;
mod global;

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use pageset_bench::{Pattern, Settings};

/// The arguments of `pageset-lab bench`, which explains them.
#[derive(Parser)]
#[command(about)]
struct Cli {
    #[arg(long, value_delimiter = ',')]
    patterns: Vec<Pattern>,
    #[arg(long, value_delimiter = ',')]
    who: Vec<String>,
    #[arg(long, value_delimiter = ',')]
    threads: Vec<usize>,
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    window_ms: u64,
    /// The result is JSON in any case
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let Cli { patterns, who, threads, rounds, window_ms, json: _ } = Cli::parse();
    let settings = Settings { patterns, who, threads, rounds, window: Duration::from_millis(window_ms) };
    let mut entries = pageset_bench::entries();
    entries.extend(frames::entries());
    entries.extend(global::entries());
    #[cfg(dpdk)]
    entries.extend(dpdk::entries());
    let report = match pageset_bench::run(&settings, &entries, || true, |_, _| {}) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let mut out = io::stdout().lock();
    match serde_json::to_writer_pretty(&mut out, &report).map_err(io::Error::from).and_then(|()| writeln!(out)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
