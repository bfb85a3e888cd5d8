//! The error of an invalid description.

/// An invalid description: file, line, key and fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{file}{}{}: {what}",
    .line.map(|line| format!(", line {line}")).unwrap_or_default(),
    .key.as_ref().map(|key| format!(", {key}")).unwrap_or_default()
)]
pub struct MachineError {
    file: String,
    line: Option<usize>,
    key: Option<String>,
    what: String,
}

impl MachineError {
    pub(super) fn of_toml(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let start = error.span().map(|span| span.start.min(text.len()));
        let line = start.and_then(|start| text.get(..start)).map(|before| before.matches('\n').count() + 1);
        let key = line.and_then(|line| key_of(text.lines().nth(line - 1)?));
        let what = error.message().lines().collect::<Vec<_>>().join(" ");
        MachineError { file: file.to_owned(), line, key, what }
    }

    /// A conflict of this key's value with other keys.
    pub(super) fn at_key(file: &str, text: &str, key: &str, what: String) -> Self {
        let line = text.lines().position(|line| key_of(line).is_some_and(|found| found == key)).map(|at| at + 1);
        MachineError { file: file.to_owned(), line, key: Some(key.to_owned()), what }
    }
}

/// The key that a line assigns, or the table that it opens.
fn key_of(line: &str) -> Option<String> {
    let code = line.split('#').next().unwrap_or_default().trim();
    let key = match code.split_once('=') {
        Some((key, _)) => key.trim(),
        None if code.starts_with('[') => code,
        None => return None,
    };
    (!key.is_empty()).then(|| key.to_owned())
}
