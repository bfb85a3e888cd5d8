//! All that is unsafe but for the handles' slices and the trait of allocator-api2: system calls on memory, the thread
//! pointer, slices over mapped memory. Everything above calls these safely.

pub(crate) mod books;
pub(crate) mod cpu;
pub(crate) mod mapping;
pub(crate) mod numa;
pub(crate) mod sentinel;
pub(crate) mod sequence;
