//! `pageset` behind the traits of other crates.
//!
//! | module | feature | contents |
//! | --- | --- | --- |
//! | [`x86_64`] | `x86_64` | `FrameAllocator` and `FrameDeallocator` of the crate `x86_64` |
//! | [`global`] | `global` | a global allocator: size classes over a [`pageset_host::PagePool`] |
//!
//! The adapter for OSTD, the framework of the Asterinas kernel, has a workspace of its own, `adapters/ostd`: it needs a nightly
//! toolchain and a target without an operating system.
//!
//! # Features
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `x86_64` | the module of that name; no `std` |
//! | `global` | the module of that name; needs `std` and 64-bit Linux |
#![no_std]
#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]

#[cfg(feature = "global")]
extern crate std;

#[cfg(feature = "global")]
pub mod global;
#[cfg(feature = "x86_64")]
pub mod x86_64;
