//! Prints how near replays come to the kernel, a line a recording and level.

use std::path::Path;
use std::time::Instant;

use pageset_trace::Trace;
use pageset_trace::replay::{Level, Replay, near_pct};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for file in std::env::args().skip(1) {
        let trace = Trace::open(Path::new(&file))?;
        let begin = Instant::now();
        let replay = Replay::prepare(&trace, &mut |_| {})?;
        let prepared = begin.elapsed();
        let kernel = replay.kernel().totals(|_| true);
        println!("{} {:?}\n  {:?} prepared in {:?}", trace.name(), replay.notes(), kernel, prepared);
        for level in [Level::Input, Level::Reconstructed] {
            let begin = Instant::now();
            let out = replay.run(&replay.kernel_rules(), level, &mut |_| {})?;
            let took = begin.elapsed();
            let t = out.moves.totals(|_| true);
            let pct = |a: u64, b: u64| (a as f64 / b as f64 - 1.0) * 100.0;
            println!(
                "  {:<13} refill pages {:+.2}% count {:+.2}% drain pages {:+.2}% count {:+.2}% near {:.1?} {:.1?}",
                level.name(),
                pct(t.refill_pages, kernel.refill_pages),
                pct(t.refills, kernel.refills),
                pct(t.drain_pages, kernel.drain_pages),
                pct(t.drains, kernel.drains),
                near_pct(&replay.kernel().refills, &out.moves.refills),
                near_pct(&replay.kernel().drains, &out.moves.drains),
            );
            if std::env::var("DUMP").is_ok() {
                for (k, r) in replay.kernel().refills.iter().zip(&out.moves.refills).take(4000) {
                    println!(
                        "      K {} z{} {:?} {}   R {} z{} {:?} {}",
                        k.place, k.zone, k.cpu, k.pages, r.place, r.zone, r.cpu, r.pages
                    );
                }
            }
            println!(
                "    {:?} locks {} held {} failed {} below_min {} unseen {} lost {} refused {} mark {} in {:?}, {:.2} M events/s",
                t,
                out.zone_lock_acquisitions,
                out.held_pages_max,
                out.failed,
                out.below_min,
                out.unseen_allocs,
                out.lost_frees,
                out.refused_frees,
                out.near_mark,
                took,
                replay.notes().events as f64 / took.as_secs_f64() / 1e6
            );
        }
    }
    Ok(())
}
