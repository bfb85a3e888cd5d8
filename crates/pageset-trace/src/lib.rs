//! Recordings of a live kernel's page traffic: how they are made, read, kept and replayed.

pub mod event;

pub use event::{Context, Event, Kind};
