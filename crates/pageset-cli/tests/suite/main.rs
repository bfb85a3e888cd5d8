//! The command `pageset`, as a user runs it, in one program: one file per subject.

#[path = "../support/made_up.rs"]
mod made_up;
#[path = "../support/mod.rs"]
mod support;

mod advise;
mod columns;
mod dependencies;
mod diff;
mod docs;
mod exit_codes;
mod explain;
mod first_minute;
mod fleet;
mod formats;
mod identify;
mod imports;
mod links;
mod playback;
mod record;
mod replay;
mod report;
mod rules;
mod schemas;
mod terminal;
mod timeline;
mod top;
mod trace;
mod verdicts;

/// The command.
const PROGRAM: &str = env!("CARGO_BIN_EXE_pageset");
