//! One attempt of a request: which mark, which rights, and whether types may mix.
//!
//! Specification: `linux-page-allocator.md` 1.6 "No-fragment flag", 1.7.

use super::request::{Request, Wait};
use crate::buddy::Wanted;
use crate::machine::Machine;
use crate::sync::LockedWord;
use crate::zone::Zone;
use crate::zone::watermark::{Mark, Rights};

/// Whether a request may take a part of another type's pageblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mixing {
    /// As the zone decides, which is the preferred zone of the request.
    ZoneDefault,
    /// The request takes only whole pageblocks.
    Avoided,
    /// The request takes any block.
    Allowed,
}

/// One pass over the zones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attempt {
    pub(crate) mark: Mark,
    pub(crate) rights: Rights,
    pub(crate) mixing: Mixing,
}

impl Attempt {
    /// The first attempt, in the preferred zone.
    pub(crate) const FIRST: Attempt = Attempt { mark: Mark::Low, rights: Rights::NONE, mixing: Mixing::ZoneDefault };

    /// The attempt of the slow path.
    pub(crate) const fn slow(request: &Request) -> Attempt {
        Attempt { mark: Mark::Min, rights: request.rights(), mixing: Mixing::Allowed }
    }

    pub(crate) const fn with_mixing(self, mixing: Mixing) -> Attempt {
        Attempt { mixing, ..self }
    }

    /// The attempt's request to a zone's free lists.
    pub(crate) fn wanted<M: Machine>(self, zone: &Zone<'_, M>, request: &Request) -> Wanted {
        let no_fragment = match self.mixing {
            Mixing::ZoneDefault => zone.keeps_apart.get(),
            Mixing::Avoided => true,
            Mixing::Allowed => false,
        };
        let &Request { order, migratetype, cma, .. } = request;
        Wanted { order, migratetype, cma, no_fragment, wakes: request.wakes(), waits: request.wait != Wait::Nothing }
    }
}
