//! The rules that an allocator follows: any, or with a build without the feature `rules` the default rules. Those are constants, so the
//! code of all other rules disappears.

use core::ops::Deref;

use super::Tuning;
use super::presets::PAGESET;

/// A build for a kernel that is to be small: second ways that are only faster are left out.
pub(crate) const SMALL: bool = cfg!(not(feature = "rules"));

/// Whether calls that free many blocks treat those of one kind together.
pub(crate) const BULK: bool = cfg!(feature = "bulk");

// The stores of a small build do not ask whether the zone has them.
const _: () = assert!(!SMALL || PAGESET.backing.depot() && PAGESET.backing.bitmaps());

/// The rules of one allocator.
#[cfg(feature = "rules")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Active(Tuning);

#[cfg(feature = "rules")]
impl Active {
    pub(crate) const fn new(tuning: Tuning) -> Self {
        Active(tuning)
    }
}

#[cfg(feature = "rules")]
impl Deref for Active {
    type Target = Tuning;

    #[inline(always)]
    fn deref(&self) -> &Tuning {
        &self.0
    }
}

/// The default rules.
#[cfg(not(feature = "rules"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Active;

#[cfg(not(feature = "rules"))]
impl Active {
    /// `Config::check` has refused other rules.
    pub(crate) const fn new(_tuning: Tuning) -> Self {
        Active
    }
}

#[cfg(not(feature = "rules"))]
impl Deref for Active {
    type Target = Tuning;

    #[inline(always)]
    fn deref(&self) -> &Tuning {
        const { &PAGESET }
    }
}
