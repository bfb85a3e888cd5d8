//! Profiles as text: `perf report`, `perf top`, `perf script`, `perf lock contention`, stacks of bpftrace and bcc, folded stacks,
//! `/proc/lock_stat`, and the stack of a soft lock-up in a kernel's log.

use std::collections::HashSet;

use crate::locks;

/// A stack, the innermost function first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stack {
    pub(crate) frames: Vec<String>,
    /// Samples, waits, or per cent; within one text the unit is the same.
    pub(crate) weight: f64,
    /// The row of `Profile::flat` above the graph with this stack. Below rows of callers `perf report` repeats it.
    pub(crate) row: Option<usize>,
}

/// A function that waited for a lock of `/proc/lock_stat`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Caller {
    pub(crate) lock: String,
    pub(crate) function: String,
    /// How often it waited.
    pub(crate) count: f64,
}

/// What the texts say about where time goes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profile {
    pub(crate) stacks: Vec<Stack>,
    /// Functions without callers, and their share of the time in per cent.
    pub(crate) flat: Vec<(String, f64)>,
    /// Screens of `perf top`, or events of `perf report`: the shares of each are of all its samples.
    pub(crate) screens: u32,
    /// Weights of stacks are per cent of all samples.
    pub(crate) is_per_cent: bool,
    /// The profile has addresses in place of the kernel's functions.
    pub(crate) is_unresolved: bool,
    /// A call graph lacks its indentation, or has broken lines: it does not show which function calls which.
    pub(crate) is_broken: bool,
    /// Functions that waited for the locks of `/proc/lock_stat`.
    pub(crate) callers: Vec<Caller>,
    /// A call trace that belongs to no sample, the innermost function first.
    pub(crate) trace: Vec<String>,
    /// Lines of call traces that may be left from earlier (`? symbol`).
    pub(crate) unsure: Vec<String>,
    /// Waits by lock, from `/proc/lock_stat` and `perf lock`: the caller or the lock's name, and the weight.
    pub(crate) waits: Vec<(String, f64)>,
}

/// A node of a call graph.
#[derive(Clone, Debug)]
struct Node {
    column: usize,
    symbol: String,
    /// As printed; `None` if the node has its parent's.
    per_cent: Option<f64>,
    has_children: bool,
}

/// The form of the stack that is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Open {
    #[default]
    None,
    /// The call graph below a row of `perf report`.
    Graph,
    /// A stack of `perf script`, of bcc, or of a log.
    Plain,
    /// Between `@[` and `]: N`.
    Map,
    /// After `RIP:` in a log.
    Log,
}

#[derive(Debug, Default)]
pub(crate) struct Reader {
    profile: Profile,
    open: Open,
    frames: Vec<String>,
    /// The row of `perf report` above the graph: its function, which is empty if the text lacks it, and its share with that of the
    /// functions that it calls.
    row: (String, f64),
    /// Stacks of waits in the graphs below the row of the function that waits. Other rows have the same stacks again.
    own: Vec<Stack>,
    nodes: Vec<Node>,
    /// The column of the graph's first function.
    left: Option<usize>,
    /// Per cent of children are relative to their parent's.
    is_relative: bool,
    /// Rows with nothing but a share and a function were read.
    has_bare_rows: bool,
    /// A heading was read since the last row: the next row begins a screen of `perf top` or another event.
    is_new_screen: bool,
    /// The locks of `Profile::callers`, each with the place in the function as printed.
    places: HashSet<(String, String)>,
}

/// More than a profile of a large machine has.
const MAX_STACKS: usize = 1_000_000;
/// Rows of locks, and rows of their callers: `/proc/lock_stat` has some thousands of locks.
const MAX_LOCKS: usize = 10_000;
/// The kernel records at most 127 frames.
const MAX_FRAMES: usize = 512;

impl Reader {
    /// Takes a line, and returns whether it belongs to a profile.
    pub(crate) fn line(&mut self, text: &str) -> bool {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            if self.open != Open::Graph && self.open != Open::Map {
                self.close(1.0);
            }
            return false;
        }
        if let Some((symbol, share)) = bare_row(trimmed).filter(|_| self.has_bare_rows || self.profile.flat.is_empty())
        {
            (self.has_bare_rows, self.profile.screens) = (true, 1);
            self.profile.flat.push((symbol, share));
            return true;
        }
        if let Some((symbol, own, all)) = row(trimmed) {
            self.close(1.0);
            if std::mem::take(&mut self.is_new_screen) || self.profile.screens == 0 {
                self.profile.screens += 1;
            }
            // Stacks that perf could not walk begin at the address 0.
            let is_zero = symbol.bytes().all(|b| b == b'0');
            self.profile.is_unresolved |= trimmed.contains("[k]") && is_address(&symbol) && !is_zero;
            self.profile.flat.push((symbol.clone(), own));
            self.open_graph(symbol, all);
            return true;
        }
        if self.open != Open::Graph && self.open != Open::Map && is_graph(trimmed) {
            self.close(1.0);
            self.open_graph(String::new(), 100.0);
        }
        if let Some((symbol, weight)) = contention(trimmed).or_else(|| lock_stat(trimmed)) {
            if self.profile.waits.len() < MAX_LOCKS {
                self.profile.waits.push((symbol, weight));
            }
            return true;
        }
        if let Some((caller, place)) = lock_stat_caller(trimmed) {
            // The same lines follow for the functions that had the lock.
            if self.places.len() < MAX_LOCKS && self.places.insert((caller.lock.clone(), place)) {
                self.profile.callers.push(caller);
            }
            return true;
        }
        if trimmed.starts_with("PerfTop:") || trimmed.trim_start_matches(['#', ' ']).starts_with("Samples:") {
            self.close(1.0);
            self.is_new_screen = true;
            return true;
        }
        if let Some((frames, weight)) = test_robot(trimmed) {
            self.push(frames, weight);
            return true;
        }
        if let Some((frames, weight)) = folded(trimmed) {
            self.profile.is_per_cent |= trimmed.contains("% ");
            self.push(frames, weight);
            return true;
        }
        if trimmed.starts_with('@') && trimmed.contains('[') {
            self.close(1.0);
            // `@[a, b]: 1` on one line is not a stack.
            self.open = if trimmed.contains("]:") { Open::None } else { Open::Map };
            return true;
        }
        match self.open {
            Open::Graph => self.graph_line(text),
            Open::Map => match trimmed.rsplit_once("]:") {
                Some((_, count)) => {
                    let count: f64 = count.trim().parse().unwrap_or(1.0);
                    self.close(count);
                    true
                }
                None => alone(trimmed).is_some_and(|frame| self.frame(frame)),
            },
            Open::None | Open::Plain | Open::Log => self.plain_line(trimmed),
        }
    }

    fn open_graph(&mut self, symbol: String, all: f64) {
        (self.open, self.row, self.is_relative, self.left) = (Open::Graph, (symbol, all), false, None);
        self.profile.is_per_cent = true;
    }

    fn plain_line(&mut self, text: &str) -> bool {
        if is_executed(text) {
            self.close(1.0);
            let spins = text
                .split_ascii_whitespace()
                .filter_map(|word| frame(word.rsplit([':', '(']).next()?))
                .find(|f| locks::spins(f));
            if let Some(spins) = spins {
                self.open = Open::Log;
                self.frame(spins);
            }
            return spins.is_some();
        }
        if self.open == Open::Log {
            // Between the registers and `Call Trace:` are other lines.
            if let Some(frame) = log_frame(text) {
                return self.frame(frame);
            }
            if ["Mem-Info", "</TASK>", "EOE", "INFO: task"].iter().any(|end| text.contains(end)) {
                self.close(1.0);
            }
            return text.starts_with('?');
        }
        // `comm 123 [001] 12.5: 250000 cycles:` begins a sample of `perf script`.
        if text.ends_with(':')
            && text.contains(": ")
            && text.split_ascii_whitespace().any(|w| w.trim_end_matches(':').contains('.'))
        {
            self.close(1.0);
            self.open = Open::Plain;
            return true;
        }
        // `ffffffff9e1d0a4b symbol+0x16b ([kernel.kallsyms])`.
        let mut words = text.split_ascii_whitespace();
        if let (Some(address), Some(symbol)) = (words.next(), words.next())
            && address.len() >= 6
            && address.bytes().all(|b| b.is_ascii_hexdigit())
            // `4020152 K total memory`.
            && symbol.len() > 1
            && let Some(frame) = frame(symbol)
        {
            self.open = Open::Plain;
            return self.frame(frame);
        }
        // crash: `#1 [ffff9e1d0a4bc8] rmqueue_bulk at ffffffff9e1d0a4b`; gdb: `#1  0xffffffff9e1d0a4b in rmqueue_bulk (zone=…) at …`.
        if let Some((_, rest)) =
            text.strip_prefix('#').and_then(|rest| rest.split_once("] ").or(rest.split_once(" in ")))
            && let Some(frame) = rest.split_once(" at ").and_then(|(name, _)| alone(name))
        {
            self.open = Open::Plain;
            return self.frame(frame);
        }
        if self.open == Open::Plain && is_place(text) {
            return true;
        }
        // bcc: a function on each line, then the count.
        if self.open == Open::Plain
            && let Ok(count) = text.parse::<f64>()
        {
            self.close(count);
            return true;
        }
        // A call trace whose innermost function waits is that of a CPU or a task that waits.
        if let Some(frame) =
            log_frame(text).filter(|frame| text.contains("/0x") && (locks::spins(frame) || locks::sleeps(frame)))
        {
            self.close(1.0);
            self.open = Open::Log;
            return self.frame(frame);
        }
        match alone(text).filter(|frame| self.open == Open::Plain || text.contains("+0x") || locks::is_known(frame)) {
            // `symbol+0x16b/0x200` without `RIP:` is the call trace of a failure, not a sample.
            Some(frame) if text.contains("/0x") => self.trace(frame),
            Some(frame) => {
                self.open = Open::Plain;
                self.frame(frame)
            }
            // Frames of a failure's call trace, also `? symbol+0x1/0x2`.
            None => {
                let is_frame = text.contains("+0x") && text.contains("/0x");
                if let Some(frame) = text.split_once("? ").and_then(|(_, frame_of)| frame(frame_of))
                    && is_frame
                    && self.profile.unsure.len() < MAX_FRAMES
                {
                    self.profile.unsure.push(frame.to_owned());
                }
                is_frame && log_frame(text).is_none_or(|frame| self.trace(frame))
            }
        }
    }

    fn frame(&mut self, frame: &str) -> bool {
        if self.frames.len() < MAX_FRAMES {
            self.frames.push(frame.to_owned());
        }
        true
    }

    /// A frame of a call trace that belongs to no sample.
    fn trace(&mut self, frame: &str) -> bool {
        if self.profile.trace.len() < MAX_FRAMES {
            self.profile.trace.push(frame.to_owned());
        }
        true
    }

    fn push(&mut self, frames: Vec<String>, weight: f64) {
        self.push_of(None, frames, weight);
    }

    fn push_of(&mut self, row: Option<usize>, frames: Vec<String>, weight: f64) {
        let weight = if weight.is_finite() && weight > 0.0 { weight } else { 0.0 };
        if !frames.is_empty() && self.profile.stacks.len() < MAX_STACKS {
            self.profile.stacks.push(Stack { frames, weight, row });
        }
    }

    /// Notes that the last line was in parts: the columns of a call graph are lost.
    pub(crate) fn breaks(&mut self) {
        self.profile.is_broken |= self.open == Open::Graph && !self.nodes.is_empty();
    }

    /// Ends the open stack or graph.
    fn close(&mut self, weight: f64) {
        self.pop_to(0);
        let frames = std::mem::take(&mut self.frames);
        let is_sample = self.open == Open::Map || frames.len() > 1;
        if is_sample {
            self.push(frames, weight);
        }
        self.open = Open::None;
    }

    /// A line of a call graph: lines, an optional share, and a function.
    fn graph_line(&mut self, text: &str) -> bool {
        let is_line = |c: char| matches!(c, ' ' | '\t' | '|' | '-' | '+' | '`' | '│' | '─' | '├' | '└');
        let rest = text.trim_start_matches(is_line);
        if rest.is_empty() {
            return true;
        }
        // A tab goes on to the next of its places.
        let after = |column: usize, c: char| if c == '\t' { column / 8 * 8 + 8 } else { column + 1 };
        let column_of = |part: &str| text[..text.len() - part.len()].chars().fold(0, after);
        let (per_cent, symbol) = match rest.split_once('%') {
            Some((share, symbol)) if share.len() <= 6 && number(share).is_some() => {
                (number(share), symbol.trim_start_matches(is_line))
            }
            _ => (None, rest),
        };
        let word = symbol.split_ascii_whitespace().next().unwrap_or("");
        self.profile.is_unresolved |= word.starts_with("0xffff");
        if is_address(word) {
            return true;
        }
        let Some(name) = alone(symbol) else {
            self.close(1.0);
            return self.plain_line(text.trim());
        };
        let name = name.to_owned();
        let column = if per_cent.is_some() { column_of(rest) } else { column_of(symbol) };
        // Graphs are indented. One word of another text is not.
        if !text.starts_with(|c: char| c.is_whitespace() || c == '|') {
            if per_cent.is_none() && !name.contains('_') {
                self.close(1.0);
                return false;
            }
            self.profile.is_broken = true;
        }
        // A graph has no function to the left of its first one.
        self.profile.is_broken |= self.left.is_some_and(|left| column + 1 < left);
        self.left.get_or_insert(column);
        let keep =
            self.nodes.iter().take_while(|node| node.column < column || per_cent.is_none() && node.column == column);
        self.pop_to(keep.count());
        // A child cannot have more than its row, unless its share is of its parent.
        let is_first = self.nodes.iter().all(|node| node.per_cent.is_none());
        if is_first && per_cent.is_some_and(|share| share > self.row.1 + 0.5) {
            self.is_relative = true;
        }
        if let Some(parent) = self.nodes.last_mut() {
            parent.has_children = true;
        }
        if self.nodes.len() < MAX_FRAMES {
            self.nodes.push(Node { column, symbol: name, per_cent, has_children: false });
        }
        true
    }

    /// Removes the nodes from this depth on. A node without children ends a stack.
    fn pop_to(&mut self, depth: usize) {
        if self.nodes.len() <= depth {
            return;
        }
        if self.nodes.last().is_some_and(|leaf| !leaf.has_children) {
            let mut shares = self.nodes.iter().filter_map(|node| node.per_cent);
            let weight = match self.is_relative {
                true => shares.fold(self.row.1, |all, share| all * share / 100.0),
                false => shares.next_back().unwrap_or(self.row.1),
            };
            let mut frames: Vec<String> = self.nodes.iter().map(|node| node.symbol.clone()).collect();
            // Graphs go from the function to its callers, or from the outermost caller down.
            let ends_inside = frames.last().is_some_and(|last| locks::spins(last));
            if ends_inside || locks::is_outermost(&frames[0]) {
                frames.reverse();
            }
            if !self.row.0.is_empty() && !frames.contains(&self.row.0) {
                frames.insert(0, self.row.0.clone());
            }
            let row = self.profile.flat.len().checked_sub(1).filter(|_| !self.row.0.is_empty());
            match frames.first() == Some(&self.row.0) && locks::spins(&frames[0]) {
                true if self.own.len() < MAX_STACKS => self.own.push(Stack { frames, weight, row }),
                _ => self.push_of(row, frames, weight),
            }
        }
        self.nodes.truncate(depth);
    }

    pub(crate) fn finish(mut self) -> Profile {
        self.close(1.0);
        if !self.own.is_empty() {
            let waits = |stack: &Stack| stack.frames.first().is_some_and(|frame| locks::spins(frame));
            // perf shows the stacks of a wait again below each caller's row, if it counts callers (`Children`).
            self.profile.stacks.retain(|stack| !self.profile.is_per_cent || !waits(stack));
            self.profile.stacks.append(&mut self.own);
        }
        if self.profile.is_broken {
            self.profile.stacks.clear();
        }
        self.profile
    }
}

/// Whether a line of a log has the function that a CPU executes.
pub(crate) fn is_executed(text: &str) -> bool {
    ["pc :", "epc :", "NIP "].iter().any(|name| text.starts_with(name))
        || text.contains("RIP:")
        || text.contains("Krnl PSW")
}

/// A line of a call graph without the row above it: lines, a share and one function, with nothing after it.
fn is_graph(text: &str) -> bool {
    let is_line = |c: char| matches!(c, ' ' | '|' | '-' | '+');
    let Some((share, symbol)) = text.split_once('%').filter(|_| text.starts_with(['|', '-', '+'])) else {
        return false;
    };
    let share = share.trim_start_matches(is_line);
    let symbol = symbol.trim_start_matches(is_line);
    number(share).is_some()
        && share.contains(['.', ','])
        && frame(symbol).is_some_and(|name| name.len() == symbol.len())
}

/// An address in place of a function.
fn is_address(word: &str) -> bool {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    digits.len() >= 8 && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

/// A number with a decimal point, or with the comma of other languages.
fn number(text: &str) -> Option<f64> {
    let text = text.trim().replace(',', ".");
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.parse().ok().filter(|_| is_number)
}

/// `29.36%  29.36%  [kernel]  [k] native_queued_spin_lock_slowpath`: the function, its own share, and its share with that of the functions
/// that it calls. Names of programs have any characters.
fn row(text: &str) -> Option<(String, f64, f64)> {
    let (head, symbol) = text.split_once("[k] ").or_else(|| text.split_once("[.] "))?;
    let head = head.trim_start_matches(['-', '+', ' ', '|']);
    let mut shares = head.split_ascii_whitespace().map_while(|word| number(word.strip_suffix('%')?));
    let first = shares.next()?;
    let symbol = symbol.split_ascii_whitespace().next()?;
    Some((frame(symbol).unwrap_or(symbol).to_owned(), shares.next().unwrap_or(first), first))
}

/// `5.41%  native_queued_spin_lock_slowpath`, as people shorten the rows of perf: of functions that are known here.
fn bare_row(text: &str) -> Option<(String, f64)> {
    let (share, rest) = text.split_once('%').filter(|_| text.starts_with(|c: char| c.is_ascii_digit()))?;
    let (share, symbol) = (number(share)?, frame(rest.split_ascii_whitespace().next()?)?);
    let is_alone = rest.split_ascii_whitespace().nth(1).is_none_or(|next| next.starts_with(['(', '#']));
    let is_known = locks::is_known(symbol) || locks::work_of(symbol).is_some();
    (is_alone && is_known).then(|| (symbol.to_owned(), share))
}

/// A function: without address, offset, size, module and the compiler's suffix.
fn frame(text: &str) -> Option<&str> {
    let word = text.split_ascii_whitespace().next()?;
    // Older bcc prints `b'symbol'`.
    let word = word.strip_prefix("b'").map_or(word, |word| word.trim_end_matches('\''));
    let word = word.trim_end_matches([',', '(', ')']);
    let name = word.split('+').next()?;
    let name = name.strip_suffix("_[k]").unwrap_or(name);
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:$".contains(&b))
        && name.len() <= 200;
    let ends = [".isra", ".constprop", ".part", ".cold", ".llvm"];
    let end = ends.iter().filter_map(|end| name.find(end)).min().unwrap_or(name.len());
    (is_name && !is_place(name) && !name.ends_with(':')).then(|| &name[..end])
}

/// Whether a word is a line of the source: `page_alloc.c:3051`.
fn is_place(word: &str) -> bool {
    word.rsplit_once(':').is_some_and(|(file, line)| file.contains('.') && number(line).is_some())
}

/// The function of a line that has nothing else but where it is: `rmqueue+0x1ab (inlined)`.
fn alone(text: &str) -> Option<&str> {
    let mut words = text.split_ascii_whitespace();
    let name = frame(words.next()?);
    name.filter(|_| words.next().is_none_or(|word| word.starts_with(['(', '[', '<']) || word == "inlined"))
}

/// `[<ffffffff81124c57>] rmqueue_bulk+0xec/0x140` or `rmqueue_bulk+0xec/0x140`; not `? rmqueue_bulk+…`, which may be left from earlier.
fn log_frame(text: &str) -> Option<&str> {
    let text = match text.strip_prefix("[<") {
        Some(rest) => rest.split_once(">]")?.1.trim_start().trim_start_matches('('),
        None => text,
    };
    text.contains("+0x").then(|| frame(text)).flatten()
}

/// `a;b;c 12`, or `3.57% a;b;c` of `perf report -g folded`: the innermost function is the last.
fn folded(text: &str) -> Option<(Vec<String>, f64)> {
    let (stack, count) = match text.split_once("% ") {
        Some((count, stack)) => (stack, number(count)?),
        None => text.rsplit_once(' ').and_then(|(stack, count)| Some((stack, count.parse::<f64>().ok()?)))?,
    };
    // The process comes first and has any name; `[unknown]` and `[libc.so]` stand for functions without a name.
    let (_, functions) = stack.split_once(';')?;
    let is_nameless = |part: &str| part.starts_with('[') && part.ends_with(']');
    let of = |part: &str| Some(if is_nameless(part) { part } else { frame(part)? }.to_owned());
    let mut frames: Vec<String> = functions.split(';').rev().map(of).collect::<Option<_>>()?;
    frames.extend(stack.split(';').next().and_then(frame).map(str::to_owned));
    // `-g callee` prints the innermost function first.
    if frames.last().is_some_and(|last| locks::spins(last)) {
        frames.reverse();
    }
    (frames.len() > 1 && frames.iter().any(|frame| !is_nameless(frame))).then_some((frames, count))
}

/// A row of the kernel test robot: `60.12 -8.3 51.80 ± 2% perf-profile.calltrace.cycles-pp.a.b.c`, the innermost function first. The
/// weight is the share in per cent of the last column, which is of the newest kernel.
fn test_robot(text: &str) -> Option<(Vec<String>, f64)> {
    let (numbers, path) = text.split_once("perf-profile.calltrace.")?;
    let (_, path) = path.split_once('.')?;
    let mut shares =
        numbers.split_ascii_whitespace().filter(|word| !word.starts_with(['+', '-', '±']) && !word.ends_with('%'));
    let frames: Option<Vec<String>> = path.split('.').map(|part| Some(frame(part)?.to_owned())).collect();
    Some((frames?, number(shares.next_back()?)?))
}

/// A row of `perf lock contention`: `2345 1.20 s 3.1 ms 512 us spinlock rmqueue_bulk+0x3a`. The weight is the total wait in ns.
fn contention(text: &str) -> Option<(String, f64)> {
    let words: Vec<&str> = text.split_ascii_whitespace().take(32).collect();
    let kinds = ["spinlock", "rwlock", "mutex", "rwsem", "percpu-rwsem", "rt-mutex"];
    let kind = words.iter().position(|word| kinds.contains(&word.split(':').next().unwrap_or("")))?;
    let caller = words.get(kind + 1)?;
    let count = words.first()?.replace(',', "");
    count.parse::<u64>().ok()?;
    let unit = match *words.get(2)? {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        _ => return None,
    };
    Some((frame(caller)?.to_owned(), number(words[1])? * unit))
}

/// A row of `/proc/lock_stat`: `&zone->lock: 12 34 …`. The weight is the number of contentions.
fn lock_stat(text: &str) -> Option<(String, f64)> {
    let (name, numbers) = text.split_once(": ")?;
    let mut numbers = numbers.split_ascii_whitespace().map(number);
    let (_, contentions) = (numbers.next()??, numbers.next()??);
    let is_lock = name.contains("lock") && numbers.count() >= 6 && !name.contains(' ');
    is_lock.then(|| (name.to_owned(), contentions))
}

/// A row below that of a lock, `&zone->lock 61903 [<00000000b47dc96a>] free_one_page+0x3f/0x530`, and its place.
fn lock_stat_caller(text: &str) -> Option<(Caller, String)> {
    let (head, place) = text.split_once(" [<")?;
    let (lock, count) = head.trim().rsplit_once(' ')?;
    let function = place.split_once(">]").and_then(|(_, function)| frame(function.trim()))?.to_owned();
    let is_row = lock.contains("lock") && place.contains("+0x");
    let caller = Caller { lock: lock.trim().to_owned(), function, count: count.parse().ok()? };
    is_row.then(|| (caller, place.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Profile {
        let mut reader = Reader::default();
        text.lines().for_each(|line| _ = reader.line(line));
        reader.finish()
    }

    #[test]
    fn graphs_of_both_directions() {
        let callee = "    29.00%    29.00%  [kernel]  [k] native_queued_spin_lock_slowpath\n            |          \n\
                      \x20           ---native_queued_spin_lock_slowpath\n               |          \n\
                      \x20              |--20.00%--_raw_spin_lock\n               |          rmqueue_bulk\n\
                      \x20              |          get_page_from_freelist\n               |          \n\
                      \x20               --9.00%--_raw_spin_lock_irqsave\n                         pagevec_lru_move_fn\n";
        let stacks = read(callee).stacks;
        assert_eq!(stacks.len(), 2, "{stacks:#?}");
        assert_eq!(stacks[0].weight, 20.0);
        assert_eq!(stacks[0].frames[..3], ["native_queued_spin_lock_slowpath", "_raw_spin_lock", "rmqueue_bulk"]);
        assert_eq!(stacks[1].frames.last().unwrap(), "pagevec_lru_move_fn");
        let caller = "     0.92%  proxy  [kernel.kallsyms]  [k] native_queued_spin_lock_slowpath\n            |          \n\
                      \x20            --0.86%--entry_SYSCALL_64_after_hwframe\n                       do_syscall_64\n\
                      \x20                      free_pcppages_bulk\n                       _raw_spin_lock\n";
        let stacks = read(caller).stacks;
        assert_eq!(stacks.len(), 1, "{stacks:#?}");
        assert_eq!(stacks[0].frames[..3], ["native_queued_spin_lock_slowpath", "_raw_spin_lock", "free_pcppages_bulk"]);
    }

    #[test]
    fn relative_shares() {
        let text = "-   29.00%    29.00%  [kernel]    [k] native_queued_spin_lock_slowpath  \n   - native_queued_spin_lock_slowpath\n\
                    \x20     - 71.00% _raw_spin_lock_irq\n         - shrink_inactive_list\n      - 29.00% _raw_spin_lock\n         + rmqueue_bulk\n";
        let stacks = read(text).stacks;
        assert_eq!(stacks.iter().map(|s| s.weight.round()).collect::<Vec<_>>(), [21.0, 8.0]);
        assert_eq!(stacks[1].frames.last().unwrap(), "rmqueue_bulk");
    }

    #[test]
    fn stacks_of_other_tools() {
        let script = "cc1 12 [001] 9.5:     250000 cycles:ppp: \n\tffffffff9e1d0a4b native_queued_spin_lock_slowpath+0x16b ([kernel.kallsyms])\n\
                      \tffffffff9e1d0a4c rmqueue_bulk.isra.0+0x1 ([kernel.kallsyms])\n\n";
        let expected = ["native_queued_spin_lock_slowpath", "rmqueue_bulk"];
        assert_eq!(read(script).stacks[0].frames, expected);
        let map = "@[\n    native_queued_spin_lock_slowpath+355\n    rmqueue_bulk+1\n]: 42\n";
        assert_eq!(read(map).stacks, [Stack { frames: expected.map(str::to_owned).to_vec(), weight: 42.0, row: None }]);
        let folded = "main;rmqueue_bulk;native_queued_spin_lock_slowpath 7";
        assert_eq!(read(folded).stacks[0].frames[..2], expected);
        let bcc = "  native_queued_spin_lock_slowpath\n  rmqueue_bulk\n    3\n";
        assert_eq!(read(bcc).stacks, [Stack { frames: expected.map(str::to_owned).to_vec(), weight: 3.0, row: None }]);
        let log = "RIP: 0010:native_queued_spin_lock_slowpath+0x62/0x200\nRSP: 0018:ff\nCall Trace:\n ? old+0x1/0x2\n rmqueue_bulk+0x1/0x2\n";
        assert_eq!(read(log).stacks[0].frames, expected);
        let contention = "      2,345    1.20 s     3.10 ms    512.00 us     spinlock   rmqueue_bulk+0x3a";
        assert_eq!(read(contention).waits, [("rmqueue_bulk".to_owned(), 1.2e9)]);
        let stat = "  &zone->lock:  12  34  0.1 5.0 6.0 7.0 8 9 10 11 12";
        assert_eq!(read(stat).waits, [("&zone->lock".to_owned(), 34.0)]);
    }

    /// A row that is there twice counts once, and a text cannot make the reader keep more than a machine has.
    #[test]
    fn rows_of_lock_stat_are_bounded() {
        let mut text = String::new();
        for at in 0..MAX_LOCKS + 9 {
            text += &format!("l{at}lock: 1 2 0.1 5.0 6.0 7.0 8 9 10 11 12\n");
            text += &format!("&zone->lock 7 [<{at}>] f+0x1/0x2\n&zone->lock 8 [<{at}>] f+0x1/0x2\n");
        }
        let found = read(&text);
        assert_eq!((found.waits.len(), found.callers.len()), (MAX_LOCKS, MAX_LOCKS));
        assert!(found.callers.iter().all(|caller| caller.count == 7.0));
    }
}
