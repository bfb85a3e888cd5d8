//! A recording's events for replays: decoded once, with dense page numbers.
//!
//! Replays look up several facts for the page of each event. A recording touches few of the machine's pages, so dense
//! page numbers make these look-ups an index into a table.
//!
//! | module | contents |
//! | --- | --- |
//! | `units` | dense page numbers |
//! | `packed` | an event in 32 bytes |

mod packed;
mod units;

use std::slice;

use pageset::Order;

use self::packed::Packed;
pub(crate) use self::units::Units;
use self::units::{Seen, UNITS_MAX, page_of, renumbered};
use crate::coverage::Coverage;
use crate::error::{Place, TraceError};
use crate::event::{Event, Kind};
use crate::trace::{self, Trace};

/// The events of a recording. If they do not fit the limit of memory, each pass decodes them again.
#[derive(Debug)]
pub(crate) struct Compact {
    units: Units,
    /// Only of a recording by another tool.
    coverage: Option<Coverage>,
    stored: Option<Stored>,
}

#[derive(Debug, Default)]
struct Stored {
    events: Vec<Packed>,
    /// The kinds that do not fit an event.
    others: Vec<Kind>,
}

impl Stored {
    fn bytes(&self) -> u64 {
        (self.events.len() * size_of::<Packed>() + self.others.len() * size_of::<Kind>()) as u64
    }
}

impl Compact {
    /// Decodes a recording once and reports the number of events read to `progress`.
    pub(crate) fn new(trace: &Trace, progress: &mut dyn FnMut(u64)) -> Result<Compact, TraceError> {
        let limit = trace.resources().memory_bytes;
        // The totals are those in the file, so they may be wrong; the limit bounds what they reserve.
        let expected = trace.totals().map_or(0, |totals| totals.events);
        let fits = expected.saturating_mul(size_of::<Packed>() as u64) <= limit;
        let mut stored = fits.then(Stored::default);
        if let Some(stored) = &mut stored {
            stored.events.reserve_exact(expected as usize);
        }
        let mut seen = Seen::default();
        let mut coverage = trace.facts().recipe.is_some().then(Coverage::default);
        for (index, event) in (0..).zip(trace.events()?) {
            let mut event = event?;
            if let Some(coverage) = &mut coverage {
                coverage.event(&event);
            }
            if let Some(pfn) = page_of(&mut event.kind) {
                *pfn = seen.number(*pfn).ok_or_else(too_many_units)?;
            }
            if let Some(events) = &mut stored {
                events.events.push(Packed::new(event, &mut events.others));
                if events.bytes() > limit {
                    stored = None;
                }
            }
            progress(index);
        }
        let (units, finals) = seen.sorted();
        if let Some(Stored { events, others }) = &mut stored {
            events.iter_mut().for_each(|event| event.renumber(|pfn| renumbered(pfn, &finals)));
            others.iter_mut().filter_map(page_of).for_each(|pfn| *pfn = renumbered(*pfn, &finals));
        }
        Ok(Compact { units, coverage, stored })
    }

    /// The dense numbers of the pages.
    pub(crate) fn units(&self) -> &Units {
        &self.units
    }

    /// The events by CPU and kind; `None` for the recorder's own recordings.
    pub(crate) fn coverage(&self) -> Option<&Coverage> {
        self.coverage.as_ref()
    }

    /// The memory of the stored events, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.stored.as_ref().map_or(0, Stored::bytes)
    }

    /// The memory of a table with a value of `bytes` for each page, in bytes.
    pub(crate) fn table_bytes(&self, bytes: u64) -> u64 {
        self.units.len() as u64 * Order::MAX.pages() * bytes
    }

    /// An iterator over the events from the first on, with dense page numbers. `trace` is the same recording as in
    /// [`Self::new`].
    ///
    /// # Errors
    /// If the events are not stored and cannot be read.
    pub(crate) fn events<'c>(&'c self, trace: &'c Trace) -> Result<Events<'c>, TraceError> {
        Ok(match &self.stored {
            Some(Stored { events, others }) => Events::Stored { events: events.iter(), others },
            None => Events::Read { events: trace.events()?, units: &self.units },
        })
    }
}

/// The events of a recording in the order of time.
pub(crate) enum Events<'c> {
    Stored { events: slice::Iter<'c, Packed>, others: &'c [Kind] },
    Read { events: trace::Events<'c>, units: &'c Units },
}

impl Iterator for Events<'_> {
    type Item = Result<Event, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Events::Stored { events, others } => events.next().map(|event| Ok(event.event(others))),
            Events::Read { events, units } => events.next().map(|event| numbered(event?, units)),
        }
    }
}

fn numbered(mut event: Event, units: &Units) -> Result<Event, TraceError> {
    if let Some(pfn) = page_of(&mut event.kind) {
        *pfn = units.number(*pfn).ok_or_else(|| {
            TraceError::damaged(Place::WholeFile, "the file has changed since it was opened")
                .allowed("a file that no program writes")
        })?;
    }
    Ok(event)
}

#[cold]
fn too_many_units() -> TraceError {
    let size = UNITS_MAX as u64 * Order::MAX.pages();
    TraceError::unsupported(format!("the events are of pages in more than {UNITS_MAX} blocks of the largest order"))
        .allowed(format!("{size} pages in such blocks"))
}
