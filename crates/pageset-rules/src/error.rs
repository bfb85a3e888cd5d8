//! Why rules cannot be used.

use std::io;

/// Why rules cannot be used. Each message says what is allowed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// A rule file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// A change, a line of a rule file, or a set with its changes is not allowed.
    #[error("{place}: {what}")]
    Invalid {
        /// Where it stands and what is written there, or the set's name.
        place: String,
        /// What is wrong, and what is allowed.
        what: String,
    },
    /// No set has this name.
    #[error("there are no rules {name}{meant}; allowed: {allowed}, or a file whose name ends in .toml")]
    Unknown {
        /// The name.
        name: String,
        /// ` (did you mean NAME?)`, or nothing.
        meant: String,
        /// All names.
        allowed: String,
    },
    /// Two sets that differ have one name.
    #[error("two unlike sets of rules have the name {name}: {one} and {other}")]
    SameName {
        /// The name.
        name: String,
        /// Where one of them was read.
        one: String,
        /// Where the other was read.
        other: String,
    },
}

impl RulesError {
    pub(crate) fn invalid(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Invalid { place: place.into(), what: what.into() }
    }

    /// What the user can do about it, where the message does not say that.
    #[must_use]
    pub fn help(&self) -> Option<&'static str> {
        match self {
            Self::Unknown { .. } => Some("pageset replay --list-rules says what each is"),
            Self::SameName { .. } => Some("give one of them another `name`"),
            Self::Io { .. } | Self::Invalid { .. } => None,
        }
    }
}
