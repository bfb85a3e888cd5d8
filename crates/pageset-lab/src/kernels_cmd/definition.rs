//! The definition of the lab, `lab.toml`: kernels, machines, workloads, and which kernel boots on which machine.

use std::path::Path;

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lab {
    pub(super) suites: Vec<String>,
    /// Whether `pageset agent` watches each load before it is recorded.
    #[serde(default)]
    pub(super) agent: bool,
    pub(super) root: Option<Root>,
    #[serde(rename = "kernel")]
    pub(super) kernels: Vec<Kernel>,
    #[serde(rename = "machine")]
    pub(super) machines: Vec<Machine>,
    #[serde(rename = "boot")]
    boots: Vec<Pairs>,
    #[serde(rename = "workload")]
    pub(super) workloads: Vec<Workload>,
}

/// The root file system of the workloads that run programs of the distribution, on amd64.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Root {
    pub(super) suites: Vec<String>,
    pub(super) packages: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kernel {
    pub(super) name: String,
    /// A pattern of package names.
    pub(super) image: String,
    /// Options of the recorder. They replace those of the machine.
    pub(super) record: Option<Vec<String>>,
    /// The suites that hold its headers and their compiler, the release first.
    #[serde(default)]
    pub(super) headers: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Machine {
    pub(super) name: String,
    pub(super) what: String,
    pub(super) cpus: u32,
    #[serde(default = "one")]
    pub(super) nodes: u32,
    /// The argument of QEMU's option `-m`.
    pub(super) memory: String,
    #[serde(default)]
    pub(super) qemu: Vec<String>,
    #[serde(default)]
    pub(super) append: String,
    #[serde(default = "empty_lists")]
    pub(super) record: Vec<String>,
    /// Whether programs of the root file system run here, and nothing else.
    #[serde(default)]
    programs: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pairs {
    kernels: Vec<String>,
    machines: Vec<String>,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub(super) struct Workload {
    pub(super) name: String,
    pub(super) what: String,
    pub(super) command: String,
    /// What is recorded, if it is not `command`: of a load that the agent watches, a shorter run, or the part that its last line shows.
    pub(super) recorded: Option<String>,
    seconds: Option<u32>,
    #[serde(default = "all")]
    kernels: Vec<String>,
    #[serde(default = "all")]
    machines: Vec<String>,
    #[serde(default = "one")]
    cpus: u32,
    #[serde(default = "one")]
    nodes: u32,
    #[serde(default)]
    pub(super) modules: Vec<String>,
    #[serde(default)]
    pub(super) before: String,
    #[serde(default)]
    pub(super) after: String,
}

/// A kernel on a machine.
#[derive(Clone, Copy)]
pub(super) struct Boot<'l> {
    pub(super) kernel: &'l Kernel,
    pub(super) machine: &'l Machine,
}

fn one() -> u32 {
    1
}
fn all() -> Vec<String> {
    vec!["*".into()]
}
fn empty_lists() -> Vec<String> {
    vec!["--empty-lists".into()]
}

/// Whether `name` matches `pattern`, in which `*` stands for any characters that `star` accepts.
pub(super) fn matches(pattern: &str, name: &str, star: fn(char) -> bool) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(tail) = name.strip_prefix(head) else { return false };
    let mut ends = tail.char_indices().take_while(|&(_, c)| star(c)).map(|(at, c)| at + c.len_utf8());
    matches(rest, tail, star) || ends.any(|end| matches(rest, &tail[end..], star))
}

/// Whether `name` matches any of `patterns`, in which `*` stands for anything.
pub(super) fn matches_any(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, name, |_| true))
}

impl Lab {
    pub(super) fn read(path: &Path) -> Result<Lab, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        Lab::parse(&text).map_err(|e| format!("cannot use {}: {e}", path.display()))
    }

    pub(super) fn parse(text: &str) -> Result<Lab, String> {
        let lab: Lab = toml::from_str(text).map_err(|e| e.to_string())?;
        let names = lab.kernels.iter().map(|k| &k.name).chain(lab.machines.iter().map(|m| &m.name));
        for name in names.chain(lab.workloads.iter().map(|w| &w.name)) {
            // The name of a kernel contains dots. The last two dots of a recording's name separate its parts.
            if name.is_empty() || name.contains(['/', ' ', '*']) {
                return Err(format!("name `{name}` contains a slash, a space or a star, or is empty"));
            }
        }
        for boot in &lab.boots {
            for (kind, patterns, names) in [
                ("kernel", &boot.kernels, lab.kernels.iter().map(|k| &k.name).collect::<Vec<_>>()),
                ("machine", &boot.machines, lab.machines.iter().map(|m| &m.name).collect()),
            ] {
                if let Some(unknown) = patterns.iter().find(|p| !names.iter().any(|n| matches(p, n, |_| true))) {
                    return Err(format!("[[boot]] names an unknown {kind} `{unknown}`"));
                }
            }
        }
        Ok(lab)
    }

    /// All pairs of a kernel and a machine that boot, each once, ordered by kernel.
    pub(super) fn boots(&self) -> Vec<Boot<'_>> {
        let pairs = self.kernels.iter().flat_map(|kernel| self.machines.iter().map(move |machine| (kernel, machine)));
        let chosen = |kernel: &Kernel, machine: &Machine| {
            self.boots
                .iter()
                .any(|pairs| matches_any(&pairs.kernels, &kernel.name) && matches_any(&pairs.machines, &machine.name))
        };
        pairs.filter(|(k, m)| chosen(k, m)).map(|(kernel, machine)| Boot { kernel, machine }).collect()
    }

    pub(super) fn workloads<'l>(&'l self, boot: Boot<'l>) -> Vec<&'l Workload> {
        let runs = |workload: &&Workload| {
            boot.machine.cpus >= workload.cpus
                && boot.machine.nodes >= workload.nodes
                && matches_any(&workload.kernels, &boot.kernel.name)
                && matches_any(&workload.machines, &boot.machine.name)
                && boot.machine.programs == workload.needs_root()
        };
        self.workloads.iter().filter(runs).collect()
    }
}

impl Workload {
    /// The time limit of the workload in seconds. A loaded host takes ten times as long as an idle one.
    pub(super) fn seconds(&self) -> u32 {
        self.seconds.unwrap_or(if self.needs_root() { 120 } else { 40 })
    }

    /// Whether the workload is a program of the root file system.
    pub(super) fn needs_root(&self) -> bool {
        self.command.starts_with("chroot ")
    }
}

impl Kernel {
    /// Debian's name of the architecture.
    pub(super) fn arch(&self) -> &'static str {
        if self.image.contains("arm64") { "arm64" } else { "amd64" }
    }
}

impl Boot<'_> {
    /// `KERNEL.MACHINE`.
    pub(super) fn name(&self) -> String {
        format!("{}.{}", self.kernel.name, self.machine.name)
    }

    /// Options of the recorder.
    pub(super) fn record(&self) -> &[String] {
        self.kernel.record.as_ref().unwrap_or(&self.machine.record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let any = |_| true;
        assert!(matches("6.1-*", "6.1-amd64.4cpu", any) && matches("*", "", any) && matches("a*c*e", "abcde", any));
        assert!(!matches("6.1-*", "6.12-amd64", any) && !matches("a*c", "abcd", any) && !matches("", "a", any));
        let package = |c| c != '-';
        assert!(matches("linux-image-6.1.0-*-amd64", "linux-image-6.1.0-56-amd64", package));
        assert!(!matches("linux-image-6.12.*-amd64", "linux-image-6.12.117+deb13-cloud-amd64", package));
        assert!(!matches("linux-image-6.12.*-amd64", "linux-image-6.12-amd64", package));
    }

    #[test]
    fn the_definition_of_this_lab() {
        let lab = Lab::parse(include_str!("../../../../lab/lab.toml")).unwrap();
        let boots = lab.boots();
        let recordings: usize = boots.iter().map(|&boot| lab.workloads(boot).len()).sum();
        assert!(recordings >= 400, "{} boots have {recordings} recordings", boots.len());
        let boot = *boots.iter().find(|boot| boot.name() == "6.18-amd64.1cpu").unwrap();
        assert!(lab.workloads(boot).iter().all(|workload| !["pfN", "far", "memhp"].contains(&&*workload.name)));
        assert_eq!((boot.kernel.arch(), boot.record()), ("amd64", &["--empty-lists".to_owned()][..]));
        let old = boots.iter().find(|boot| boot.name() == "5.10-amd64.4cpu").unwrap();
        assert!(old.record().is_empty());
    }

    #[test]
    fn programs_of_the_root_file_system() {
        let lab = Lab::parse(include_str!("../../../../lab/lab.toml")).unwrap();
        let script = include_str!("../../../../lab/workloads/program.sh");
        for boot in lab.boots() {
            let workloads = lab.workloads(boot);
            assert!(workloads.len() >= 10 && workloads.iter().all(|w| w.needs_root() == boot.machine.programs));
        }
        for workload in lab.workloads.iter().filter(|workload| workload.needs_root()) {
            let called = [&workload.command, &workload.before].into_iter().filter_map(|line| {
                let name = line.strip_prefix("chroot /root program ")?.split(' ').next()?;
                Some(format!("\n{name}() "))
            });
            for function in called {
                assert!(script.contains(&function), "program.sh has no function{function}");
            }
        }
        assert_eq!(lab.root.unwrap().suites[0], "bookworm");
    }

    #[test]
    fn wrong_definitions() {
        let parse = |text: &str| Lab::parse(text).err().unwrap_or_default();
        let lab =
            "suites=[]\nkernel=[{name='k',image='i'}]\nmachine=[{name='m',what='',cpus=1,memory='1G'}]\nworkload=[]";
        assert_eq!(parse(&format!("{lab}\nboot=[{{kernels=['k'],machines=['m']}}]")), "");
        assert_eq!(
            parse(&format!("{lab}\nboot=[{{kernels=['x*'],machines=['m']}}]")),
            "[[boot]] names an unknown kernel `x*`"
        );
        assert!(
            parse("suites=[]\nboot=[]\nkernel=[{name='a/b',image='i'}]\nmachine=[]\nworkload=[]").contains("`a/b`")
        );
        assert!(parse("kernels = []").contains("unknown field"));
    }
}
