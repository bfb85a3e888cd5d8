//! What the list shows, and the order of its CPUs.

/// The sort key of the CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sort {
    Cpu,
    Count,
    Change,
    Refills,
    Waits,
}

impl Sort {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Sort::Cpu => "CPU",
            Sort::Count => "count",
            Sort::Change => "change",
            Sort::Refills => "refills",
            Sort::Waits => "waits",
        }
    }

    pub(super) const fn next(self) -> Sort {
        match self {
            Sort::Cpu => Sort::Count,
            Sort::Count => Sort::Change,
            Sort::Change => Sort::Refills,
            Sort::Refills => Sort::Waits,
            Sort::Waits => Sort::Cpu,
        }
    }
}

/// What the list shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum List {
    Cpus,
    Processes,
    CallSites,
}

impl List {
    pub(super) const fn name(self) -> &'static str {
        match self {
            List::Cpus => "CPUs",
            List::Processes => "processes",
            List::CallSites => "call sites",
        }
    }

    pub(super) const fn next(self) -> List {
        match self {
            List::Cpus => List::Processes,
            List::Processes => List::CallSites,
            List::CallSites => List::Cpus,
        }
    }
}
