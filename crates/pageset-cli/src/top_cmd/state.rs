//! What the user has chosen with keys and mouse. Pure: keys in, state out.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ratatui::crossterm::event::KeyCode;

use super::filter::Filter;
use super::history::{History, Measure, Smooth};
use super::order::{List, Sort};
use super::source::Position;
use super::unusual::Unusual;
use super::view::{By, CpuWaits, Mover, Pageset, View, Zone, sort};

/// All that the screen shows, except for the user's choices.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) view: &'a View,
    pub(super) history: &'a History,
    pub(super) unusual: &'a Unusual,
    /// The position among saved looks.
    pub(super) position: Option<Position>,
}

/// The intervals that `+` and `-` choose from. Unit: milliseconds.
const INTERVALS_MS: [u64; 10] = [100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 600_000];
/// The speeds of a playback, in quarters: 4 is as recorded.
const SPEEDS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) list: List,
    pub(super) sort: Sort,
    /// The sort key of the processes and call sites.
    pub(super) by: By,
    /// The place of the first shown process or call site.
    pub(super) first_row: usize,
    /// The number of processes or call sites that the screen had room for when it was last drawn.
    pub(super) row_lines: Cell<usize>,
    /// The screen is not updated; a playback is paused.
    pub(super) frozen: bool,
    pub(super) help: bool,
    /// What the map of CPUs shows; `None` without a map.
    pub(super) map: Option<Measure>,
    /// The time between looks of a machine.
    pub(super) interval: Duration,
    /// The speed of a playback in quarters.
    pub(super) speed: u32,
    pub(super) filter: Filter,
    /// The text of the filter while the user types, and what is wrong with it.
    pub(super) prompt: Option<(String, Option<String>)>,
    pub(super) filter_text: String,
    pub(super) colour: bool,
    /// The chosen zone as `node zone`; `None` selects each CPU's own node, or the zone with most pages.
    pub(super) zone: Option<String>,
    /// The chosen CPU; `None` selects the first in order.
    pub(super) cpu: Option<u32>,
}

/// The effect of a key outside the state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Nothing,
    Quit,
    /// Go some saved looks forward or back.
    Step(isize),
}

/// The zones whose pagesets are shown: the chosen zone, or for each CPU the largest zone of its own node.
pub(super) struct Zones {
    /// The zone of CPUs whose node is not known.
    common: usize,
    /// Empty if a zone is chosen.
    by_node: BTreeMap<u32, usize>,
}

impl Zones {
    /// The zone that is shown for a CPU.
    pub(super) fn of(&self, view: &View, cpu: u32) -> usize {
        view.node_of(cpu).and_then(|node| self.by_node.get(&node).copied()).unwrap_or(self.common)
    }

    /// The name of the zone that is shown for a CPU.
    pub(super) fn name(&self, view: &View, cpu: u32) -> String {
        view.zones.get(self.of(view, cpu)).map(Zone::name).unwrap_or_default()
    }

    pub(super) fn all(&self) -> BTreeSet<usize> {
        if self.by_node.is_empty() { BTreeSet::from([self.common]) } else { self.by_node.values().copied().collect() }
    }

    /// The shown pageset of each CPU, in the order of CPUs.
    pub(super) fn pagesets(&self, view: &View) -> Vec<Pageset> {
        let Some(zone) = view.zones.get(self.common) else { return Vec::new() };
        let own = |set: &Pageset| view.zones[self.of(view, set.cpu)].pageset_of(set.cpu).copied().unwrap_or(*set);
        zone.pagesets.iter().map(own).collect()
    }
}

/// The index of the zone with most pages among some zones.
fn largest(view: &View, of: impl Fn(&Zone) -> bool) -> Option<usize> {
    let zones = view.zones.iter().enumerate().filter(|(_, zone)| of(zone));
    zones.max_by_key(|(_, zone)| zone.managed).map(|(place, _)| place)
}

impl State {
    pub(super) fn new() -> State {
        State {
            list: List::Cpus,
            sort: Sort::Cpu,
            by: By::Pages,
            first_row: 0,
            row_lines: Cell::new(1),
            frozen: false,
            help: false,
            map: Some(Measure::Held),
            interval: Duration::from_secs(1),
            speed: 4,
            filter: Filter::default(),
            prompt: None,
            filter_text: String::new(),
            colour: true,
            zone: None,
            cpu: None,
        }
    }

    /// The chosen zone's index in the view; without a choice, the zone with most pages.
    pub(super) fn zone(&self, view: &View) -> usize {
        let chosen = self.zone.as_ref().and_then(|name| view.zones.iter().position(|zone| zone.name() == *name));
        chosen.or_else(|| largest(view, |_| true)).unwrap_or(0)
    }

    /// The zones whose pagesets are shown.
    pub(super) fn zones(&self, view: &View) -> Zones {
        let nodes: BTreeSet<u32> = match self.zone {
            None => view.cpu_nodes.iter().copied().collect(),
            Some(_) => BTreeSet::new(),
        };
        let of_node = |node| Some((node, largest(view, |zone| zone.node == node)?));
        let by_node = nodes.into_iter().filter_map(of_node).collect();
        Zones { common: self.zone(view), by_node }
    }

    /// The shown pagesets that the filter lets pass, sorted.
    pub(super) fn ordered(&self, scene: &Scene<'_>) -> Vec<Pageset> {
        let (view, zones) = (scene.view, self.zones(scene.view));
        let mut sets = zones.pagesets(view);
        if !self.filter.is_empty() {
            sets.retain(|set| self.filter.shows(set.cpu, view, scene.unusual));
        }
        let refills = |set: &Pageset| view.traffic_of(set.cpu).and_then(|t| t.rates()[0]).unwrap_or(0.0);
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

    /// Processes or call sites, sorted; `None` if they are not counted.
    pub(super) fn movers<'a, T: Mover>(&self, of: &'a Smooth<T>) -> Option<Vec<&'a T>> {
        let mut all: Vec<&T> = of.all.as_ref()?.iter().collect();
        sort(&mut all, self.by);
        Some(all)
    }

    /// The chosen CPU's index in `ordered`.
    pub(super) fn chosen(&self, ordered: &[Pageset]) -> usize {
        self.cpu.and_then(|cpu| ordered.iter().position(|set| set.cpu == cpu)).unwrap_or(0)
    }

    /// Chooses the CPU that is some lines below or above the chosen one, or scrolls processes or call sites.
    pub(super) fn scroll(&mut self, scene: &Scene<'_>, by: isize) {
        let rows = match self.list {
            List::Cpus => None,
            List::Processes => Some(scene.history.processes.all.as_ref().map_or(0, Vec::len)),
            List::CallSites => Some(scene.history.sites.all.as_ref().map_or(0, Vec::len)),
        };
        if let Some(all) = rows {
            let last = all.saturating_sub(self.row_lines.get());
            self.first_row = self.first_row.saturating_add_signed(by).min(last);
            return;
        }
        let ordered = self.ordered(scene);
        let last = ordered.len().saturating_sub(1);
        let place = self.chosen(&ordered).saturating_add_signed(by).min(last);
        self.cpu = ordered.get(place).map(|set| set.cpu);
    }

    /// Chooses the next or previous CPU by number.
    fn neighbour(&mut self, scene: &Scene<'_>, forward: bool) {
        let mut cpus: Vec<u32> = self.ordered(scene).iter().map(|set| set.cpu).collect();
        let first = cpus.first().copied();
        let Some(now) = self.cpu.filter(|cpu| cpus.contains(cpu)).or(first) else { return };
        cpus.sort_unstable();
        let place = cpus.iter().position(|cpu| *cpu == now).unwrap_or(0);
        let place = if forward { (place + 1).min(cpus.len() - 1) } else { place.saturating_sub(1) };
        self.cpu = Some(cpus[place]);
    }

    pub(super) fn key(&mut self, key: KeyCode, scene: &Scene<'_>) -> Action {
        if self.help {
            self.help = false;
            return if key == KeyCode::Char('q') { Action::Quit } else { Action::Nothing };
        }
        if self.prompt.is_some() {
            self.type_filter(key);
            return Action::Nothing;
        }
        let zones = &scene.view.zones;
        match key {
            KeyCode::Esc if !self.filter.is_empty() => {
                (self.filter, self.filter_text) = (Filter::default(), String::new());
            }
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Down | KeyCode::Char('j') => self.scroll(scene, 1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll(scene, -1),
            KeyCode::Right | KeyCode::Char('l') => self.neighbour(scene, true),
            KeyCode::Left => self.neighbour(scene, false),
            KeyCode::PageDown => self.scroll(scene, 10),
            KeyCode::PageUp => self.scroll(scene, -10),
            KeyCode::Home => self.scroll(scene, isize::MIN),
            KeyCode::End => self.scroll(scene, isize::MAX),
            KeyCode::Char('w') => {
                self.list = self.list.next();
                self.first_row = 0;
            }
            KeyCode::Char('s') if self.list != List::Cpus => {
                self.by = if self.by == By::Pages { By::Waits } else { By::Pages };
            }
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char(' ' | 'f') => self.frozen = !self.frozen,
            KeyCode::Char('h' | '?') => self.help = true,
            KeyCode::Char('m') => {
                self.map = match self.map {
                    None => Some(Measure::Held),
                    Some(Measure::Held | Measure::High) => Some(Measure::Refills),
                    Some(Measure::Refills) => Some(Measure::Drains),
                    Some(Measure::Drains) => Some(Measure::Waits),
                    Some(Measure::Waits) => None,
                };
            }
            KeyCode::Char('/') => self.prompt = Some((self.filter_text.clone(), None)),
            KeyCode::Char('+' | '=') => self.faster(scene.position.is_some(), true),
            KeyCode::Char('-') => self.faster(scene.position.is_some(), false),
            KeyCode::Char('z') | KeyCode::Tab if !zones.is_empty() => {
                self.next_zone(scene.view, true);
            }
            KeyCode::BackTab if !zones.is_empty() => {
                self.next_zone(scene.view, false);
            }
            KeyCode::Char('n' | '.') if scene.position.is_some() => return self.step(1),
            KeyCode::Char('p' | ',') if scene.position.is_some() => return self.step(-1),
            KeyCode::Char('>') if scene.position.is_some() => return self.step(10),
            KeyCode::Char('<') if scene.position.is_some() => return self.step(-10),
            _ => {}
        }
        Action::Nothing
    }

    /// Chooses the next or previous zone. After the last one, no zone is chosen if there are several nodes.
    fn next_zone(&mut self, view: &View, forward: bool) {
        let zones = view.zones.len();
        let without = State { zone: None, ..self.clone() }.zones(view).all().len() > 1;
        let now = if self.zone.is_none() && without { None } else { Some(self.zone(view)) };
        let next = match (now, forward) {
            (None, true) => Some(0),
            (None, false) => Some(zones - 1),
            (Some(place), true) => Some(place + 1).filter(|place| *place < zones || !without),
            (Some(place), false) if place == 0 && without => None,
            (Some(place), false) => Some(place + zones - 1),
        };
        self.zone = next.map(|place| view.zones[place % zones].name());
    }

    /// A step pauses the playback.
    fn step(&mut self, by: isize) -> Action {
        self.frozen = true;
        Action::Step(by)
    }

    /// Looks more often, or plays faster; or the reverse.
    fn faster(&mut self, playback: bool, faster: bool) {
        if playback {
            let next = SPEEDS.into_iter().find(|speed| *speed > self.speed);
            let previous = SPEEDS.into_iter().rfind(|speed| *speed < self.speed);
            self.speed = if faster { next } else { previous }.unwrap_or(self.speed);
            return;
        }
        let intervals = INTERVALS_MS.map(Duration::from_millis);
        let longer = intervals.into_iter().find(|interval| *interval > self.interval);
        let shorter = intervals.into_iter().rfind(|interval| *interval < self.interval);
        self.interval = if faster { shorter } else { longer }.unwrap_or(self.interval);
    }

    fn type_filter(&mut self, key: KeyCode) {
        let Some((text, fault)) = &mut self.prompt else { return };
        match key {
            KeyCode::Esc => self.prompt = None,
            KeyCode::Enter => match Filter::parse(text) {
                Ok(filter) => {
                    (self.filter, self.filter_text) = (filter, text.trim().to_owned());
                    self.prompt = None;
                }
                Err(wrong) => *fault = Some(wrong),
            },
            KeyCode::Backspace => {
                text.pop();
                *fault = None;
            }
            KeyCode::Char(letter) => {
                text.push(letter);
                *fault = None;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
