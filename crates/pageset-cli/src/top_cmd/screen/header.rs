//! The kernel, the clock, the interval or the position of a playback, and what is unusual now.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::super::fit;
use super::super::plain::kernel_line;
use super::super::state::{Scene, State};
use super::style;
use crate::columns::grouped;

/// The parts on the right of the first line, the most important last.
pub(super) fn clock(scene: &Scene<'_>, state: &State) -> Vec<String> {
    let mut parts = Vec::new();
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
    if state.frozen {
        parts.push(if scene.position.is_some() { "[paused]" } else { "[frozen]" }.to_owned());
    }
    parts
}

/// A speed in quarters.
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
    match seconds {
        _ if scene.history.len() < 2 => "so far".to_owned(),
        ..60.0 => format!("in the last {} s", seconds.max(1.0)),
        _ => format!("in the last {} min", (seconds / 60.0).round()),
    }
}

/// Draws the title and the sentences.
pub(super) fn draw(frame: &mut Frame<'_>, title: Rect, said: Rect, scene: &Scene<'_>, state: &State) {
    let width = usize::from(title.width);
    // The title keeps at least a third of the line.
    let mut right = String::new();
    for part in clock(scene, state).iter().rev() {
        if right.chars().count() + part.chars().count() + 2 <= width * 2 / 3 {
            right = format!("  {part}{right}");
        }
    }
    let left = format!("pageset {}: {}", scene.view.source, kernel_line(scene.view));
    let room = width.saturating_sub(right.chars().count());
    let left = fit::line(&[left], room);
    let line = Line::from(vec![Span::styled(format!("{left:<room$}"), style::HEAD), Span::styled(right, style::HEAD)]);
    frame.render_widget(line, title);
    frame.render_widget(Paragraph::new(sentences(scene, state, said)), said);
}

fn sentences(scene: &Scene<'_>, state: &State, area: Rect) -> Vec<Line<'static>> {
    let width = usize::from(area.width);
    let all = &scene.unusual.sentences;
    if all.is_empty() {
        let text = format!("nothing unusual {}", covered(scene));
        return vec![Line::styled(fit::line(&[text], width), style::dim(state))];
    }
    let shown = usize::from(area.height).min(all.len());
    let line = |(place, sentence): (usize, &super::super::unusual::Sentence)| {
        let left = all.len() - shown;
        let more = if place + 1 == shown && left > 0 { format!("  (and {left} more)") } else { String::new() };
        let more = if width < 60 { String::new() } else { more };
        let text = fit::line(&[format!("! {}", sentence.text)], width - more.len());
        let style = style::alarm(sentence.severe, state);
        Line::from(vec![Span::styled(text, style), Span::styled(more, style::dim(state))])
    };
    all.iter().take(shown).enumerate().map(line).collect()
}
