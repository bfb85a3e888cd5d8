//! The unavailable values, the keys, the filter's prompt, and the help.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::super::filter::ALLOWED;
use super::super::fit;
use super::super::state::{Scene, State};
use super::style;

/// The lines of unavailable values on a screen of this height.
pub(super) fn lines(scene: &Scene<'_>, height: u16) -> u16 {
    scene.view.missing.len().min(if height < 16 { 1 } else { 3 }) as u16
}

/// The key of the next list, whose name follows.
const LISTS: &str = " w ";

/// The keys, the most important ones first.
const KEYS: [&str; 9] = [
    " q quit ",
    " h help ",
    LISTS,
    " z zone ",
    " arrows CPU ",
    " s sort ",
    " / filter ",
    " space freeze ",
    " + - interval ",
];

const PLAYBACK_KEYS: [&str; 9] = [
    " q quit ",
    " h help ",
    " space pause ",
    " n p step ",
    LISTS,
    " + - speed ",
    " z zone ",
    " arrows CPU ",
    " s sort ",
];

pub(super) fn draw(frame: &mut Frame<'_>, notes: Rect, keys: Rect, scene: &Scene<'_>, state: &State) {
    let width = usize::from(keys.width);
    let note = |note: &String| Line::styled(fit::line(std::slice::from_ref(note), width), style::dim(state));
    let lines: Vec<Line<'_>> = scene.view.missing.iter().take(notes.height.into()).map(note).collect();
    frame.render_widget(Paragraph::new(lines), notes);
    if let Some((text, fault)) = &state.prompt {
        let hint = fault.clone().unwrap_or_else(|| format!("try {ALLOWED}"));
        let parts = [format!("/{text}_"), format!("   {hint}"), "   Enter, Esc".to_owned()];
        let style = if fault.is_some() { style::alarm(false, state) } else { style::HEAD };
        frame.render_widget(Line::styled(fit::line(&parts, width), style), keys);
        return;
    }
    let all = if scene.position.is_some() { PLAYBACK_KEYS } else { KEYS };
    let all = all.map(|key| if key == LISTS { format!("{key}{} ", state.list.next().name()) } else { key.to_owned() });
    frame.render_widget(Line::styled(fit::line(&all, width), Modifier::REVERSED), keys);
}

const HELP: &str = "\
q, Esc      quit
z, Tab      next zone; Shift-Tab: previous zone
up, down    CPU in the list (also j k, PgUp PgDn, Home End, wheel)
left, right CPU by number, also in the map; a click chooses, too
w           list processes (root), then call sites, then CPUs
s           sort CPUs by number, count, change, refills, waits;
            processes and call sites by pages, waits
m           map by held, refills, drains, waits; no map
/           filter CPUs: 0-15,32  node=1  busy  unusual
+ -         look more or less often; play faster or slower
space, f    freeze or continue
n, p, > <   in saved looks: one or ten looks forward or back
Ctrl-Z      suspend; `fg` returns

mark        the lowest watermark that free pages are below
held        pages in pagesets: free, but only for one CPU
+-          change since the previous look
refill/s    pages taken from all zones per second (as root)
wait %      share of time spent spinning for zone locks (root)
elsewhere   pages that the CPU holds of other zones

`pageset explain NAME` describes each name. Press any key.";

pub(super) fn help(frame: &mut Frame<'_>, area: Rect) {
    let (width, height) = (70.min(area.width), (HELP.lines().count() as u16 + 2).min(area.height));
    let place = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    // Whole lines: the help must not cover a part of a number.
    frame.render_widget(Clear, Rect { x: 0, width: area.width, ..place });
    let help = fit::whole(HELP.to_owned());
    frame
        .render_widget(Paragraph::new(help).wrap(Wrap { trim: false }).block(Block::bordered().title(" help ")), place);
}
