//! What the user has chosen with keys. Pure: keys in, state out.

use ratatui::crossterm::event::KeyCode;

use super::view::{CpuWaits, Pageset, View};

/// The sort key of the CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sort {
    Cpu,
    Count,
    Change,
    Refills,
    Waits,
}

impl Sort {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Sort::Cpu => "CPU",
            Sort::Count => "count",
            Sort::Change => "change",
            Sort::Refills => "refills",
            Sort::Waits => "waits",
        }
    }

    const fn next(self) -> Sort {
        match self {
            Sort::Cpu => Sort::Count,
            Sort::Count => Sort::Change,
            Sort::Change => Sort::Refills,
            Sort::Refills => Sort::Waits,
            Sort::Waits => Sort::Cpu,
        }
    }
}

/// The choices.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) sort: Sort,
    /// The screen is not updated.
    pub(super) frozen: bool,
    pub(super) help: bool,
    /// Show a list of CPUs even if a map shows more CPUs.
    pub(super) list: bool,
    /// The chosen zone as `node zone`; `None` selects the zone with most pages.
    zone: Option<String>,
    /// The chosen CPU; `None` selects the first in order.
    cpu: Option<u32>,
    /// The index of the shown look among several saved ones.
    pub(super) page: usize,
}

/// The effect of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Nothing,
    Quit,
}

impl State {
    pub(super) fn new() -> State {
        State { sort: Sort::Cpu, frozen: false, help: false, list: false, zone: None, cpu: None, page: 0 }
    }

    /// The chosen zone's index in the view.
    pub(super) fn zone(&self, view: &View) -> usize {
        let chosen = self.zone.as_ref().and_then(|name| view.zones.iter().position(|zone| zone.name() == *name));
        let largest = (0..view.zones.len()).max_by_key(|place| view.zones[*place].managed);
        chosen.or(largest).unwrap_or(0)
    }

    /// The chosen zone's pagesets, sorted.
    pub(super) fn ordered(&self, view: &View) -> Vec<Pageset> {
        let Some(zone) = view.zones.get(self.zone(view)) else { return Vec::new() };
        let mut sets = zone.pagesets.clone();
        let refills = |set: &Pageset| view.traffic_of(set.cpu).and_then(|t| t.refill_pages_per_s).unwrap_or(0.0);
        let waits = |set: &Pageset| view.waits_of(set.cpu).and_then(CpuWaits::pct).unwrap_or(0.0);
        match self.sort {
            Sort::Cpu => {}
            Sort::Count => sets.sort_by_key(|set| std::cmp::Reverse(set.count)),
            Sort::Change => sets.sort_by_key(|set| std::cmp::Reverse(set.change.unwrap_or(0).unsigned_abs())),
            Sort::Refills => sets.sort_by(|a, b| refills(b).total_cmp(&refills(a))),
            Sort::Waits => sets.sort_by(|a, b| waits(b).total_cmp(&waits(a))),
        }
        sets
    }

    /// The chosen CPU's index in `ordered`.
    pub(super) fn chosen(&self, ordered: &[Pageset]) -> usize {
        self.cpu.and_then(|cpu| ordered.iter().position(|set| set.cpu == cpu)).unwrap_or(0)
    }

    /// Handles a key. `row` is the number of CPUs in a line of the map; 1 for a list.
    pub(super) fn key(&mut self, key: KeyCode, view: &View, row: usize) -> Action {
        if self.help {
            self.help = false;
            return if key == KeyCode::Char('q') { Action::Quit } else { Action::Nothing };
        }
        let ordered = self.ordered(view);
        let place = self.chosen(&ordered);
        let last = ordered.len().saturating_sub(1);
        let mut go = |place: usize| self.cpu = ordered.get(place.min(last)).map(|set| set.cpu);
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Down | KeyCode::Char('j') => go(place + row),
            KeyCode::Up | KeyCode::Char('k') => go(place.saturating_sub(row)),
            KeyCode::Right | KeyCode::Char('l') => go(place + 1),
            KeyCode::Left => go(place.saturating_sub(1)),
            KeyCode::PageDown => go(place + 10 * row),
            KeyCode::PageUp => go(place.saturating_sub(10 * row)),
            KeyCode::Home => go(0),
            KeyCode::End => go(last),
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char(' ' | 'f') => self.frozen = !self.frozen,
            KeyCode::Char('h' | '?') => self.help = true,
            KeyCode::Char('m') => self.list = !self.list,
            KeyCode::Char('z') | KeyCode::Tab if !view.zones.is_empty() => {
                self.zone = Some(view.zones[(self.zone(view) + 1) % view.zones.len()].name());
            }
            KeyCode::Char('n') => self.page = self.page.saturating_add(1),
            KeyCode::Char('p') => self.page = self.page.saturating_sub(1),
            _ => {}
        }
        Action::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::view;
    use super::*;

    #[test]
    fn keys() {
        let view = view(4);
        let mut state = State::new();
        // The zone with most pages is shown first; z selects the next zone in turn.
        assert_eq!(view.zones[state.zone(&view)].name(), "0 Normal");
        state.key(KeyCode::Char('z'), &view, 1);
        assert_eq!(view.zones[state.zone(&view)].name(), "0 DMA");
        state.key(KeyCode::Tab, &view, 1);
        assert_eq!(view.zones[state.zone(&view)].name(), "0 Normal");
        // A CPU stays chosen when the order changes.
        state.key(KeyCode::Down, &view, 2);
        let chosen = |state: &State| state.ordered(&view)[state.chosen(&state.ordered(&view))].cpu;
        assert_eq!(chosen(&state), 2);
        state.key(KeyCode::Char('s'), &view, 1);
        assert_eq!((state.sort, chosen(&state)), (Sort::Count, 2));
        state.key(KeyCode::End, &view, 1);
        let counts: Vec<u64> = state.ordered(&view).iter().map(|set| set.count).collect();
        assert!(counts.is_sorted_by(|a, b| a >= b), "{counts:?}");
        state.key(KeyCode::PageDown, &view, 7);
        assert_eq!(state.chosen(&state.ordered(&view)), 3, "PageDown stops at the last CPU");
        // Any key closes the help and has no other effect.
        state.key(KeyCode::Char('h'), &view, 1);
        assert!(state.help);
        state.key(KeyCode::Char('s'), &view, 1);
        assert!(!state.help && state.sort == Sort::Count);
        state.key(KeyCode::Char(' '), &view, 1);
        assert!(state.frozen);
        assert_eq!(state.key(KeyCode::Char('q'), &view, 1), Action::Quit);
    }
}
