//! Errors in rules.

use std::io;

/// The reason why rules are invalid. Each message names the allowed values.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// A rule file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// A change, a line of a rule file, or a set with its changes is not allowed.
    #[error("{place}: {what}")]
    Invalid {
        /// The place and the text of the change or line, or the set's name.
        place: String,
        /// The fault, and the allowed values.
        what: String,
    },
    /// No set has this name.
    #[error("unknown rules `{name}`{meant}")]
    Unknown {
        /// The name.
        name: String,
        /// `; the closest are A, B, C`.
        meant: String,
    },
    /// Two different sets have the same name.
    #[error("two different sets of rules have the name {name}: {one} and {other}")]
    SameName {
        /// The name.
        name: String,
        /// The source of one set.
        one: String,
        /// The source of the other set.
        other: String,
    },
}

impl RulesError {
    pub(crate) fn invalid(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Invalid { place: place.into(), what: what.into() }
    }

    /// The remedy, if the message does not contain it.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            Self::Unknown { .. } => {
                Some("`pageset replay --list-rules` lists all; a file whose name ends in .toml has rules of your own")
            }
            Self::SameName { .. } => Some("give one of them another `name`"),
            Self::Io { .. } | Self::Invalid { .. } => None,
        }
    }
}
