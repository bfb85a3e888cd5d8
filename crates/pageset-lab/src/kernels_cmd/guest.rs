//! One boot: QEMU runs a guest until it powers off or reaches its time limit. The lab then unpacks its recordings.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::definition::Boot;
use super::packages::Unpacked;
use super::tool::{at, output, run, write_whole};

/// How a boot ended. Stored as `boot.json`.
#[derive(Serialize, Deserialize, Default, Clone)]
#[serde(default)]
pub(super) struct Ended {
    /// The kernel's `uname -r`, if the guest printed it.
    pub(super) release: Option<String>,
    /// Why not all workloads ran.
    pub(super) failed: Option<String>,
    pub(super) seconds: u64,
    /// For each workload that ran: the exit code and the last line of the recorder.
    pub(super) workloads: BTreeMap<String, (i32, String)>,
}

/// QEMU's program and arguments for a boot.
///
/// The workloads use the disk /dev/vda, and the recordings go to /dev/vdb. /dev/vdc is the root file system of programs, and what
/// the guest writes to it is forgotten. A guest whose kernel has no disk driver sends
/// the recordings over its second serial port.
pub(super) fn qemu(
    boot: Boot<'_>,
    kernel: &Path,
    initrd: &Path,
    disks: [&Path; 2],
    root: Option<&Path>,
    serial: &Path,
) -> Command {
    let machine = boot.machine;
    let (program, board, console) = match boot.kernel.arch() {
        "arm64" => ("qemu-system-aarch64", ["-machine", "virt", "-cpu", "neoverse-n1"], "ttyAMA0"),
        // Kernel 7.2 fails early with `-cpu max` under QEMU 7.2.
        _ => ("qemu-system-x86_64", ["-machine", "pc", "-cpu", "Skylake-Client,-hle,-rtm"], "ttyS0"),
    };
    let mut command = Command::new(program);
    command.args(board).args(["-accel", "tcg,thread=single", "-display", "none", "-monitor", "none", "-no-reboot"]);
    command.args([
        "-serial",
        "stdio",
        "-serial",
        &format!("file:{}", serial.display()),
        "-nic",
        "none",
        "-smp",
        &machine.cpus.to_string(),
        "-m",
        &machine.memory,
    ]);
    command.args(&machine.qemu).arg("-kernel").arg(kernel).arg("-initrd").arg(initrd);
    // PCI devices on every board: the guest names them in the order of their slots.
    let snapshot = |disk: &Path| if root == Some(disk) { "on" } else { "off" };
    for (index, disk) in disks.into_iter().chain(root).enumerate() {
        let (snapshot, disk) = (snapshot(disk), disk.display());
        command.arg("-drive");
        command.arg(format!("if=none,id=d{index},format=raw,cache=unsafe,snapshot={snapshot},file={disk}"));
        command.args(["-device", &format!("virtio-blk-pci,drive=d{index}")]);
    }
    // A loaded host may not run the guest within the ticks in which the kernel expects its timer.
    let append =
        format!("console={console} panic=-1 quiet mitigations=off tsc=reliable no_timer_check {}", machine.append);
    command.args(["-append", append.trim_end()]);
    command
}

/// Runs a guest, and writes its console to the file `log`. Kills a guest that exceeds its time limit, and returns an error.
pub(super) fn run_guest(
    mut command: Command,
    log: &Path,
    limit: Duration,
    watch: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let console = at(log, File::create(log))?;
    let errors = at(log, console.try_clone())?;
    let guest = command.stdin(Stdio::null()).stdout(console).stderr(errors).spawn();
    let mut guest = Killed(guest.map_err(|e| format!("cannot run `{name}`: {e}; try `install`"))?);
    let begin = Instant::now();
    loop {
        if let Some(status) = at(log, guest.0.try_wait())? {
            if status.success() {
                return Ok(());
            }
            let text = console_text(log);
            return Err(format!("{name} failed: {}", last_line(&text)));
        }
        let text = console_text(log);
        watch(&text);
        if begin.elapsed() > limit {
            return Err(format!("the guest did not end within {} s; last line: {}", limit.as_secs(), last_line(&text)));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// How often a kernel that panics at its start is booted. A guess.
const STARTS: u32 = 4;

/// Whether the kernel panicked before the first program. On a busy host a kernel may wait in vain for its timer.
fn panics_at_start(console: &str) -> bool {
    console.contains("Kernel panic") && !console.contains("LAB kernel")
}

/// A child process that is killed when the value is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn console_text(log: &Path) -> String {
    String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).replace('\r', "")
}

fn last_line(text: &str) -> &str {
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("none")
}

/// Reads how the boot ended from the guest's console. `failed` is the error of [`run_guest`].
pub(super) fn read_console(text: &str, failed: Option<String>) -> Ended {
    let mut ended = Ended { failed, ..Ended::default() };
    let (mut open, mut done) = (None, false);
    for line in text.lines() {
        let Some(line) = line.find("LAB ").map(|at| &line[at + 4..]) else { continue };
        let mut words = line.splitn(2, ' ');
        match (words.next(), words.next().unwrap_or_default()) {
            (Some("kernel"), release) => ended.release = Some(release.into()),
            (Some("failed"), reason) => ended.failed = Some(reason.into()),
            (Some("start"), name) => open = Some(name.to_owned()),
            (Some("end"), rest) => {
                let mut words = rest.splitn(3, ' ');
                let (name, code, note) = (words.next(), words.next(), words.next());
                let result = (code.and_then(|code| code.parse().ok()).unwrap_or(-1), note.unwrap_or_default().into());
                ended.workloads.extend(name.map(|name| (name.to_owned(), result)));
                open = None;
            }
            (Some("done"), _) => done = true,
            _ => {}
        }
    }
    let panic = text.lines().find_map(|line| line.find("Kernel panic").map(|at| &line[at..]));
    if let Some(panic) = panic {
        ended.failed = Some(panic.trim().into());
    } else if !done && ended.failed.is_none() {
        ended.failed = Some(format!("the guest ended early; last line: {}", last_line(text)));
    }
    if let (Some(reason), Some(name)) = (&mut ended.failed, open) {
        *reason = format!("{reason} (while `{name}` ran)");
    }
    ended
}

/// Boots a guest and puts its recordings below `dir`.
pub(super) fn boot(
    boot: Boot<'_>,
    kernel: &Unpacked,
    initrd: &[u8],
    root: Option<&Path>,
    dir: &Path,
    limit: Duration,
    watch: &mut dyn FnMut(&str),
) -> Result<Ended, String> {
    let (folder, recordings) = (&*dir.join("boots").join(boot.name()), &*dir.join("recordings"));
    let _ = fs::remove_dir_all(folder);
    at(folder, fs::create_dir_all(folder))?;
    at(recordings, fs::create_dir_all(recordings))?;
    let [archive, disk, out, serial, log] =
        ["initrd", "disk", "out.tar", "serial.tar", "console.log"].map(|name| folder.join(name));
    at(&archive, fs::write(&archive, initrd))?;
    for (path, bytes) in [(&disk, 256 << 20), (&out, 1 << 30)] {
        at(path, File::create(path).and_then(|file| file.set_len(bytes)))?;
    }
    output(Command::new("mke2fs").args(["-q", "-F", "-t", "ext4"]).arg(&disk))?;
    let begin = Instant::now();
    let mut run = || run_guest(qemu(boot, &kernel.image, &archive, [&disk, &out], root, &serial), &log, limit, watch);
    let mut ran = run();
    for _ in 1..STARTS {
        if !panics_at_start(&console_text(&log)) {
            break;
        }
        ran = run();
    }
    let mut ended = read_console(&console_text(&log), ran.err());
    ended.seconds = begin.elapsed().as_secs();
    for tar in [&out, &serial] {
        if let (Err(error), None) = (unpack(tar, folder), &ended.failed) {
            ended.failed = Some(error);
        }
    }
    for (workload, (code, note)) in &mut ended.workloads {
        let from = folder.join(format!("{workload}.pstrace"));
        if from.exists() {
            let to = recordings.join(format!("{}.{workload}.pstrace", boot.name()));
            at(&to, fs::rename(&from, &to))?;
        } else if *code == 0 {
            (*code, *note) = (-1, "the recording did not come out of the guest".into());
        }
    }
    for path in [archive, disk, out, serial] {
        // QEMU creates no file for the serial port if it rejects a machine.
        let _ = fs::remove_file(path);
    }
    write_whole(&folder.join("boot.json"), serde_json::to_vec_pretty(&ended).map_err(|e| e.to_string())?)?;
    Ok(ended)
}

/// Unpacks the output of a guest: consecutive archives, one for each workload, then zeros.
fn unpack(tar: &Path, folder: &Path) -> Result<(), String> {
    // An unused serial port leaves an empty file, which tar refuses.
    if fs::metadata(tar).map_or(0, |data| data.len()) == 0 {
        return Ok(());
    }
    run("tar", ["-x", "--ignore-zeros", "-C", &folder.to_string_lossy(), "-f", &tar.to_string_lossy()]).map(drop)
}

/// How the boot of that name ended, or `None` if it was not booted.
pub(super) fn ended(dir: &Path, name: &str) -> Option<Ended> {
    let text = fs::read(dir.join("boots").join(name).join("boot.json")).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels_cmd::definition::Lab;

    #[test]
    fn a_console() {
        let text = "[ 1.2] x\nLAB kernel 6.1.0-56-amd64\nLAB start pf1\nLAB end pf1 0 5 events\nLAB start pfN\n";
        let ended = read_console(text, Some("too long".into()));
        assert_eq!(ended.release.as_deref(), Some("6.1.0-56-amd64"));
        assert_eq!(ended.workloads["pf1"], (0, "5 events".into()));
        assert_eq!(ended.failed.as_deref(), Some("too long (while `pfN` ran)"));
        assert_eq!(read_console("LAB done\n", None).failed, None);
        let panic = read_console("[    0.1] Kernel panic - not syncing: x\nmore", Some("any".into()));
        assert_eq!(panic.failed.as_deref(), Some("Kernel panic - not syncing: x"));
        let late = "LAB kernel 6.1\nKernel panic - not syncing: x";
        assert_eq!([late, "Kernel panic - x", "x"].map(panics_at_start), [false, true, false]);
        assert_eq!(read_console("a\n", None).failed.as_deref(), Some("the guest ended early; last line: a"));
    }

    /// Runs a guest for at most 5 s and returns its error.
    fn error_of(command: Command) -> String {
        let dir = tempfile::tempdir().unwrap();
        let begin = Instant::now();
        let error = run_guest(command, &dir.path().join("log"), Duration::from_secs(5), &mut |_| {}).unwrap_err();
        assert!(begin.elapsed() < Duration::from_secs(20));
        error
    }

    #[test]
    fn a_program_that_does_not_end() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo hello; exec sleep 60"]);
        assert_eq!(error_of(shell), "the guest did not end within 5 s; last line: hello");
        assert!(error_of(Command::new("no-such-qemu")).starts_with("cannot run `no-such-qemu`"));
    }

    #[test]
    fn what_a_guest_sent() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let mut sent = Vec::new();
        for name in ["pf1.log", "pfN.log"] {
            fs::write(path(name), name).unwrap();
            run("tar", ["-cf", &path("one").to_string_lossy(), "-C", &dir.path().to_string_lossy(), name]).unwrap();
            sent.extend(fs::read(path("one")).unwrap());
            fs::remove_file(path(name)).unwrap();
        }
        sent.resize(1 << 20, 0);
        fs::write(path("sent"), sent).unwrap();
        fs::write(path("empty"), "").unwrap();
        assert_eq!(unpack(&path("sent"), dir.path()), Ok(()));
        assert_eq!(fs::read_to_string(path("pfN.log")).unwrap(), "pfN.log");
        assert!(path("pf1.log").exists());
        assert_eq!((unpack(&path("empty"), dir.path()), unpack(&path("none"), dir.path())), (Ok(()), Ok(())));
    }

    fn has_qemu(test: &str) -> bool {
        let found = run("qemu-system-x86_64", ["--version"]);
        if let Err(reason) = &found {
            println!("SKIPPED {test}: {reason}");
        }
        found.is_ok()
    }

    fn with_kernel(bytes: &[u8], machine: &str) -> (tempfile::TempDir, Command) {
        let dir = tempfile::tempdir().unwrap();
        let lab = format!(
            "suites=[]\nworkload=[]\nkernel=[{{name='k',image='i'}}]\nboot=[{{kernels=['k'],machines=['m']}}]\n\
             machine=[{{name='m',what='',cpus=1,memory='64M',{machine}}}]"
        );
        let lab = Lab::parse(&lab).unwrap();
        let [kernel, disk, other] = ["k", "a", "b"].map(|name| dir.path().join(name));
        for path in [&kernel, &disk, &other] {
            fs::write(path, if path == &kernel { bytes } else { &[0; 512] }).unwrap();
        }
        let command = qemu(lab.boots()[0], &kernel, &disk, [&disk, &other], None, &dir.path().join("serial"));
        (dir, command)
    }

    /// Boots share the root file system, so a guest must not change it.
    #[test]
    fn what_a_guest_writes_to_its_root_is_forgotten() {
        let lab = "suites=[]\nworkload=[]\nkernel=[{name='k',image='i'}]\nboot=[{kernels=['k'],machines=['m']}]\n\
                   machine=[{name='m',what='',cpus=1,memory='64M'}]";
        let lab = Lab::parse(lab).unwrap();
        let [a, b, root] = ["a", "b", "root"].map(Path::new);
        let command = qemu(lab.boots()[0], a, a, [a, b], Some(root), a);
        let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
        let drives: Vec<_> = arguments.iter().filter(|argument| argument.starts_with("if=none")).collect();
        assert_eq!(drives.len(), 3);
        assert!(drives[2].contains("id=d2,") && drives[2].ends_with("snapshot=on,file=root"));
        assert!(drives[..2].iter().all(|drive| drive.contains("snapshot=off")));
    }

    #[test]
    fn a_kernel_that_is_garbage() {
        if has_qemu("a_kernel_that_is_garbage") {
            let (_dir, command) = with_kernel(b"garbage", "");
            assert!(error_of(command).starts_with("qemu-system-x86_64 failed: "));
        }
    }

    #[test]
    fn a_machine_that_qemu_rejects() {
        if has_qemu("a_machine_that_qemu_rejects") {
            let (_dir, command) = with_kernel(b"garbage", "qemu=['-numa','node,nodeid=9999']");
            assert!(error_of(command).contains("9999"));
        }
    }

    #[test]
    fn a_guest_that_hangs() {
        if has_qemu("a_guest_that_hangs") {
            // The firmware finds no system and waits.
            let mut command = Command::new("qemu-system-x86_64");
            command.args(["-accel", "tcg", "-display", "none", "-monitor", "none", "-serial", "stdio", "-nic", "none"]);
            assert!(error_of(command).starts_with("the guest did not end within 5 s"));
        }
    }
}
