//! Two hosts in network namespaces of their own, each with a plain UDP socket:
//!
//! ```text
//! sender s0 10.0.0.1 ---- s1  forwarder  r1 ---- r0 10.0.0.2 echoes
//! ```
//!
//! The namespaces belong to threads of this process, so the kernel removes all interfaces when the process ends.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::thread::{UnshareFlags, gettid, unshare_unsafe};

/// The datagrams that are under way at a time, below the room of each ring and socket.
const WINDOW: u64 = 32;
/// The bytes of each datagram.
const DATAGRAM: usize = 1000;
const PORT: u16 = 4789;
/// The number of datagrams that do not count.
const WARM_UP: u64 = u64::MAX;

/// Gives this thread a network namespace of its own.
fn own_namespace() -> Result<(), String> {
    // SAFETY: the flag changes the network of this thread only, and no descriptors.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(|error| format!("no namespace of its own: {error}"))
}

/// Runs `ip` in the namespace of this thread.
fn ip(arguments: &str) -> Result<(), String> {
    let out =
        Command::new("ip").args(arguments.split(' ')).output().map_err(|error| format!("no program ip: {error}"))?;
    let error = String::from_utf8_lossy(&out.stderr);
    if out.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {}", error.trim())) }
}

/// A socket whose datagrams have no checksum: an interface of this kind leaves it to the next one, and AF_XDP computes none.
fn socket(address: &str) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((address, PORT))?;
    let on: libc::c_int = 1;
    let (value, size) = ((&raw const on).cast(), size_of_val(&on) as libc::socklen_t);
    // SAFETY: the value has the size that the call gets.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, value, size) };
    if result == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
}

/// A thread in a namespace of its own.
struct Host {
    tid: i32,
    /// Tells the thread that its interface is there.
    connected: Sender<()>,
    /// The thread says that it has its address.
    ready: Receiver<Result<(), String>>,
}

impl Host {
    /// Starts a thread that calls `run` with its socket.
    fn start(
        interface: &'static str,
        address: &'static str,
        run: impl FnOnce(UdpSocket) + Send + 'static,
    ) -> Result<Host, String> {
        let ((tid, got_tid), (connected, wait)) = (channel(), channel());
        let (set_ready, ready) = channel();
        thread::spawn(move || {
            let entered = own_namespace().map(|()| gettid().as_raw_nonzero().get());
            let is_alone = entered.is_ok();
            if tid.send(entered).is_err() || !is_alone || wait.recv().is_err() {
                return;
            }
            let up = ip(&format!("addr add {address}/24 dev {interface}"))
                .and_then(|()| ip(&format!("link set {interface} up")))
                .and_then(|()| socket(address).map_err(|error| format!("no socket: {error}")));
            match up {
                Ok(socket) => {
                    let _ = set_ready.send(Ok(()));
                    run(socket);
                }
                Err(error) => drop(set_ready.send(Err(error))),
            }
        });
        let tid = got_tid.recv().map_err(|error| error.to_string())??;
        Ok(Host { tid, connected, ready })
    }

    /// Moves one end of a new pair of interfaces to the host, and keeps the other.
    fn connect(&self, here: &str, there: &str) -> Result<(), String> {
        ip(&format!("link add {here} type veth peer name {there}"))?;
        ip(&format!("link set {there} netns {}", self.tid))?;
        ip(&format!("link set {here} up"))?;
        self.connected.send(()).map_err(|error| error.to_string())?;
        self.ready.recv().map_err(|error| error.to_string())?
    }
}

/// The result of the sender: datagrams that it sent, and those that came back once, with the bytes that it sent.
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) back: u64,
}

fn datagram(number: u64) -> [u8; DATAGRAM] {
    let mut bytes = [number as u8; DATAGRAM];
    bytes[..8].copy_from_slice(&number.to_ne_bytes());
    bytes
}

fn echo(socket: &UdpSocket) {
    let mut bytes = [0; DATAGRAM];
    while let Ok((length, from)) = socket.recv_from(&mut bytes) {
        let _ = socket.send_to(&bytes[..length], from);
    }
}

/// Receives a datagram with the bytes that the sender gave it, and returns its number. `None`: none came within the timeout.
fn receive(socket: &UdpSocket) -> io::Result<Option<u64>> {
    let mut bytes = [0; DATAGRAM];
    loop {
        match socket.recv(&mut bytes) {
            Ok(length) => {
                let (number, _) = bytes.split_first_chunk().ok_or(io::ErrorKind::InvalidData)?;
                let number = u64::from_ne_bytes(*number);
                if length == DATAGRAM && bytes == datagram(number) {
                    return Ok(Some(number));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

fn send(socket: &UdpSocket, count: u64) -> io::Result<Counts> {
    let receiver = ("10.0.0.2", PORT);
    // New interfaces drop packets for up to a second. The hosts also find each other's addresses first.
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    for _ in 0..50 {
        socket.send_to(&datagram(WARM_UP), receiver)?;
        if receive(socket)?.is_some() {
            break;
        }
    }
    while receive(socket)?.is_some() {}

    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut counts = Counts { sent: 0, back: 0 };
    while counts.sent < count {
        let window = WINDOW.min(count - counts.sent);
        for number in counts.sent..counts.sent + window {
            socket.send_to(&datagram(number), receiver)?;
        }
        let missing = &mut vec![true; window as usize];
        for _ in 0..window {
            let Some(number) = receive(socket)? else { break };
            let slot = number.checked_sub(counts.sent).and_then(|slot| missing.get_mut(slot as usize));
            counts.back += u64::from(slot.is_some_and(std::mem::take));
        }
        counts.sent += window;
    }
    Ok(counts)
}

/// Builds the network, and moves this thread to the namespace of the forwarder, which has the interfaces `s1` and `r1`. The
/// sender starts when the returned channel gets a number of datagrams.
pub(crate) fn build() -> Result<(Sender<u64>, Receiver<io::Result<Counts>>), String> {
    own_namespace()?;
    let ((start, started), (counted, counts)) = (channel::<u64>(), channel());
    let receiver = Host::start("r0", "10.0.0.2", |socket| echo(&socket))?;
    let sender = Host::start("s0", "10.0.0.1", move |socket| {
        if let Ok(count) = started.recv() {
            let _ = counted.send(send(&socket, count));
        }
    })?;
    receiver.connect("r1", "r0")?;
    sender.connect("s1", "s0")?;
    Ok((start, counts))
}
