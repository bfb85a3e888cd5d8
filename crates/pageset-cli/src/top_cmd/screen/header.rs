//! The verdict, the kernel with the clock or the position of a playback, and what else is unusual now.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::super::fit;
use super::super::plain::kernel_parts;
use super::super::state::{Scene, State};
use super::super::view::AutoTuning;
use super::style;
use crate::columns::grouped;

/// The parts on the right of the first line, the most important last.
pub(super) fn clock(scene: &Scene<'_>, state: &State) -> Vec<String> {
    let mut parts = vec![scene.view.source.clone()];
    match scene.position {
        Some(at) => {
            let (looks, place) = (grouped(at.looks as u64), grouped(at.place as u64 + 1));
            parts.push(format!("speed {}", quarters(state.speed)));
            parts.push(format!("look {place} of {looks}"));
        }
        None => parts.push(format!("every {}", seconds(state.interval.as_secs_f64()))),
    }
    if let Some(ns) = scene.view.time_ns {
        let of_day = ns / 1_000_000_000 % 86_400;
        parts.push(format!("{:02}:{:02}:{:02} UTC", of_day / 3600, of_day / 60 % 60, of_day % 60));
    }
    // Nothing follows by itself: the screen stays until q.
    if scene.position.is_some_and(|at| at.is_last()) {
        parts.push("[end]".to_owned());
    } else if state.frozen {
        parts.push(if scene.position.is_some() { "[paused]" } else { "[frozen]" }.to_owned());
    }
    parts
}

fn quarters(speed: u32) -> String {
    match speed {
        1 => "1/4".to_owned(),
        2 => "1/2".to_owned(),
        _ => (speed / 4).to_string(),
    }
}

/// A time of seconds, without decimals that are 0.
fn seconds(seconds: f64) -> String {
    format!("{} s", (seconds * 1000.0).round() / 1000.0)
}

/// The time that the history covers, in words.
pub(super) fn covered(scene: &Scene<'_>) -> String {
    let seconds = scene.history.seconds().round();
    fit::whole(match seconds {
        _ if scene.history.len() < 2 => "so far".to_owned(),
        ..60.0 => format!("in the last {} s", seconds.max(1.0)),
        _ => format!("in the last {} min", (seconds / 60.0).round()),
    })
}

/// The lines of the header on a screen of this height.
pub(super) fn lines(scene: &Scene<'_>, height: u16) -> u16 {
    let others = scene.unusual.findings.len() + scene.unusual.sentences.len();
    let most = match height {
        ..12 => 0,
        12..30 => 1,
        _ => 3,
    };
    2 + (others.saturating_sub(1) as u16).min(most)
}

/// Draws the header: the verdict first.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>, state: &State) {
    let width = usize::from(area.width);
    let mut sentences = scene.unusual.lines().into_iter();
    let mut lines = Vec::new();
    if let Some((level, parts)) = sentences.next() {
        lines.push(Line::styled(fit::line(&parts, width), style::verdict(level, state)));
    }
    let kernel = kernel_parts(scene.view);
    // The clock cuts neither the rules nor whether lists tune themselves.
    let least = fit::line(&kernel[..2], width).chars().count();
    let mut right = String::new();
    for part in clock(scene, state).iter().rev() {
        if least + right.chars().count() + part.chars().count() + 2 <= width {
            right = fit::whole(format!("  {part}{right}"));
        }
    }
    let room = width - right.chars().count();
    let left = fit::line(&kernel, room);
    let tuning = match scene.view.kernel.auto_tuning {
        AutoTuning::OffByFraction => style::alarm(false, state),
        _ => Style::new(),
    };
    lines
        .push(Line::from(vec![Span::styled(format!("{left:<room$}"), tuning), Span::styled(right, style::dim(state))]));
    let all: Vec<_> = sentences.collect();
    let shown = usize::from(area.height).saturating_sub(2);
    for (place, (level, mut parts)) in all.iter().take(shown).cloned().enumerate() {
        parts[0] = format!("! {}", parts[0]);
        let left = all.len() - shown.min(all.len());
        let more =
            if place + 1 == shown && left > 0 { fit::whole(format!("  (and {left} more)")) } else { String::new() };
        let more = if width < 60 { String::new() } else { more };
        let text = fit::line(&parts, width - more.len());
        lines.push(Line::from(vec![
            Span::styled(text, style::verdict(level, state)),
            Span::styled(more, style::dim(state)),
        ]));
    }
    frame.render_widget(Paragraph::new(lines), area);
}
