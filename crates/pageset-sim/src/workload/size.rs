//! The size of a workload that has one, such as the memory of a process: a number that a user may set.

use pageset::Order;

/// What the size counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizeUnit {
    /// GiB of memory that the workload fills before virtual time begins.
    Gib,
    /// The order of folios.
    Order,
}

/// The size of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// What the size counts.
    pub unit: SizeUnit,
    /// The size: the default, or what the user has set.
    pub value: u32,
    /// The least and the largest size.
    pub allowed: (u32, u32),
}

impl Size {
    /// GiB of memory.
    pub(super) const fn gib(value: u32) -> Size {
        Size { unit: SizeUnit::Gib, value, allowed: (1, 4096) }
    }

    /// The order of folios: from that of 16 KiB with pages of 4 KiB to that of a huge page. Order 1 has no folios of anonymous
    /// memory.
    pub(super) const fn order(value: u32) -> Size {
        Size { unit: SizeUnit::Order, value, allowed: (2, Order::PAGEBLOCK.get() as u32) }
    }

    /// The size with its unit, for people.
    pub fn named(self) -> String {
        match self.unit {
            SizeUnit::Gib => format!("{} GiB", self.value),
            SizeUnit::Order => format!("order {}", self.value),
        }
    }

    /// The same with another value.
    ///
    /// # Errors
    /// The value and the allowed ones.
    pub(super) fn with(self, value: u32) -> Result<Size, String> {
        let (least, most) = self.allowed;
        let unit = match self.unit {
            SizeUnit::Gib => "GiB",
            SizeUnit::Order => "the order of folios",
        };
        let allowed = (least..=most).contains(&value);
        allowed.then_some(Size { value, ..self }).ok_or_else(|| format!("{value}; allowed: {least} to {most}, {unit}"))
    }

    /// GiB that the workload fills; `None` for another unit.
    pub fn filled_gib(self) -> Option<u32> {
        (self.unit == SizeUnit::Gib).then_some(self.value)
    }
}
