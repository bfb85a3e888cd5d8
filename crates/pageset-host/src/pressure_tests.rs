//! Pressure from fake sources: a file in place of `memory.events`, a socket in place of a PSI file. And the kernel's own, if
//! there is one.

use super::*;
use crate::Pages;
use std::sync::Arc;

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use crate::{HugePages, Order};

/// A folder with a file `memory.events`. The drop removes it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, events: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("pageset-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        let folder = Folder(path);
        folder.write(events);
        folder
    }

    fn write(&self, events: &str) {
        std::fs::write(self.0.join("memory.events"), events).expect("a file");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn touched_pool() -> Arc<PagePool> {
    let builder = PagePool::builder(16 << 20).huge_pages(HugePages::None);
    let pool = Arc::new(builder.build().expect("a pool"));
    pool.pages(Order::MAX).expect("memory").fill(1);
    pool
}

type Report = Box<dyn FnMut(&PagePool, Pressure) + Send>;

/// A report that sends its cause.
fn sender() -> (Report, Receiver<Pressure>) {
    let (send, receive) = channel();
    let report = move |_: &PagePool, pressure| {
        let _ = send.send(pressure);
    };
    (Box::new(report), receive)
}

fn wait_until_given_back(pool: &PagePool) {
    let end = Instant::now() + Duration::from_secs(60);
    while pool.memory().resident_bytes().expect("a count") > 0 {
        assert!(Instant::now() < end, "no memory went back");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn events_of_a_cgroup_are_reported_once_and_give_memory_back() {
    let folder = Folder::new("events", "low 0\nhigh 7\nmax 1\noom 0\noom_kill 0\n");
    let pool = touched_pool();
    let (report, reports) = sender();
    let watcher = pool.watch_pressure(&PressureSource::cgroup_events(&folder.0), report).expect("a thread");
    assert!(reports.recv_timeout(Duration::from_millis(1500)).is_err(), "events from before the start");
    assert!(pool.memory().resident_bytes().expect("a count") > 0);
    folder.write("low 0\nhigh 9\nmax 1\noom 1\noom_kill 0\n");
    let found = reports.recv_timeout(Duration::from_secs(60)).expect("a report");
    assert_eq!(found, Pressure::Events { high: 2, max: 0, oom: 1 });
    wait_until_given_back(&pool);
    assert!(reports.recv_timeout(Duration::from_millis(1500)).is_err(), "one event was reported twice");
    drop(watcher);
}

/// Out-of-band data makes a socket ready as a stall makes a PSI file.
#[test]
fn a_stall_is_reported_and_gives_back_what_the_report_frees() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let far = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let near = listener.accept().expect("a connection").0;
    let pool = touched_pool();
    let mut cache = Some(Pages::new(Arc::clone(&pool), Order::MAX).expect("memory"));
    cache.as_mut().expect("a run").fill(1);
    let (mut report, reports) = sender();
    let frees = move |pool: &PagePool, pressure| {
        drop(cache.take());
        report(pool, pressure);
    };
    let watcher = pool.start_watcher(Some(near.into()), None, frees).expect("a thread");
    assert!(reports.recv_timeout(Duration::from_millis(50)).is_err(), "a report without pressure");
    // SAFETY: the buffer has one byte.
    #[allow(unsafe_code, reason = "std has no out-of-band data")]
    let sent = unsafe { libc::send(far.as_raw_fd(), c"!".as_ptr().cast(), 1, libc::MSG_OOB) };
    assert_eq!(sent, 1);
    assert_eq!(reports.recv_timeout(Duration::from_secs(60)), Ok(Pressure::Stall));
    wait_until_given_back(&pool);
    drop(watcher);
}

#[test]
fn a_watcher_ends_with_its_pool() {
    let folder = Folder::new("end", "high 0\nmax 0\noom 0\n");
    let pool = touched_pool();
    let watcher = pool.watch_pressure(&PressureSource::cgroup_events(&folder.0), |_, _| ()).expect("a thread");
    let weak = Arc::downgrade(&pool);
    drop(pool);
    assert_eq!(weak.strong_count(), 0, "the watcher keeps the pool alive");
    drop(watcher);
}

#[test]
fn what_is_missing_is_named() {
    let pool = touched_pool();
    let error = |source: &PressureSource| pool.watch_pressure(source, |_, _| ()).expect_err("refused").to_string();
    let missing = Path::new("/nonexistent/cgroup");
    let text = error(&PressureSource::cgroup_events(missing));
    assert!(text.starts_with("cannot watch /nonexistent/cgroup/memory.events: No such file"), "{text}");
    assert!(
        text.ends_with("it needs cgroup v2 with the memory controller, and a cgroup other than the root"),
        "{text}"
    );
    let text = error(&PressureSource::cgroup(missing));
    assert!(text.contains("memory.pressure: No such file") && text.contains("psi=1"), "{text}");
    let folder = Folder::new("wrong", "nothing\n");
    let text = error(&PressureSource::cgroup_events(&folder.0));
    assert!(
        text.ends_with("it has no counters high, max and oom; try the folder of a cgroup v2 below its root"),
        "{text}"
    );
    let seconds = Duration::from_secs;
    for (stall, window) in [(seconds(0), seconds(2)), (seconds(3), seconds(2)), (seconds(1), seconds(11))] {
        let text = error(&PressureSource::system().stall(stall, window));
        let allowed = "try a window of 500ms to 10s, and a stall of 1us up to it";
        assert_eq!(text, format!("cannot watch for stalls of {stall:?} in {window:?}: {allowed}"));
    }
}

/// The kernel accepts a trigger. With `PAGESET_PRESSURE_SECONDS=60`, the test waits so long for a stall of 1 ms, which somebody
/// else causes: for example, a `dd` of a large file in a memory cgroup with a limit of a few MiB.
#[test]
fn the_system_accepts_the_trigger() {
    let pool = touched_pool();
    let (report, reports) = sender();
    let source = PressureSource::system().stall(Duration::from_millis(1), Duration::from_secs(2));
    let watcher = match pool.watch_pressure(&source, report) {
        Ok(watcher) => watcher,
        Err(error) => return println!("SKIPPED the_system_accepts_the_trigger: {error}"),
    };
    if let Some(seconds) = std::env::var("PAGESET_PRESSURE_SECONDS").ok().and_then(|text| text.parse().ok()) {
        assert_eq!(reports.recv_timeout(Duration::from_secs(seconds)), Ok(Pressure::Stall));
        wait_until_given_back(&pool);
    }
    drop(watcher);
}
