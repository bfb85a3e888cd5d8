//! The result as text: the answer, what it rests on, and what to do next.

use pageset_trace::number::grouped;

use crate::result::Explanation;

/// The width of a line where no other is known. Unit: characters.
pub(crate) const WIDTH: usize = 100;

/// Findings that are shown; JSON has all.
const SHOWN: usize = 24;

/// The result as text, in lines of `width` characters, such as a terminal's; `None` is 100. Parts of the inputs in it are not escaped.
pub fn text(explanation: &Explanation, width: Option<usize>) -> String {
    let wrapped = |paragraph: &str, first, next| wrapped(paragraph, first, next, width.unwrap_or(WIDTH));
    let mut text = wrapped(&explanation.answer, "", "");
    if !explanation.findings.is_empty() {
        text.push('\n');
    }
    for finding in explanation.findings.iter().take(SHOWN) {
        text += &wrapped(&format!("{} [{}]", finding.text, finding.name), "  ", "    ");
    }
    if explanation.findings.len() > SHOWN {
        text += &format!("  {} more findings: --json has them\n", explanation.findings.len() - SHOWN);
    }
    if !explanation.next.is_empty() {
        text += "\nnext:\n";
    }
    for step in &explanation.next {
        text += &wrapped(&step.what, "  ", "    ");
        if let Some(command) = &step.command {
            text += &format!("      $ {command}\n");
        }
    }
    if let Some(unknown) = &explanation.first_unknown {
        let (all, some) = (grouped(explanation.lines), grouped(explanation.lines_unknown));
        let place = if unknown.file == "-" {
            format!("line {}", unknown.line)
        } else {
            format!("{}:{}", unknown.file, unknown.line)
        };
        text += &format!("\n{some} of {all} lines were not understood; the first is {place}: `{}`\n", unknown.text);
    }
    text
}

/// A paragraph in lines of at most `width` characters. A longer word stays whole.
pub(crate) fn wrapped(paragraph: &str, first: &str, next: &str, width: usize) -> String {
    let (mut text, mut line) = (String::new(), first.to_owned());
    let mut is_begin = true;
    for word in paragraph.split_whitespace() {
        if !is_begin && line.chars().count() + 1 + word.chars().count() > width {
            text += &line;
            text.push('\n');
            line = next.to_owned();
            is_begin = true;
        }
        if !is_begin {
            line.push(' ');
        }
        line += word;
        is_begin = false;
    }
    text + &line + "\n"
}
