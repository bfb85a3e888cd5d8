//! The file of a recording: its owner, its successors, and disks that are full.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pageset_fleet::recorder::Recorder;

use super::{Folder, events, finish, instances, may_trace, pageset, run, stderr, tags};

#[test]
fn only_the_owner_can_read_a_recording() {
    if !may_trace("only_the_owner_can_read_a_recording") {
        return;
    }
    let folder = Folder::new("mode");
    fs::write(folder.file(), "old").unwrap();
    fs::set_permissions(folder.file(), fs::Permissions::from_mode(0o666)).unwrap();
    let output = run(&["--buffer", "1M"], &folder.file(), &["true"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(fs::metadata(folder.file()).unwrap().permissions().mode() & 0o7777, 0o600);
}

/// The user who typed `sudo pageset record` owns the file.
#[test]
fn a_recording_belongs_to_the_user_behind_sudo() {
    use std::os::unix::fs::MetadataExt as _;
    if !may_trace("a_recording_belongs_to_the_user_behind_sudo") {
        return;
    }
    let folder = Folder::new("sudo");
    let owner = |user: Option<&str>, group: Option<&str>| {
        let mut pageset = pageset(&["--buffer", "1M"], &folder.file(), &["true"]);
        pageset.env_remove("SUDO_UID").env_remove("SUDO_GID");
        pageset.envs(user.map(|id| ("SUDO_UID", id))).envs(group.map(|id| ("SUDO_GID", id)));
        let output = finish(pageset.spawn().unwrap());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let file = fs::metadata(folder.file()).unwrap();
        assert_eq!(file.mode() & 0o7777, 0o600, "others can read the recording");
        (file.uid(), file.gid())
    };
    let own = owner(None, None);
    assert_eq!(owner(Some("1234"), Some("2345")), (1234, 2345));
    for (user, group) in [(Some("1234"), None), (Some("x"), Some("1")), (Some("4294967295"), Some("1"))] {
        assert_eq!(owner(user, group), own, "{user:?} {group:?}");
    }
}

/// A small file system in memory at a folder, unmounted when it ends.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(folder: &Folder, size: &str) -> Option<SmallDisk> {
        let place = folder.0.join("disk");
        fs::create_dir(&place).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"]).arg(&place);
        let mounted = mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        mounted.then_some(SmallDisk(place))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// A full disk ends the recording, which keeps what it has: where the file does not fit, and where the ring buffers'
/// contents do not.
#[test]
fn a_full_disk_keeps_what_was_written() {
    let test = "a_full_disk_keeps_what_was_written";
    if !may_trace(test) {
        return;
    }
    // The load ends when the buffers hold enough. Next to other programs that is early: a buffer that is half full is emptied to the
    // disk, and then the first row would be as the second.
    let load = |enough: usize| {
        format!(
            "for i in $(seq 16); do
                awk '/^bytes/ {{ sum += $2 }} END {{ exit sum < {enough} }}' {}/pageset-$PPID-*/per_cpu/*/stats && break
                dd if=/dev/zero of=/dev/null bs=64M count=1
            done",
            instances()
        )
    };
    // What is kept ends where the first CPU's events no longer fit. In the second row that was 3 to 15 MB, the least next to other tests.
    let rows = [("1m", "128M", 16 << 20, "keeps the first"), ("16m", "4M", usize::MAX, "cannot keep events in")];
    let least_bytes = 1 << 20;
    for (size, buffer, enough, says) in rows {
        let folder = Folder::new("small-disk");
        let Some(disk) = SmallDisk::new(&folder, size) else {
            let _ = writeln!(std::io::stdout(), "SKIPPED {test}: no file system can be mounted here");
            return;
        };
        let file = disk.0.join("a.pstrace");
        let output = run(&["--buffer", buffer], &file, &["sh", "-c", &load(enough)]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains(says) && said.contains("give a place with more room with -o"), "{said}");
        let names = fs::read_dir(&disk.0).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["a.pstrace"]);
        let (_, events) = events(&file);
        assert!(events.len() * 31 > least_bytes, "only {} events were kept", events.len());
        let mut replay = Command::new(crate::PROGRAM);
        let replay = replay.arg("replay").arg(&file).output().unwrap();
        assert_eq!(replay.status.code(), Some(0), "{}", stderr(&replay));
    }
}

/// The agent's recording on a full disk: one line says why there is none, and none is named.
#[test]
fn an_agent_records_to_a_full_disk() {
    let test = "an_agent_records_to_a_full_disk";
    if !may_trace(test) {
        return;
    }
    let folder = Folder::new("agent-disk");
    let Some(disk) = SmallDisk::new(&folder, "4k") else {
        let _ = writeln!(std::io::stdout(), "SKIPPED {test}: no file system can be mounted here");
        return;
    };
    fs::set_permissions(&disk.0, fs::Permissions::from_mode(0o755)).unwrap();
    let day = Duration::from_secs(86_400);
    let mut recorder = Recorder::new(Path::new(crate::PROGRAM), &disk.0, 64 << 20, day).unwrap();
    assert!(recorder.begin().unwrap());
    // Traffic that does not fit while it is recorded.
    let load = "for i in $(seq 60); do dd if=/dev/zero of=/dev/null bs=64M count=1 status=none; done";
    assert!(Command::new("sh").args(["-c", load]).status().unwrap().success());
    let begin = Instant::now();
    let why = loop {
        assert!(begin.elapsed() < Duration::from_secs(60), "the recording does not end");
        match recorder.end() {
            Ok(()) if recorder.file().is_none() => thread::sleep(Duration::from_millis(50)),
            Ok(()) => panic!("a recording is named"),
            Err(why) => break why,
        }
    };
    assert!(why.contains("No space left on device"), "{why}");
    assert_eq!(recorder.file(), None);
    // Nothing is left on the disk.
    assert_eq!(fs::read_dir(&disk.0).unwrap().count(), 0);
}

#[test]
fn a_full_disk_is_reported() {
    if !may_trace("a_full_disk_is_reported") {
        return;
    }
    let output = run(&["--buffer", "4M"], Path::new("/dev/full"), &["true"]);
    assert_eq!(output.status.code(), Some(6));
    assert!(stderr(&output).contains("/dev/full: No space left on device"), "{}", stderr(&output));
    let output = run(&["--buffer", "4M"], Path::new("/nonexistent/a.pstrace"), &["true"]);
    assert!(stderr(&output).ends_with("\nhelp: make its folder first\n"), "{}", stderr(&output));
    // An unwritable folder is reported before the recording begins.
    let output = run(&["--buffer", "4M"], Path::new("/proc/a.pstrace"), &["sh", "-c", "echo begun"]);
    assert_eq!(output.status.code(), Some(6));
    assert_eq!(output.stdout, b"");
}

#[test]
fn rotated_files_are_complete_recordings() {
    if !may_trace("rotated_files_are_complete_recordings") {
        return;
    }
    let folder = Folder::new("turn");
    let limits = ["--buffer", "2M", "--duration", "50ms", "--rotate", "2"];
    // Until the third file has replaced the first, however busy the machine is.
    let replaced = format!(
        "until set -- {folder}/a.*.pstrace && [ -e \"$1\" ] && [ \"$1\" != {folder}/a.1.pstrace ]; do sleep 0.1; done",
        folder = folder.0.display()
    );
    let output = run(&limits, &folder.file(), &["timeout", "300", "sh", "-c", &replaced]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut names = folder.names();
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(!names.contains(&"a.1.pstrace".to_owned()), "{names:?}");
    let mut last_ns = 0;
    for name in names {
        let (facts, events) = events(&folder.0.join(name));
        assert!(!facts.lost_events() && facts.after_full == 0);
        let tags = tags(&events);
        assert_eq!((tags[..3].to_vec(), tags.last()), (vec!["init0", "init1", "init2"], Some(&"fini1")));
        assert!(events[0].time_ns > last_ns, "a file repeats events of the previous file");
        last_ns = events.last().unwrap().time_ns;
    }
}
