//! Probes of our own at the function that allocates in bulk, for which the kernel has no tracepoint.
//!
//! A recording does without them where the kernel has no probes; a replay then infers the bulk allocations.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use super::decode::{BULK_BEGIN, BULK_END};
use super::owner::Owner;
use super::tracefs::Tracefs;

/// The function that allocates in bulk: its name since Linux 6.10, and from 5.13 on. Its first, second and fourth
/// arguments are the flags, the preferred node and the number of pages in all of them.
const FUNCTIONS: [&str; 2] = ["alloc_pages_bulk_noprof", "__alloc_pages_bulk"];

/// What the groups of our probes are called: this and the owner.
const PREFIX: &str = "pageset_";

/// Calls that may be under way at once, each a process that waits for memory. More are not recorded. A guess.
const CALLS_AT_ONCE: u32 = 512;

/// What a recording lacks without probes.
pub(super) const WITHOUT: &str = "bulk allocations are not recorded, a replay infers them from later events";

/// The probes at the function, removed when dropped. The instances in which they are enabled must be gone by then.
#[derive(Debug)]
pub(super) struct Probes {
    file: PathBuf,
    group: String,
    function: &'static str,
}

impl Probes {
    /// Sets the probes. Nothing, after a word to `warn`, where the kernel does not let us.
    pub(super) fn create(tracefs: &Tracefs, warn: &mut dyn FnMut(&str)) -> Option<Probes> {
        let file = kprobe_events(tracefs);
        if !file.exists() {
            warn(&format!("the kernel has no probes (CONFIG_KPROBE_EVENTS): {WITHOUT}"));
            return None;
        }
        let Some(function) = known_function() else {
            warn(&format!("the kernel has neither {} nor {}: {WITHOUT}", FUNCTIONS[0], FUNCTIONS[1]));
            return None;
        };
        let probes = Probes { file, group: format!("{PREFIX}{}", Owner::this().name('_')), function };
        // Removes what was set when the second one fails.
        let set = definitions(&probes.group, function).iter().try_for_each(|line| append(&probes.file, line));
        match set {
            Ok(()) => Some(probes),
            Err(error) => {
                warn(&format!("{function} cannot be probed ({error}): {WITHOUT}"));
                None
            }
        }
    }

    /// The folder of the two events below `events`.
    pub(super) fn group(&self) -> &str {
        &self.group
    }

    /// What [`Facts::sources`](crate::Facts::sources) calls them.
    pub(super) fn source(&self) -> String {
        format!("kprobe:{}", self.function)
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        // Nobody to tell: the next command finds what could not be removed.
        let _ = remove(&self.file, &self.group);
    }
}

/// Groups of probes whose owner is no more.
pub(super) fn stale(tracefs: &Tracefs) -> Vec<String> {
    let listed = fs::read_to_string(kprobe_events(tracefs)).unwrap_or_default();
    let mut groups: Vec<String> = groups(&listed).map(str::to_owned).collect();
    groups.dedup();
    groups.retain(|group| {
        let owner = group.strip_prefix(PREFIX).and_then(|name| Owner::parse(name, '_'));
        owner.is_some_and(|(owner, _)| !owner.is_alive())
    });
    groups
}

/// Removes the probes of a group that [`stale`] found.
pub(super) fn remove_stale(tracefs: &Tracefs, group: &str) -> io::Result<()> {
    remove(&kprobe_events(tracefs), group)
}

fn kprobe_events(tracefs: &Tracefs) -> PathBuf {
    tracefs.path("kprobe_events")
}

/// The probes' definitions, in the words of `kprobe_events`.
fn definitions(group: &str, function: &str) -> [String; 2] {
    [
        format!("p:{group}/{BULK_BEGIN} {function} gfp=$arg1:x32 node=$arg2:s32 asked=$arg4:u32"),
        format!("r{CALLS_AT_ONCE}:{group}/{BULK_END} {function} got=$retval:u32"),
    ]
}

fn remove(file: &Path, group: &str) -> io::Result<()> {
    // Both are tried: one of them may never have been set.
    let results = [BULK_BEGIN, BULK_END].map(|event| append(file, &format!("-:{group}/{event}")));
    let listed = fs::read_to_string(file).unwrap_or_default();
    if groups(&listed).any(|left| left == group) { results.into_iter().collect() } else { Ok(()) }
}

/// Adds a line to `kprobe_events`. Any other way of opening it removes the probes of everybody.
fn append(file: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new().append(true).open(file)?.write_all(format!("{line}\n").as_bytes())
}

/// Our groups in the text of `kprobe_events`: `p:GROUP/EVENT FUNCTION ARGS`, `r512:GROUP/EVENT …`.
fn groups(listed: &str) -> impl Iterator<Item = &str> {
    listed.lines().filter_map(|line| {
        let (_, name) = line.split_once(':')?;
        let (group, _) = name.split_once('/')?;
        group.starts_with(PREFIX).then_some(group)
    })
}

/// The first of [`FUNCTIONS`] that the kernel has.
fn known_function() -> Option<&'static str> {
    let symbols = BufReader::new(fs::File::open("/proc/kallsyms").ok()?);
    let mut known = FUNCTIONS.map(|_| false);
    for line in symbols.lines().map_while(Result::ok) {
        let symbol = line.split_ascii_whitespace().nth(2).unwrap_or_default();
        if let Some(place) = FUNCTIONS.iter().position(|function| *function == symbol) {
            known[place] = true;
        }
    }
    FUNCTIONS.into_iter().zip(known).find_map(|(function, known)| known.then_some(function))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_groups_are_ours() {
        let listed = "p:kprobes/p_do_sys_open_0 do_sys_open\np:pageset_7_99/bulk_begin __alloc_pages_bulk gfp=$arg1:x32\n\
                      r512:pageset_7_99/bulk_end __alloc_pages_bulk got=$retval:u32\nr:pagesets/x y\nnonsense\n";
        assert_eq!(groups(listed).collect::<Vec<_>>(), ["pageset_7_99"; 2]);
        let group = format!("{PREFIX}{}", Owner::this().name('_'));
        let [begin, end] = definitions(&group, FUNCTIONS[0]);
        assert!(begin.starts_with("p:pageset_") && end.starts_with("r512:pageset_"), "{begin} {end}");
        // The kernel allows letters, digits and underscores, and 64 bytes.
        assert!(group.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && group.len() < 64);
    }

    #[test]
    fn removing_appends() {
        let file = std::env::temp_dir().join(format!("pageset-probes-{}", std::process::id()));
        fs::write(&file, "p:other/x y\n").unwrap();
        remove(&file, "pageset_1_2").unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text, "p:other/x y\n-:pageset_1_2/bulk_begin\n-:pageset_1_2/bulk_end\n");
        fs::remove_file(&file).unwrap();
    }
}
