//! Waits for zone locks of all CPUs, by what the CPU wanted the lock for, with percentiles.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::super::figures::percent;
use super::super::fit::{self, Column};
use super::super::history::Measure;
use super::super::state::{Scene, State};
use super::super::view::{CpuTraffic, CpuWaits, PATHS, PathWait, View};
use super::header::covered;
use super::style;
use super::table::{Fitted, per_s};

/// The height from which each path has a line.
const EACH: u16 = 20;
/// The height from which there is a summary.
const SUMMARY: u16 = 10;

/// A path's waits on all CPUs since the previous look.
struct Path {
    name: &'static str,
    /// `None` without a previous look.
    per_s: Option<f64>,
    /// The mean over the CPUs; `None` without a previous look.
    pct: Option<f64>,
    /// The CPU that waits longest, and its percentage.
    most: Option<(u32, f64)>,
    /// During the kept looks.
    percentiles: Option<[f64; 3]>,
}

/// The paths; `None` if waits are not measured.
fn paths(scene: &Scene<'_>) -> Option<Vec<Path>> {
    let measured = |traffic: &CpuTraffic| Some((traffic.cpu, traffic.zone_lock_waits?));
    let cpus: Vec<(u32, CpuWaits)> = scene.view.traffic.iter().flatten().filter_map(measured).collect();
    let names = ["refill", "drain", "direct alloc", "direct free"];
    let path = |(place, name): (usize, &'static str)| {
        let of = |(cpu, waits): &(u32, CpuWaits)| -> (u32, PathWait) { (*cpu, waits.paths()[place]) };
        let pcts: Vec<(u32, f64)> = cpus.iter().map(of).filter_map(|(cpu, path)| Some((cpu, path.pct?))).collect();
        let sum = |values: &mut dyn Iterator<Item = f64>| values.reduce(|sum, value| sum + value);
        Path {
            name,
            per_s: sum(&mut cpus.iter().map(of).filter_map(|(_, path)| path.per_s)),
            pct: sum(&mut pcts.iter().map(|(_, pct)| pct / cpus.len() as f64)),
            most: pcts.iter().copied().filter(|(_, pct)| *pct > 0.0).max_by(|a, b| a.1.total_cmp(&b.1)),
            percentiles: scene.history.wait_percentiles(PATHS[place]),
        }
    };
    (!cpus.is_empty()).then(|| names.into_iter().enumerate().map(path).collect())
}

impl Path {
    /// Whether a CPU waited during the kept looks, so that rows do not come and go with each look.
    fn has_waited(&self) -> bool {
        self.most.is_some() || self.percentiles.is_some()
    }
}

/// A duration in two or three digits and its unit: `950 ns`, `1.2 µs`, `31 ms`.
pub(super) fn duration(ns: Option<f64>) -> String {
    let Some(ns) = ns else { return "-".to_owned() };
    let mut scaled = (ns, "ns");
    for unit in ["µs", "ms", "s"] {
        if scaled.0 < 999.5 {
            break;
        }
        scaled = (scaled.0 / 1000.0, unit);
    }
    let decimals = usize::from(scaled.0 < 9.95 && scaled.1 != "ns");
    format!("{:.decimals$} {}", scaled.0, scaled.1)
}

/// Why waits are not measured.
fn reason(view: &View) -> Option<&String> {
    view.missing.iter().find(|missing| missing.contains("waits for zone locks") || missing.contains("not counted"))
}

/// The lines of the panel on a screen of this height.
pub(super) fn lines(scene: &Scene<'_>, height: u16) -> u16 {
    match (paths(scene), reason(scene.view)) {
        (Some(paths), _) if height >= EACH => 1 + paths.iter().filter(|path| path.has_waited()).count() as u16,
        (Some(_), _) if height >= SUMMARY => 1,
        (None, Some(_)) if height >= EACH => 1,
        _ => 0,
    }
}

/// The whole panel in one line.
fn summary(scene: &Scene<'_>, paths: &[Path]) -> Vec<String> {
    if !paths.iter().any(Path::has_waited) {
        return vec!["no waits for zone locks".to_owned(), format!(" {}", covered(scene))];
    }
    let all = paths.iter().filter_map(|path| path.pct).reduce(|sum, pct| sum + pct);
    let mut parts = vec![format!("zone-lock wait %: {}", percent(all))];
    parts.extend(paths.iter().map(|path| format!(", {} {}", path.name, percent(path.pct))));
    parts
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>, state: &State) {
    let width = usize::from(area.width);
    let Some(mut paths) = paths(scene) else {
        if let Some(reason) = reason(scene.view) {
            let text = fit::line(std::slice::from_ref(reason), width);
            frame.render_widget(Line::styled(text, style::dim(state)), area);
        }
        return;
    };
    if area.height < 2 {
        frame.render_widget(Line::raw(fit::line(&summary(scene, &paths), width)), area);
        return;
    }
    paths.retain(Path::has_waited);
    let fitted = Fitted::new(|short| columns(&paths, short), width, 2);
    let cells = |line: Option<usize>| -> Vec<Span<'static>> {
        let cell = |place| line.map_or_else(|| fitted.heading(place), |line| fitted.cell(place, line));
        (0..fitted.widths.len()).map(cell).collect()
    };
    let mut heads = cells(None);
    let note = format!("  percentiles {}", covered(scene));
    let room = width - fitted.width();
    let note = if note.chars().count() <= room { note } else { String::new() };
    heads.push(Span::raw(format!("{note:<room$}")));
    let mut all = vec![Line::from(heads).style(style::columns(state))];
    for (line, path) in paths.iter().enumerate() {
        let mut row = cells(Some(line));
        // The path on which an unusual CPU waits most of its waits.
        let is_unusual = path.most.is_some_and(|(cpu, pct)| {
            let all = scene.view.waits_of(cpu).and_then(CpuWaits::pct).unwrap_or(0.0);
            scene.unusual.cpus.contains(&(cpu, Measure::Waits)) && 2.0 * pct >= all
        });
        if is_unusual {
            for (span, (place, _)) in row.iter_mut().zip(&fitted.widths) {
                if matches!(fitted.columns[*place].head.as_str(), "most %" | "on CPU") {
                    span.style = style::alarm(false, state);
                }
            }
        }
        all.push(Line::from(row));
    }
    frame.render_widget(Paragraph::new(all), area);
}

fn columns(paths: &[Path], short: bool) -> Vec<Column> {
    let column = |head: &str, usual: usize, rank: usize, cell: &dyn Fn(usize) -> String| Column {
        head: head.to_owned(),
        cells: (0..paths.len()).map(cell).collect(),
        usual,
        rank,
        words: false,
    };
    let time = |path: usize, of: usize| duration(paths[path].percentiles.map(|all| all[of]));
    vec![
        Column { words: true, ..column("zone-lock waits", 16, 0, &|path| paths[path].name.to_owned()) },
        column("waits/s", 9, 2, &|path| per_s(paths[path].per_s, short)),
        column("time %", 7, 1, &|path| percent(paths[path].pct)),
        column("most %", 7, 5, &|path| percent(paths[path].most.map(|(_, pct)| pct))),
        column("on CPU", 7, 6, &|path| paths[path].most.map_or("-".to_owned(), |(cpu, _)| cpu.to_string())),
        column("p50", 8, 4, &|path| time(path, 0)),
        column("p90", 8, 7, &|path| time(path, 1)),
        column("p99", 8, 3, &|path| time(path, 2)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (999.4, "999 ns"),
            (999.6, "1.0 µs"),
            (9949.0, "9.9 µs"),
            (9951.0, "10 µs"),
            (999_600.0, "1.0 ms"),
            (31e6, "31 ms"),
            (4.3e9, "4.3 s"),
            (1e13, "10000 s"),
        ] {
            assert_eq!(duration(Some(ns)), text);
        }
        assert_eq!(duration(None), "-");
    }
}
