//! The numbers of CPUs and nodes, and the kinds of zones.

use core::fmt;

/// The number of a possible CPU, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CpuId(pub u32);

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CPU {}", self.0)
    }
}

/// The number of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NodeId(pub u32);

/// The kinds of zones, lowest first. Specification 1.1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ZoneKind {
    /// For devices that reach 16 MiB.
    Dma,
    /// For devices that reach 4 GiB.
    Dma32,
    /// For everything.
    Normal,
    /// For movable pages.
    Movable,
}

impl ZoneKind {
    /// The number of kinds.
    pub const COUNT: usize = 4;
    /// All kinds, lowest first.
    pub const ALL: [ZoneKind; Self::COUNT] = [Self::Dma, Self::Dma32, Self::Normal, Self::Movable];

    /// The kind as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name that `/proc/zoneinfo` uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dma => "DMA",
            Self::Dma32 => "DMA32",
            Self::Normal => "Normal",
            Self::Movable => "Movable",
        }
    }
}

impl fmt::Display for ZoneKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
