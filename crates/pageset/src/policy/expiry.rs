//! Pages of other nodes' zones that a CPU keeps go back when it leaves them alone: numbers in, numbers out.
//!
//! Specification: `linux-page-allocator.md` 8.2, "Remote expiry".

use super::Decay;

/// Ticks after the last use of another node's zone until a batch of its pages goes back, the tick that sees the use
/// included. Specification 9.
pub const TICKS: u8 = 3;

/// How long a pageset is still waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Expiry {
    /// Ticks left; 0 when nothing is waited for.
    pub left: u8,
}

impl Expiry {
    /// A second has passed. `used` says whether pages came or went since the last tick, `remote` whether the zone is
    /// another node's. Asks for one batch when the pageset has been idle for [`TICKS`]: once, or with `all` (the rule
    /// [`super::Tuning::expire_all`]) at every tick from then on.
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

    /// What a row of ticks asks for, and what is left after each.
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
    fn all_that_lies_idle_goes() {
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
        // One batch an idle period.
        let row = [(USED, REMOTE, 200), (IDLE, REMOTE, 200), (IDLE, REMOTE, 200), (IDLE, REMOTE, 137)];
        assert_eq!(ticks(&row), [(0, true, 2), (0, true, 1), (63, true, 0), (0, false, 0)]);
        // Less than a batch; use begins the wait anew.
        let row = [(USED, REMOTE, 40), (IDLE, REMOTE, 40), (USED, REMOTE, 40), (IDLE, REMOTE, 40), (IDLE, REMOTE, 40)];
        assert_eq!(ticks(&row), [(0, true, 2), (0, true, 1), (0, true, 2), (0, true, 1), (40, true, 0)]);
        // An empty pageset waits without being asked for ticks.
        let row = [(USED, REMOTE, 0), (IDLE, REMOTE, 0), (IDLE, REMOTE, 5), (IDLE, REMOTE, 5), (IDLE, REMOTE, 5)];
        assert_eq!(ticks(&row), [(0, false, 3), (0, false, 3), (0, true, 2), (0, true, 1), (5, true, 0)]);
        // The CPU's own node; and a CPU number that another node's thread used for a while.
        let row =
            [(USED, LOCAL, 200), (IDLE, LOCAL, 200), (USED, REMOTE, 200), (IDLE, LOCAL, 200), (IDLE, REMOTE, 200)];
        assert_eq!(ticks(&row), [(0, false, 0), (0, false, 0), (0, true, 2), (0, false, 0), (0, false, 0)]);
    }
}
