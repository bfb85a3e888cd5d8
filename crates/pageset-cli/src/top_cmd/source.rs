//! Where the screen's looks come from: a machine, or saved looks that are played.

use std::time::Duration;

use super::history::{History, KEPT};
use super::look::Look;
use super::view::View;
use crate::error::Failure;

/// A shown look among several saved ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// From 0 on.
    pub(super) place: usize,
    pub(super) looks: usize,
}

impl Position {
    /// Whether no look follows.
    pub(super) fn is_last(self) -> bool {
        self.place + 1 == self.looks
    }
}

/// Shows one look after the other.
pub(super) trait Source {
    /// Goes to the next look. Returns whether there was one.
    fn next(&mut self) -> Result<bool, Failure>;
    fn view(&self) -> &View;
    /// The looks until now, including the current one.
    fn history(&self) -> &History;
    /// The position among saved looks; `None` for a machine.
    fn position(&self) -> Option<Position>;
    /// Goes some saved looks forward or back, up to the first or last.
    fn step(&mut self, by: isize);
    /// The recorded time from this look to the next, if known.
    fn pause(&self) -> Option<Duration>;
}

/// A machine. `look` takes a look at it.
pub(super) struct Live<L> {
    look: L,
    before: Look,
    view: View,
    history: History,
}

impl<L: FnMut() -> Result<Look, Failure>> Live<L> {
    /// Takes the first look.
    pub(super) fn new(mut look: L) -> Result<Self, Failure> {
        let before = look()?;
        let view = View::new(&before, None);
        let mut history = History::default();
        history.push(&view);
        Ok(Live { look, before, view, history })
    }

    /// The current look and the history.
    #[cfg(test)]
    pub(super) fn into_parts(self) -> (View, History) {
        (self.view, self.history)
    }
}

impl<L: FnMut() -> Result<Look, Failure>> Source for Live<L> {
    fn next(&mut self) -> Result<bool, Failure> {
        let look = (self.look)()?;
        self.view = View::new(&look, Some(&self.before));
        self.history.push(&self.view);
        self.before = look;
        Ok(true)
    }

    fn view(&self) -> &View {
        &self.view
    }

    fn history(&self) -> &History {
        &self.history
    }

    fn position(&self) -> Option<Position> {
        None
    }

    fn step(&mut self, _: isize) {}

    fn pause(&self) -> Option<Duration> {
        None
    }
}

/// Saved looks, at least one.
pub(super) struct Saved {
    views: Vec<View>,
    place: usize,
    history: History,
}

impl Saved {
    /// Shows the first look; `None` without looks.
    pub(super) fn new(views: Vec<View>) -> Option<Saved> {
        let mut history = History::default();
        history.push(views.first()?);
        Some(Saved { views, place: 0, history })
    }

    /// Whether the times between looks are known, so that they can be played.
    pub(super) fn is_timed(&self) -> bool {
        self.views.iter().any(|view| view.elapsed_ns.is_some())
    }
}

impl Source for Saved {
    fn next(&mut self) -> Result<bool, Failure> {
        let is_last = self.place + 1 == self.views.len();
        if !is_last {
            self.place += 1;
            self.history.push(&self.views[self.place]);
        }
        Ok(!is_last)
    }

    fn view(&self) -> &View {
        &self.views[self.place]
    }

    fn history(&self) -> &History {
        &self.history
    }

    fn position(&self) -> Option<Position> {
        Some(Position { place: self.place, looks: self.views.len() })
    }

    fn step(&mut self, by: isize) {
        let place = self.place.saturating_add_signed(by).min(self.views.len() - 1);
        // Looks after the current one are no history.
        let first = if place > self.place { self.place + 1 } else { 0 };
        if place < self.place {
            self.history = History::default();
        }
        let first = first.max((place + 1).saturating_sub(KEPT));
        for view in &self.views[first..=place.max(first)] {
            if place != self.place {
                self.history.push(view);
            }
        }
        self.place = place;
    }

    fn pause(&self) -> Option<Duration> {
        self.views.get(self.place + 1)?.elapsed_ns.map(Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::view;
    use super::*;

    #[test]
    fn saved_looks_are_stepped_through() {
        let mut saved = Saved::new((1..=5).map(view).collect()).unwrap();
        let at = |saved: &Saved| {
            let Position { place, looks } = saved.position().unwrap();
            (place, looks, saved.view().zones[0].pagesets.len(), saved.history().len())
        };
        assert_eq!(at(&saved), (0, 5, 1, 1));
        assert!(saved.next().unwrap());
        assert_eq!(at(&saved), (1, 5, 2, 2));
        saved.step(2);
        assert_eq!(at(&saved), (3, 5, 4, 4));
        saved.step(-1);
        assert_eq!(at(&saved), (2, 5, 3, 3));
        saved.step(9);
        assert_eq!(at(&saved), (4, 5, 5, 5));
        assert!(!saved.next().unwrap());
        saved.step(0);
        assert_eq!(at(&saved), (4, 5, 5, 5));
        saved.step(isize::MIN);
        assert_eq!(at(&saved), (0, 5, 1, 1));
        assert_eq!(saved.pause(), Some(Duration::from_secs(2)));
        assert!(Saved::new(Vec::new()).is_none());
    }
}
