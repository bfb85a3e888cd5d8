//! One look after the other, whatever happens to the counting: an agent goes on without counts, and begins to count again.

use pageset_report::error::Failure;

use crate::look::{Look, Machine};
use crate::view::View;

/// After so many intervals without counts, counting is tried again. A guess: ten minutes of an agent.
const TRY_AGAIN: u32 = 10;

/// What looks are taken of.
pub trait Looks {
    /// Takes a look.
    ///
    /// # Errors
    /// The kernel's texts are not readable.
    fn look(&mut self) -> Result<Look, Failure>;
}

impl Looks for Machine {
    fn look(&mut self) -> Result<Look, Failure> {
        Machine::look(self)
    }
}

/// A machine, the look before, and whether it counts.
pub struct Watch<L, S> {
    /// Begins to count.
    start: S,
    machine: L,
    before: Look,
    uncounted: u32,
    /// What the last start could not tell.
    missing: Vec<String>,
}

impl<L: Looks, S: FnMut() -> Result<L, Failure>> Watch<L, S> {
    /// Begins to count with `start`, and takes the first look.
    ///
    /// # Errors
    /// Of the start or the look.
    pub fn new(mut start: S) -> Result<Self, Failure> {
        let mut machine = start()?;
        let before = machine.look()?;
        Ok(Watch { missing: before.missing.clone(), start, machine, before, uncounted: 0 })
    }

    /// What cannot be told since counting began, each with the reason.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// A look for somebody who asks between two intervals.
    ///
    /// # Errors
    /// Of the look.
    pub fn look(&mut self) -> Result<Look, Failure> {
        self.machine.look()
    }

    /// The interval from the look before until now. `None` if counting had to begin anew: then an interval begins now.
    ///
    /// # Errors
    /// Of the look. The next interval begins at the last one that succeeded.
    pub fn interval(&mut self) -> Result<Option<View>, Failure> {
        let look = self.machine.look()?;
        self.uncounted = if look.traffic.is_none() { self.uncounted + 1 } else { 0 };
        let has_ended = self.before.traffic.is_some() && self.uncounted > 0;
        // Counting has ended, such as by an offline CPU that the kernel removed, or could not begin.
        if has_ended || self.uncounted >= TRY_AGAIN {
            if self.begin_anew() {
                return Ok(None);
            }
            self.uncounted = 0;
        }
        let view = View::new(&look, Some(&self.before));
        self.before = look;
        Ok(Some(view))
    }

    /// Whether counting began anew. Where it did not, the interval has a line without counts.
    fn begin_anew(&mut self) -> bool {
        let Ok(mut machine) = (self.start)() else { return false };
        let Ok(before) = machine.look() else { return false };
        self.missing.clone_from(&before.missing);
        if before.traffic.is_none() {
            return false;
        }
        (self.machine, self.before, self.uncounted) = (machine, before, 0);
        true
    }
}
