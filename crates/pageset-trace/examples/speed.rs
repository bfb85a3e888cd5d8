//! Measures how fast each form is read and written, and a recording replayed: `cargo run --release -p pageset-trace --example speed -- FILE…`.
//!
//! Prints the best of five passes over each file, then over the same events in the project's own form. Then prints the
//! speed of one replay under the recorded kernel's rules on one thread, and the time of `identify` and `advise`.

use std::path::Path;
use std::time::Instant;

use pageset_trace::advise::Advice;
use pageset_trace::file::Writer;
use pageset_trace::replay::{Level, Replay, identify::identify};
use pageset_trace::{Trace, TraceError};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for file in std::env::args_os().skip(1) {
        let trace = Trace::open(Path::new(&file))?;
        let events = report(trace.name(), &trace)?;
        let own = tempfile::NamedTempFile::new()?;
        let collected = trace.events()?.collect::<Result<Vec<_>, TraceError>>()?;
        let start = Instant::now();
        let mut writer = Writer::create(own.as_file(), trace.facts())?;
        for (tag, text) in &trace.snapshots().texts {
            writer.snapshot_text(tag, text)?;
        }
        for event in &collected {
            writer.event(event)?;
        }
        writer.finish()?;
        println!("  written: {:.1} M events/s, {:.2} bytes an event", rate(events, start), {
            own.as_file().metadata()?.len() as f64 / events as f64
        });
        report("  own form", &Trace::open(own.path())?)?;
        replay(&trace, events)?;
    }
    Ok(())
}

fn replay(trace: &Trace, events: u64) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let replay = Replay::prepare(trace, &mut |_| {})?;
    println!("  decoded and surveyed: {:.1} M events/s", rate(events, start));
    let mut best = 0f64;
    for _ in 0..3 {
        let start = Instant::now();
        std::hint::black_box(replay.run(&replay.kernel_rules(), Level::Reconstructed, &mut |_| {})?);
        best = best.max(rate(events, start));
    }
    drop(replay);
    let start = Instant::now();
    identify(trace, &mut |_, _| {})?;
    let identified = start.elapsed().as_secs_f64();
    let start = Instant::now();
    Advice::of(trace, &mut |_| {})?;
    let advised = start.elapsed().as_secs_f64();
    println!("  replayed: {best:.1} M events/s; identify {identified:.2} s, advise {advised:.2} s");
    Ok(())
}

fn report(name: &str, trace: &Trace) -> Result<u64, TraceError> {
    let (mut best, mut events) = (0f64, 0);
    for _ in 0..5 {
        let start = Instant::now();
        events = 0;
        for event in trace.events()? {
            std::hint::black_box(&event?);
            events += 1;
        }
        best = best.max(rate(events, start));
    }
    println!("{name}: {events} events, {best:.1} M events/s");
    Ok(events)
}

fn rate(events: u64, start: Instant) -> f64 {
    events as f64 / start.elapsed().as_secs_f64() / 1e6
}
