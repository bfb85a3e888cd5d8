//! `pageset` without a subcommand: what works on this machine for this user, and the command for it.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pageset_record::RecordError;
use pageset_record::live::{Counters, Detail};
use pageset_trace::procfs::Zoneinfo;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Exit, Failure};
use crate::host::Host;
use crate::output::{self, JsonOption, is_standard};

pub(crate) const SCHEMA: &str = "pageset.status/1";

/// What works on this machine for this user.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Status {
    /// `pageset.status/1`.
    schema: String,
    /// The version of pageset, with the commit that it was built from if that is known.
    version: String,
    /// The running kernel, as in `uname -r`.
    release: Option<String>,
    /// The name of the kernel's rules.
    rules: String,
    /// Whether the release determines the rules. If not, the rules are a guess.
    known: bool,
    /// Whether the user is root.
    root: bool,
    /// A member for each thing that the command can do.
    abilities: Vec<Ability>,
}

/// Something that the command can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Ability {
    /// What it is.
    what: String,
    /// Whether it works on this machine for this user.
    #[schemars(extend("bad" = "false.", "todo" = "See the member help."))]
    works: bool,
    /// The command for it.
    command: String,
    /// How it works here, or why it does not; empty if there is nothing to add.
    note: String,
    /// How to make it work; null if it works, or if no way is known.
    help: Option<String>,
}

impl Ability {
    fn new(what: &str, command: impl Into<String>) -> Self {
        Ability { what: what.to_owned(), works: true, command: command.into(), note: String::new(), help: None }
    }

    fn note(self, note: impl Into<String>) -> Self {
        Ability { note: note.into(), ..self }
    }

    /// The command of an ability that needs root.
    fn run_by_root(self) -> Self {
        let sudo = if rustix::process::geteuid().is_root() { "" } else { "sudo " };
        Ability { command: format!("{sudo}{}", self.command), ..self }
    }

    fn fails(self, why: impl Into<String>, help: Option<String>) -> Self {
        Ability { works: false, note: why.into(), help, ..self }
    }

    /// What an attempt shows. `note` describes its success.
    fn tried<T>(self, tried: Result<T, RecordError>, note: impl FnOnce(T) -> String) -> Self {
        match tried {
            Ok(done) => self.note(note(done)),
            Err(error) => {
                let help = error.help().map(str::to_owned);
                self.fails(error.to_string(), help)
            }
        }
    }
}

/// Runs `pageset` without a subcommand.
pub(crate) fn run(json: &JsonOption) -> Result<Exit, Failure> {
    let status = Status::read();
    match &json.json {
        Some(path) if !is_standard(path) => {
            io::stdout().write_all(text(&status).as_bytes())?;
            let mut out = output::Output::create(path)?;
            output::json(&mut out, &status)?;
            out.commit()?;
        }
        Some(_) => output::json(io::stdout().lock(), &status)?,
        None => io::stdout().write_all(text(&status).as_bytes())?,
    }
    Ok(Exit::Done)
}

impl Status {
    /// Looks at this machine and at the current folder. Counts and mounts for a moment, and changes nothing.
    fn read() -> Status {
        let host = Host::read();
        let kernel = host.release.as_deref().unwrap_or("of unknown release");
        let rules = Ability::new("the rules of this kernel", "pageset explain RULE");
        let rules = match host.known {
            true => rules.note(format!("Linux {kernel} has the rules {}", host.rules.name)),
            false => rules.fails(
                format!(
                    "the kernel {kernel} is not known; from the form of /proc/zoneinfo it is taken for {}",
                    host.rules.name
                ),
                Some("record this machine and run `pageset replay FILE --identify`".to_owned()),
            ),
        };
        let abilities = vec![
            watch(),
            count(),
            Ability::new("record the page traffic", "pageset record -o my.pstrace -- COMMAND")
                .run_by_root()
                .tried(pageset_record::ready(), |()| "of a command, or of the machine until Ctrl-C".to_owned()),
            rules,
            latest_recording(),
            Ability::new("a tour on a shipped recording", "pageset demo").note("without root"),
            Ability::new("simulate another machine", "pageset-lab sim page_fault1 --machine vm-8").note("without root"),
        ];
        Status {
            schema: SCHEMA.to_owned(),
            version: pageset_report::program::VERSION.to_owned(),
            release: host.release,
            rules: host.rules.name.to_owned(),
            known: host.known,
            root: rustix::process::geteuid().is_root(),
            abilities,
        }
    }
}

fn watch() -> Ability {
    let watch = Ability::new("watch the pagesets", "pageset top");
    let parsed = match fs::read_to_string("/proc/zoneinfo") {
        Ok(text) => Zoneinfo::parse(&text).map(|_| ()).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match parsed {
        Ok(()) => watch.note("zones, watermarks, and what each CPU holds"),
        Err(why) => {
            let help = "mount /proc; in a container, use a /proc that shows zoneinfo";
            watch.fails(format!("cannot read /proc/zoneinfo: {why}"), Some(help.to_owned()))
        }
    }
}

fn count() -> Ability {
    let note = |_: Counters| "by BPF programs, with waits for zone locks".to_owned();
    Ability::new("count refills and drains", "pageset top")
        .run_by_root()
        .tried(Counters::start(Detail::Movers, 0), note)
}

/// The newest recording in the current folder.
fn latest_recording() -> Ability {
    match newest(Path::new("."), SystemTime::now()) {
        Some((name, age)) => {
            let command = format!("pageset advise {}", name.display());
            Ability::new("the last recording here", command).note(age)
        }
        None => Ability::new("the last recording here", "pageset replay FILE")
            .fails("this folder has no recording", Some("record one, or try `pageset demo`".to_owned())),
    }
}

/// The newest recording in a folder, by its name, and its age at `now`.
fn newest(folder: &Path, now: SystemTime) -> Option<(PathBuf, String)> {
    let endings = [".pstrace", ".events.zst", ".events", "perf.data"];
    let files = fs::read_dir(folder).ok()?.flatten();
    let recordings = files.filter(|file| {
        let name = file.file_name();
        let name = name.to_string_lossy();
        endings.iter().any(|ending| name.ends_with(ending))
    });
    let dated = recordings.filter_map(|file| Some((file.metadata().ok()?.modified().ok()?, file.file_name())));
    // Names decide between files of one time, so that the choice does not depend on the order of the folder.
    let (time, name) = dated.max()?;
    let seconds = now.duration_since(time).unwrap_or_default().as_secs();
    Some((PathBuf::from(name), age(seconds)))
}

/// A duration for people, in its largest unit.
fn age(seconds: u64) -> String {
    let (number, unit) = match seconds {
        0..120 => (seconds, "seconds"),
        120..7200 => (seconds / 60, "minutes"),
        7200..172_800 => (seconds / 3600, "hours"),
        _ => (seconds / 86_400, "days"),
    };
    format!("{number} {unit} old")
}

fn text(status: &Status) -> String {
    let kernel = status.release.as_deref().map_or(String::new(), |release| format!(" on Linux {release}"));
    let user = if status.root { ", as root" } else { "" };
    let mut text = format!("pageset {}{kernel}{user}\n\n", status.version);
    for ability in &status.abilities {
        let works = if ability.works { "yes" } else { "no " };
        let _ = writeln!(text, " {works}  {:<30} {}", ability.what, ability.command);
        if !ability.note.is_empty() {
            let _ = writeln!(text, "        {}", ability.note);
        }
        if let Some(help) = &ability.help {
            let _ = writeln!(text, "        try: {help}");
        }
    }
    text + "\n`pageset --help` lists all commands.\n"
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_newest_recording_of_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(newest(folder.path(), SystemTime::now()), None);
        let made = SystemTime::now();
        for (name, earlier) in [("a.pstrace", 600), ("b.events.zst", 300), ("b.snap.zst", 10), ("notes.txt", 0)] {
            let file = fs::File::create(folder.path().join(name)).unwrap();
            file.set_modified(made - Duration::from_secs(earlier)).unwrap();
        }
        let found = newest(folder.path(), made);
        assert_eq!(found, Some((PathBuf::from("b.events.zst"), "5 minutes old".to_owned())));
    }

    #[test]
    fn ages_have_their_largest_unit() {
        let texts = [0, 119, 120, 7199, 7200, 172_799, 172_800].map(age);
        let expected = ["0 seconds", "119 seconds", "2 minutes", "119 minutes", "2 hours", "47 hours", "2 days"]
            .map(|text| text.to_owned() + " old");
        assert_eq!(texts, expected);
    }

    #[test]
    fn what_does_not_work_has_its_remedy() {
        let error = RecordError::Missing { what: "no tracing".to_owned(), help: "sudo".to_owned() };
        let ability = Ability::new("record", "pageset record").tried(Err::<(), _>(error), |()| String::new());
        let status = Status {
            schema: SCHEMA.to_owned(),
            version: "1".to_owned(),
            release: Some("6.18.1".to_owned()),
            rules: "linux-6.18".to_owned(),
            known: true,
            root: false,
            abilities: vec![ability, Ability::new("demo", "pageset demo")],
        };
        let shown = text(&status);
        assert!(shown.starts_with("pageset 1 on Linux 6.18.1\n"), "{shown}");
        assert!(
            shown.contains(
                " no   record                         pageset record\n        no tracing\n        try: sudo\n"
            ),
            "{shown}"
        );
        assert!(shown.contains(" yes  demo                           pageset demo\n"), "{shown}");
    }
}
