//! Dots by two measures, each with its name: which of several choices is best in both.

use pageset_columns::Column;
use schemars::JsonSchema;
use serde::Serialize;

use super::scale::{Scale, plain};
use super::{BOTTOM, Drawing, HEIGHT, LETTER, Mark, Room, TOP, shortened};
use crate::columns::deciding;

/// Choices as dots: pages held from left to right, zone-lock holds from the bottom up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DotChart {
    /// The dots.
    pub dots: Vec<Dot>,
}

/// A choice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dot {
    /// Its name.
    pub name: String,
    /// The most pages in all pagesets together.
    pub held: f64,
    /// Holds of zone locks per 1000 allocations and frees.
    pub locks: f64,
    /// Whether it is the choice in force.
    pub is_own: bool,
    /// Whether it wins.
    pub is_best: bool,
}

impl Dot {
    /// The first two numbers of a row that decide, without a name.
    pub fn of<R: JsonSchema + Serialize>(row: &R) -> Dot {
        let number = |(_, value): &(Column, Option<f64>)| value.unwrap_or(0.0);
        let numbers: Vec<f64> = deciding(Some(row)).iter().map(number).collect();
        let [locks, held, ..] = numbers[..] else { return Dot::default() };
        Dot { locks, held, ..Dot::default() }
    }

    /// The headings of these two numbers in the rows `R`: zone-lock holds, pages held.
    pub fn headings<R: JsonSchema + Serialize>() -> [String; 2] {
        let mut headings = deciding::<R>(None).into_iter().map(|(column, _)| column.heading);
        [(); 2].map(|()| headings.next().unwrap_or_default())
    }
}

pub(super) const RADIUS: f64 = 5.0;
/// The distance within which dots share a label.
const NEAR: f64 = 14.0;
const COLOURS: [(&str, usize); 3] = [("in force", 0), ("winner", 2), ("others", 7)];

/// The box of a label: left, right, top, bottom.
type Area = [f64; 4];

impl DotChart {
    pub(super) fn draw(&self, room: Room, drawing: &mut Drawing) {
        let (by_held, by_locks) =
            (Scale::of(self.dots.iter().map(|dot| dot.held)), Scale::of(self.dots.iter().map(|dot| dot.locks)));
        let log = |scale: Scale| if scale.is_log() { ", logarithmic scale" } else { "" };
        drawing.unit = format!("zone-lock holds per 1000 operations{}", log(by_locks));
        let ticks = by_locks.ticks();
        let longest = ticks.iter().map(|tick| tick.1.chars().count()).max().unwrap_or(0);
        let (left, right) = (longest as f64 * LETTER + 14.0, room.width() - 14.0);
        for (place, text) in ticks {
            let y = BOTTOM - place * HEIGHT;
            drawing.rule((left, y), (right, y), "grid");
            drawing.text((left - 8.0, y + 4.5), text, "tick", "end");
        }
        let mut taken = f64::NEG_INFINITY;
        for (place, text) in by_held.ticks() {
            let (x, half) = (left + place * (right - left), text.chars().count() as f64 * LETTER / 2.0);
            drawing.rule((x, TOP), (x, BOTTOM), "grid");
            if x - half > taken && x + half <= room.width() {
                taken = x + half + LETTER;
                drawing.text((x, BOTTOM + 18.0), text, "tick", "middle");
            }
        }
        let below = format!("most pages held{}; the best is at the lower left", log(by_held));
        drawing.text((right, BOTTOM + 38.0), below, "tick", "end");
        let at =
            |dot: &Dot| (left + by_held.place(dot.held) * (right - left), BOTTOM - by_locks.place(dot.locks) * HEIGHT);
        // The winner and the choice in force are drawn last and named first.
        let mut order: Vec<&Dot> = self.dots.iter().collect();
        order.sort_by_key(|dot| (dot.is_best, dot.is_own));
        for dot in &order {
            let (x, y) = at(dot);
            let colour = if dot.is_best { COLOURS[1].1 } else { COLOURS[if dot.is_own { 0 } else { 2 }].1 };
            let title = format!("{}: {} holds, {} pages", dot.name, plain(dot.locks), plain(dot.held));
            drawing.dots.push(Mark::new((x, y), colour, title));
        }
        let mut groups: Vec<((f64, f64), Vec<&Dot>)> = Vec::new();
        for dot in order.iter().rev() {
            let (x, y) = at(dot);
            match groups.iter_mut().find(|((gx, gy), _)| (gx - x).hypot(gy - y) < NEAR) {
                Some((_, group)) => group.push(dot),
                None => groups.push(((x, y), vec![dot])),
            }
        }
        let dots: Vec<(f64, f64)> = self.dots.iter().map(at).collect();
        let mut labels: Vec<Area> = Vec::new();
        for (place, group) in groups {
            let names: Vec<&str> = group.iter().map(|dot| dot.name.as_str()).collect();
            let most = ((right - left) / LETTER * 0.6) as usize;
            let text = shortened(&names.join(", "), most);
            let class = if group.iter().any(|dot| dot.is_best || dot.is_own) { "label own" } else { "label" };
            let Some((at, anchor, area)) = free_place(place, &text, (room.width(), &dots, &labels)) else { continue };
            labels.push(area);
            drawing.text(at, text, class, anchor);
        }
        let own_wins = self.dots.iter().any(|dot| dot.is_own && dot.is_best);
        let used = |name: &str| match name {
            "in force" => self.dots.iter().any(|dot| dot.is_own && !dot.is_best),
            "winner" => self.dots.iter().any(|dot| dot.is_best),
            _ => self.dots.iter().any(|dot| !dot.is_own && !dot.is_best),
        };
        let named = |name: &'static str| if own_wins && name == "winner" { "in force and winner" } else { name };
        let names: Vec<(&str, usize)> =
            COLOURS.into_iter().filter(|(name, _)| used(name)).map(|(name, colour)| (named(name), colour)).collect();
        drawing.name_colours(room, &names, BOTTOM + 44.0);
    }
}

/// A place for a label next to its dot that covers no other label and no dot: right, left, above or below.
fn free_place(
    (x, y): (f64, f64),
    text: &str,
    (width, dots, labels): (f64, &[(f64, f64)], &[Area]),
) -> Option<((f64, f64), &'static str, Area)> {
    let long = text.chars().count() as f64 * LETTER;
    let away = RADIUS + 5.0;
    let places = [
        ((x + away, y + 4.5), "start", x + away),
        ((x - away, y + 4.5), "end", x - away - long),
        ((x, y - away), "middle", x - long / 2.0),
        ((x, y + away + 10.0), "middle", x - long / 2.0),
        ((x + away, y - away - 6.0), "start", x + away),
        ((x - away, y - away - 6.0), "end", x - away - long),
    ];
    places.into_iter().find_map(|(at, anchor, from)| {
        let area = [from, from + long, at.1 - 11.0, at.1 + 4.0];
        let inside = area[0] >= 0.0 && area[1] <= width && area[2] >= TOP - 14.0 && area[3] <= BOTTOM;
        let apart = |other: &Area| area[1] < other[0] || other[1] < area[0] || area[3] < other[2] || other[3] < area[2];
        let free = labels.iter().all(apart)
            && dots.iter().all(|(x, y)| apart(&[x - RADIUS, x + RADIUS, y - RADIUS, y + RADIUS]));
        (inside && free).then_some((at, anchor, area))
    })
}
