//! All that is unsafe but for the handles' slices and the trait of allocator-api2: system calls on memory, the thread
//! pointer, slices over mapped memory. Everything above calls these safely.

pub(crate) mod cpu;
pub(crate) mod fork_detector;
pub(crate) mod mapped_allocator;
pub(crate) mod mapping;
pub(crate) mod numa;
pub(crate) mod rseq;
