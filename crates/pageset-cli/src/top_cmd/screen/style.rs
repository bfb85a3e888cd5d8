//! Colours and emphasis. Colour marks what is unusual, not what is full. Without colours, emphasis marks it.

use pageset_trace::verdict::machine::Level;
use ratatui::style::{Color, Modifier, Style};

use super::super::state::State;

/// Names, units and rules: less important than numbers.
pub(super) fn dim(state: &State) -> Style {
    if state.colour { Style::new().fg(Color::DarkGray) } else { Style::new().add_modifier(Modifier::DIM) }
}

/// Lines and bars.
pub(super) fn line(state: &State) -> Style {
    if state.colour { Style::new().fg(Color::Cyan) } else { Style::new() }
}

/// The line of a limit over an area, or over nothing.
pub(super) fn limit(covered: bool, state: &State) -> Style {
    match (covered, state.colour) {
        (false, _) => Style::new(),
        (true, true) => Style::new().fg(Color::White).bg(Color::Cyan),
        (true, false) => Style::new().add_modifier(Modifier::REVERSED),
    }
}

pub(super) fn verdict(level: Level, state: &State) -> Style {
    match level {
        Level::Severe | Level::Unusual => alarm(level == Level::Severe, state),
        Level::Healthy if state.colour => HEAD.fg(Color::Green),
        Level::Unknown if state.colour => HEAD.fg(Color::Cyan),
        Level::Healthy | Level::Unknown => HEAD,
    }
}

/// Something unusual.
pub(super) fn alarm(severe: bool, state: &State) -> Style {
    let style = Style::new().add_modifier(Modifier::BOLD);
    match state.colour {
        true => style.fg(if severe { Color::Red } else { Color::Yellow }),
        false if severe => style.add_modifier(Modifier::REVERSED),
        false => style.add_modifier(Modifier::UNDERLINED),
    }
}

pub(super) const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);

pub(super) const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);

/// The columns' names: the underline separates them from the numbers.
pub(super) fn columns(state: &State) -> Style {
    dim(state).add_modifier(Modifier::UNDERLINED)
}
