//! The command `pageset-lab`, as a user runs it, in one program: one file per subject.

#[path = "../../../pageset-cli/tests/support/mod.rs"]
mod support;

mod bench;
mod diff;
mod exit_codes;
mod explain;
mod report;
mod simulate;
mod study;
mod terminal;
mod workloads;

/// The command.
const PROGRAM: &str = env!("CARGO_BIN_EXE_pageset-lab");
