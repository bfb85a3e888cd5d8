//! The initramfs of a guest: a static `pageset`, BusyBox, the workloads, modules, and an init script.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::definition::{Boot, Lab};
use super::packages::{Apt, Unpacked};
use super::tool::{at, output};

/// The programs of one architecture.
pub(super) struct Programs {
    files: Vec<(String, PathBuf)>,
}

/// The root of the repository.
pub(super) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Programs {
    /// Builds or downloads missing programs. `pageset` replaces the build of this repository's command.
    pub(super) fn build(arch: &str, dir: &Path, suites: &[String], pageset: Option<&Path>) -> Result<Programs, String> {
        let (target, compiler) = match arch {
            "arm64" => ("aarch64-unknown-linux-gnu", "aarch64-linux-gnu-gcc"),
            _ => ("x86_64-unknown-linux-gnu", "gcc"),
        };
        let bin = dir.join("bin").join(arch);
        at(&bin, fs::create_dir_all(&bin))?;
        let (pageset, mut libraries) = match pageset {
            Some(path) => (path.to_owned(), libraries_of(path)?),
            None => (static_program("pageset-cli", "Cargo.toml", "pageset", target, compiler)?, BTreeSet::new()),
        };
        let sources = repository().join("lab/workloads");
        let c_files = ["main", "memory", "streams", "files", "processes", "hotplug"];
        let c_files = c_files.map(|name| sources.join(format!("{name}.c")));
        let workloads = bin.join("wl");
        output(
            Command::new(compiler).args(["-O2", "-Wall", "-static", "-pthread", "-o"]).arg(&workloads).args(c_files),
        )?;
        // Newer packages contain it in usr/bin.
        let unpacked = bin.join("busybox");
        let places = [unpacked.join("usr/bin/busybox"), unpacked.join("bin/busybox")];
        let find = || places.iter().find(|path| path.exists());
        if arch == "arm64" && find().is_none() {
            Apt::new(&dir.join("apt"), suites)?.unpack("busybox-static", arch, &unpacked)?;
        }
        let busybox = find().map_or_else(|| "/bin/busybox".into(), PathBuf::clone);
        let mut files = vec![
            ("bin/pageset".to_owned(), pageset),
            ("bin/wl".to_owned(), workloads),
            ("bin/busybox".to_owned(), busybox.clone()),
            ("bin/compile".to_owned(), sources.join("compile.sh")),
            ("bin/jobs".to_owned(), sources.join("jobs.sh")),
            ("bin/program".to_owned(), sources.join("program.sh")),
        ];
        let tcc = dir.join("tcc/usr/bin/tcc");
        if arch == "amd64" && tcc.exists() {
            libraries.extend(libraries_of(&tcc)?);
            files.push(("bin/tcc".to_owned(), tcc));
        }
        if arch == "amd64" {
            match static_program("purgers", "lab/purgers/Cargo.toml", "purgers", target, compiler) {
                Ok(path) => files.push(("bin/purgers".to_owned(), path)),
                Err(reason) => eprintln!("no program purgers; workload `purge` will fail: {reason}"),
            }
        }
        files.extend(libraries.into_iter().map(|library| (library.trim_start_matches('/').to_owned(), library.into())));
        Ok(Programs { files })
    }

    /// Adds a file of the host under another name.
    pub(super) fn add(&mut self, name: &str, file: PathBuf) {
        self.files.push((name.to_owned(), file));
    }
}

/// Builds a program of a workspace of this repository without shared libraries.
fn static_program(
    package: &str,
    manifest: &str,
    program: &str,
    target: &str,
    compiler: &str,
) -> Result<PathBuf, String> {
    let linker = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"));
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--locked", "--release", "--manifest-path", manifest, "-p", package]);
    cargo.args(["--target", target, "--target-dir"]).arg(target_folder());
    output(
        cargo
            .current_dir(repository())
            .env("RUSTFLAGS", "-C target-feature=+crt-static")
            .env(linker, compiler)
            .env(format!("CC_{}", target.replace('-', "_")), compiler),
    )?;
    Ok(target_folder().join(target).join("release").join(program))
}

/// The folder of this repository's build.
fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

/// The shared libraries of a program of this machine. `ldd` fails for a static program, which has none.
fn libraries_of(program: &Path) -> Result<BTreeSet<String>, String> {
    let said = Command::new("ldd").arg(program).output().map_err(|e| format!("cannot run `ldd`: {e}"))?;
    Ok(libraries(&String::from_utf8_lossy(&said.stdout)).into_iter().map(str::to_owned).collect())
}

/// The paths in the output of `ldd`.
fn libraries(ldd: &str) -> Vec<&str> {
    ldd.split_whitespace().filter(|word| word.starts_with('/')).collect()
}

/// All modules that `wanted` depend on, in load order. A module without a file is built in.
fn modules(folder: &Path, wanted: &BTreeSet<&str>) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut paths = BTreeMap::new();
    find_modules(folder, &mut paths);
    let mut loaded = Vec::new();
    for name in wanted {
        load(name, &paths, &mut loaded)?;
    }
    Ok(loaded)
}

fn find_modules(folder: &Path, paths: &mut BTreeMap<String, PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            find_modules(&entry.path(), paths);
        } else if let Some((stem, _)) = name.split_once(".ko") {
            paths.insert(stem.replace('-', "_"), entry.path());
        }
    }
}

fn load(name: &str, paths: &BTreeMap<String, PathBuf>, loaded: &mut Vec<(String, Vec<u8>)>) -> Result<(), String> {
    let name = name.replace('-', "_");
    let Some(path) = paths.get(&name).filter(|_| loaded.iter().all(|(other, _)| *other != name)) else { return Ok(()) };
    let bytes = match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => Command::new("xz").arg("-dc").arg(path).output().map(|got| got.stdout),
        Some("zst") => Command::new("zstd").arg("-dcq").arg(path).output().map(|got| got.stdout),
        _ => fs::read(path),
    };
    let bytes = at(path, bytes)?;
    for needed in dependencies(&bytes) {
        load(&needed, paths, loaded)?;
    }
    loaded.push((name, bytes));
    Ok(())
}

/// The dependencies in the section `.modinfo` of a module: modules that it calls, and modules that it requests by name.
fn dependencies(module: &[u8]) -> Vec<String> {
    let field = |key: &str| {
        let key = key.as_bytes();
        let entries = module.split(|&byte| byte == 0).filter_map(move |entry| entry.strip_prefix(key));
        entries.map(|value| String::from_utf8_lossy(value).into_owned()).collect::<Vec<_>>()
    };
    let soft = field("softdep=").into_iter().filter_map(|value| value.strip_prefix("pre: ").map(str::to_owned));
    let hard = field("depends=");
    hard.iter()
        .flat_map(|list| list.split(','))
        .map(str::to_owned)
        .chain(soft)
        .filter(|name| !name.is_empty())
        .collect()
}

/// Modules for the disk and the file system of a guest. ext4 requests the checksum module when it mounts.
const ALWAYS: [&str; 7] = ["virtio_pci", "virtio_mmio", "virtio_blk", "crc32c_generic", "crc32c", "libcrc32c", "ext4"];

pub(super) fn archive(lab: &Lab, boot: Boot<'_>, programs: &Programs, kernel: &Unpacked) -> Result<Vec<u8>, String> {
    let mut cpio = Cpio::default();
    for folder in ["bin", "dev", "proc", "sys", "tmp", "disk", "root", "modules", "lib", "lib64", "etc"] {
        cpio.folder(folder);
    }
    let workloads = lab.workloads(boot);
    let wanted = workloads.iter().flat_map(|workload| &workload.modules).map(String::as_str).chain(ALWAYS).collect();
    let modules = modules(&kernel.modules, &wanted)?;
    for (to, from) in &programs.files {
        cpio.file(to, &at(from, fs::read(from))?, 0o755);
    }
    for (name, bytes) in &modules {
        cpio.file(&format!("modules/{name}.ko"), bytes, 0o644);
    }
    let names: Vec<&str> = modules.iter().map(|(name, _)| name.as_str()).collect();
    cpio.file("init", init(lab, boot, &names).as_bytes(), 0o755);
    Ok(cpio.finish())
}

/// The size of each CPU's ring buffer: half a million events. An overflow ends the recording.
const BUFFER: &str = "16M";

/// The init script of the guest. [`super::guest`] reads the lines that start with `LAB`.
fn init(lab: &Lab, boot: Boot<'_>, modules: &[&str]) -> String {
    let mut script = format!(
        r#"#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
mount -t tracefs none /sys/kernel/tracing || {{ mount -t debugfs none /sys/kernel/debug && mount --bind /sys/kernel/debug/tracing /sys/kernel/tracing; }}
mount -t tmpfs -o size=60% none /tmp; ip link set lo up; echo 2 > /proc/sys/kernel/printk
echo "LAB kernel $(uname -r)"
for module in {modules}; do insmod /modules/$module.ko || echo "module $module does not load"; done
for try in 1 2 3; do [ -b /dev/vdb ] && break; sleep 1; done
for online in /sys/devices/system/cpu/cpu*/online; do [ "$(cat $online)" = 0 ] && echo 1 > $online; done
mount -t ext4 /dev/vda /disk || rmdir /disk
if [ -b /dev/vdc ]; then
    mkdir /dev/shm; mount -t tmpfs none /dev/shm
    mount -t ext4 /dev/vdc /root && cp /bin/program /root/bin
    for folder in dev proc sys; do mount --rbind /$folder /root/$folder; done
fi
if [ -b /dev/vdb ]; then out=/dev/vdb; elif [ -c /dev/ttyS1 ]; then out=/dev/ttyS1; stty -F $out raw; fi
[ "$out" ] || {{ echo "LAB failed the guest has neither a disk nor a second serial port"; poweroff -f; }}
exec 3>$out
mkdir /tmp/out; cd /tmp/out
record() {{ # NAME SECONDS OPTIONS... COMMAND...
    name=$1; seconds=$2; shift 2
    sync; echo 3 > /proc/sys/vm/drop_caches
    echo "LAB start $name"
    timeout -s INT -k 60 $seconds pageset record --buffer {BUFFER} -o $name.pstrace "$@" > $name.log 2>&1
    echo "LAB end $name $? $(tail -n 1 $name.log)"
    tar c $name.* >&3; rm -f /tmp/out/*; sync
}}
observe() {{ # NAME SECONDS COMMAND...
    name=$1; seconds=$2; shift 2
    sync; echo 3 > /proc/sys/vm/drop_caches
    pageset agent --interval 0.3 -o $name.agent 2> $name.agent.log & agent=$!
    for try in $(seq 60); do [ -s $name.agent ] && break; sleep 1; done
    begin=$(wl now); timeout -s INT $seconds "$@" > /dev/null 2>&1; echo "$begin $(wl now)" > $name.during
    kill $agent; wait $agent
}}
"#,
        modules = modules.join(" "),
    );
    for workload in lab.workloads(boot) {
        if modules.is_empty() && (workload.needs_root() || !workload.modules.is_empty()) {
            script += &format!("echo \"LAB end {} -1 the packages of this kernel hold no modules\"\n", workload.name);
            continue;
        }
        let (name, seconds, options) = (&workload.name, workload.seconds(), boot.record().join(" "));
        let recorded = workload.recorded.as_ref().unwrap_or(&workload.command);
        let command = format!("record {name} {seconds} {options} -- {recorded}");
        let observe = match lab.agent {
            true => format!("observe {name} {seconds} {}", workload.command),
            false => String::new(),
        };
        for line in [&workload.before, &observe, &command, &workload.after].into_iter().filter(|line| !line.is_empty())
        {
            script += &format!("{line}\n");
        }
    }
    script + "exec 3>&-\nsync\necho \"LAB done\"\npoweroff -f\n"
}

/// A cpio archive in the format `newc`.
#[derive(Default)]
struct Cpio {
    bytes: Vec<u8>,
    entries: usize,
}

impl Cpio {
    fn folder(&mut self, name: &str) {
        self.entry(name, &[], 0o040_755);
    }

    fn file(&mut self, name: &str, bytes: &[u8], mode: u32) {
        let folders: Vec<_> = Path::new(name).ancestors().skip(1).collect();
        for folder in folders.into_iter().rev().filter(|folder| !folder.as_os_str().is_empty()) {
            self.folder(&folder.to_string_lossy());
        }
        self.entry(name, bytes, 0o100_000 | mode);
    }

    fn entry(&mut self, name: &str, bytes: &[u8], mode: u32) {
        self.entries += 1;
        // Magic, inode, mode, owner, group, links, time, size, four device numbers, length of the name, checksum.
        let fields = [self.entries, mode as usize, 0, 0, 1, 0, bytes.len(), 0, 0, 0, 0, name.len() + 1, 0];
        self.bytes.extend_from_slice(b"070701");
        self.bytes.extend(fields.iter().flat_map(|field| format!("{field:08x}").into_bytes()));
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(bytes);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", &[], 0);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_a_module() {
        let module = b"\x7fELF\0name=sctp\0depends=libcrc32c,ip6_udp_tunnel\0softdep=pre: crc32c\0vermagic=x\0";
        assert_eq!(dependencies(module), ["libcrc32c", "ip6_udp_tunnel", "crc32c"]);
        assert!(dependencies(b"depends=\0").is_empty());
    }

    #[test]
    fn modules_load_after_what_they_need() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("net")).unwrap();
        fs::write(dir.path().join("net/a.ko"), b"\0depends=b-c,absent\0").unwrap();
        fs::write(dir.path().join("b-c.ko"), b"\0depends=\0").unwrap();
        let loaded = modules(dir.path(), &BTreeSet::from(["a", "built_in"])).unwrap();
        assert_eq!(loaded.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["b_c", "a"]);
    }

    #[test]
    fn an_archive_that_cpio_reads() {
        let mut cpio = Cpio::default();
        cpio.file("a/b/hello", b"hello\n", 0o644);
        let bytes = cpio.finish();
        assert!(bytes.starts_with(b"07070100000001000041ed") && bytes.len() % 4 == 0);
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains("a/b/hello\0") && text.contains("TRAILER!!!"));
    }

    #[test]
    fn the_script_runs_what_belongs_to_a_boot() {
        let lab = Lab::parse(include_str!("../../../../lab/lab.toml")).unwrap();
        let boots = lab.boots();
        let boot = *boots.iter().find(|boot| boot.name() == "6.18-amd64.4cpu").unwrap();
        let script = init(&lab, boot, &["virtio_blk", "ext4"]);
        assert!(script.contains("for module in virtio_blk ext4;"));
        assert!(script.contains("\nrecord pf1 40 --empty-lists -- wl faults 0.9 1 64\n"));
        assert!(script.contains("\necho 8 > /proc/sys/vm/percpu_pagelist_high_fraction\nrecord hf8 40 "));
        assert!(script.contains("\nrecord purge 90 --empty-lists -- purgers 2.5\n"));
        assert!(!script.contains("memhp"));
        assert!(
            init(&lab, boot, &[]).contains("\necho \"LAB end sctp -1 the packages of this kernel hold no modules\"\n")
        );
        assert!(script.ends_with("echo \"LAB done\"\npoweroff -f\n"));
        let arm = *boots.iter().find(|boot| boot.name() == "6.18-arm64.4cpu").unwrap();
        assert!(!init(&lab, arm, &["virtio_blk", "ext4"]).contains("purgers"), "its program is built for amd64 only");
        let boot = *boots.iter().find(|boot| boot.name() == "6.12-amd64.2czram").unwrap();
        let script = init(&lab, boot, &["virtio_blk", "ext4"]);
        assert!(script.contains("\nrecord p-redis 120 --empty-lists -- chroot /root program redis\n"));
        assert!(script.contains("mount -t ext4 /dev/vdc /root && cp /bin/program /root/bin\n"));
    }

    #[test]
    fn the_agent_watches_a_load_before_its_recording() {
        let lab = Lab::parse(include_str!("../../../../lab/agent.toml")).unwrap();
        for boot in lab.boots() {
            let script = init(&lab, boot, &["virtio_blk", "ext4"]);
            assert!(
                script.contains("\nobserve pf64 40 wl faults 0.8 0 64\nrecord pf64 40  -- wl faults 0.5 0 64\n"),
                "{script}"
            );
            let fixed = "percpu_pagelist_high_fraction\nobserve hf1000 40 wl faults 0.8 0\nrecord hf1000 ";
            assert!(script.contains(fixed) && lab.workloads(boot).len() >= 12, "{script}");
        }
    }

    #[test]
    fn libraries_of_a_program() {
        let ldd = "\tlinux-vdso.so.1 (0x7)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x7)\n\t/lib64/ld.so.2 (0x7)\n";
        assert_eq!(libraries(ldd), ["/lib/x/libc.so.6", "/lib64/ld.so.2"]);
    }
}
