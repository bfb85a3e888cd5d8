//! Remote expiry: a CPU drains its pages of other nodes' zones after it has not used them for some ticks. Pure
//! functions.
//!
//! Specification: `linux-page-allocator.md` 8.2, "Remote expiry". Recordings of 6.12 on three nodes show that a drain is a use: an idle
//! pageset is drained every third tick, not once.

use super::Decay;

/// Ticks from the last use of another node's zone to the drain of a batch of its pages, counting the tick that sees the
/// use. Specification 9.
pub const TICKS: u8 = 3;

/// The countdown to the drain of one pageset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Expiry {
    /// Ticks left; 0 if no drain is due.
    pub left: u8,
}

impl Expiry {
    /// The once-a-second tick. `used`: the CPU has used the zone since the last tick. In the kernels it has if its counts of the zone
    /// changed, as they do by a drain at a tick. `remote`: the zone is on another node. Requests the drain of one batch after
    /// [`TICKS`] idle ticks, and with `all` (the rule [`super::Tuning::expire_all`]) at every later tick.
    #[must_use]
    pub fn tick(&mut self, used: bool, remote: bool, count: u32, batch: u32, all: bool) -> Decay {
        if used {
            self.left = TICKS;
        }
        if self.left == 0 || count == 0 {
            return Decay::default();
        }
        self.left = if remote { self.left - 1 } else { 0 };
        let due = remote && self.left == 0;
        if due && all && count > batch {
            self.left = 1;
        }
        Decay { drain: if due { count.min(batch) } else { 0 }, more: remote }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec::Vec;

    /// The result of each tick, and the ticks left after it.
    fn ticks(row: &[(bool, bool, u32)]) -> Vec<(u32, bool, u8)> {
        let mut expiry = Expiry::default();
        row.iter()
            .map(|&(used, remote, count)| {
                let Decay { drain, more } = expiry.tick(used, remote, count, 63, false);
                (drain, more, expiry.left)
            })
            .collect()
    }

    #[test]
    fn all_idle_pages_are_drained() {
        let mut expiry = Expiry::default();
        let row = [(true, 150), (false, 150), (false, 150), (false, 87), (false, 24), (false, 0)];
        let asked = row.map(|(used, count)| {
            let Decay { drain, more } = expiry.tick(used, true, count, 63, true);
            (drain, more)
        });
        assert_eq!(asked, [(0, true), (0, true), (63, true), (63, true), (24, true), (0, false)]);
    }

    #[test]
    fn rows_by_hand() {
        const USED: bool = true;
        const IDLE: bool = false;
        const REMOTE: bool = true;
        const LOCAL: bool = false;
        // A batch every third tick, since the drain is a use.
        let row = [
            (USED, REMOTE, 200),
            (IDLE, REMOTE, 200),
            (IDLE, REMOTE, 200),
            (USED, REMOTE, 137),
            (IDLE, REMOTE, 137),
            (IDLE, REMOTE, 137),
        ];
        let expected = [(0, true, 2), (0, true, 1), (63, true, 0), (0, true, 2), (0, true, 1), (63, true, 0)];
        assert_eq!(ticks(&row), expected);
        // Nothing more is due after a drain that changed no count.
        assert_eq!(
            ticks(&[(USED, REMOTE, 90), (IDLE, REMOTE, 90), (IDLE, REMOTE, 90), (IDLE, REMOTE, 27)])[3],
            (0, false, 0)
        );
        // Less than a batch; a use restarts the countdown.
        let row = [(USED, REMOTE, 40), (IDLE, REMOTE, 40), (USED, REMOTE, 40), (IDLE, REMOTE, 40), (IDLE, REMOTE, 40)];
        assert_eq!(ticks(&row), [(0, true, 2), (0, true, 1), (0, true, 2), (0, true, 1), (40, true, 0)]);
        // An empty pageset does not request further ticks.
        let row = [(USED, REMOTE, 0), (IDLE, REMOTE, 0), (IDLE, REMOTE, 5), (IDLE, REMOTE, 5), (IDLE, REMOTE, 5)];
        assert_eq!(ticks(&row), [(0, false, 3), (0, false, 3), (0, true, 2), (0, true, 1), (5, true, 0)]);
        // The CPU's own node; then a CPU number that a thread of another node uses for a while.
        let row =
            [(USED, LOCAL, 200), (IDLE, LOCAL, 200), (USED, REMOTE, 200), (IDLE, LOCAL, 200), (IDLE, REMOTE, 200)];
        assert_eq!(ticks(&row), [(0, false, 0), (0, false, 0), (0, true, 2), (0, false, 0), (0, false, 0)]);
    }
}
