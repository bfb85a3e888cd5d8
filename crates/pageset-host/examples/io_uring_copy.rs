//! Copies a file with io_uring. The buffers are runs of a pool whose memory is registered once, as a whole.
//!
//! `cargo run --release -p pageset-host --example io_uring_copy [MIB] [FOLDER]` (default: 64, the folder for temporary files)
//!
//! The copy bypasses the page cache (`O_DIRECT`) where the file system allows it, and is compared with the source. Prints
//! `SKIPPED` and a reason where the system has no io_uring for this user.

use std::env;
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use io_uring::{IoUring, opcode, squeue, types};
use pageset_host::{GiveBack, OnFork, Order, PAGE_BYTES, PagePool, Pages};

/// The size of the pool and of the registered buffer in bytes. io_uring allows 1 GiB for each buffer.
const POOL_BYTES: u64 = 16 << 20;
/// Runs of 2^5 pages, 128 KiB: one request each.
const ORDER: u8 = 5;
/// Requests under way at a time.
const DEPTH: usize = 32;
/// The registered buffer: all of the pool.
const BUFFER: u16 = 0;

/// A part of the file that is being copied, and its buffer.
struct Block<'p> {
    buffer: Pages<&'p PagePool>,
    offset: u64,
    is_written: bool,
}

/// The next request for a block: a read, then a write.
fn request(block: &mut Block<'_>, number: usize, from: &File, to: &File) -> squeue::Entry {
    let (start, length) = (block.buffer.as_mut_ptr(), block.buffer.len() as u32);
    let entry = if block.is_written {
        opcode::WriteFixed::new(types::Fd(to.as_raw_fd()), start, length, BUFFER).offset(block.offset).build()
    } else {
        opcode::ReadFixed::new(types::Fd(from.as_raw_fd()), start, length, BUFFER).offset(block.offset).build()
    };
    entry.user_data(number as u64)
}

/// Copies `bytes`, a multiple of the size of a run.
fn copy(ring: &mut IoUring, pool: &PagePool, from: &File, to: &File, bytes: u64) -> Result<(), Box<dyn Error>> {
    let order = Order::new(ORDER).ok_or("an order")?;
    let mut blocks: Vec<Option<Block<'_>>> = (0..DEPTH).map(|_| None).collect();
    let (mut next, mut done) = (0, 0);
    let mut ready: Vec<usize> = (0..DEPTH).collect();
    while done < bytes {
        for number in std::mem::take(&mut ready) {
            let slot = &mut blocks[number];
            if slot.is_none() && next < bytes {
                let buffer = pool.pages(order)?;
                next += buffer.len() as u64;
                *slot = Some(Block { offset: next - buffer.len() as u64, buffer, is_written: false });
            }
            let Some(block) = slot else { continue };
            let entry = request(block, number, from, to);
            // SAFETY: (1) the buffer and the files live until the request completes, because `blocks` keeps the buffer;
            // (2) nothing else uses the buffer meanwhile.
            unsafe { ring.submission().push(&entry)? };
        }
        ring.submit_and_wait(1)?;
        for completion in ring.completion() {
            let number = completion.user_data() as usize;
            let block = blocks[number].as_mut().ok_or("a completion of no request")?;
            if completion.result() < 0 {
                return Err(io::Error::from_raw_os_error(-completion.result()).into());
            }
            if completion.result() as usize != block.buffer.len() {
                return Err(format!("a request of {} bytes did {}", block.buffer.len(), completion.result()).into());
            }
            if block.is_written {
                done += block.buffer.len() as u64;
                // Dropping the handle frees the run. The next block gets it from the cache of this CPU.
                blocks[number] = None;
            } else {
                block.is_written = true;
            }
            ready.push(number);
        }
    }
    Ok(())
}

/// Opens a file without the page cache, or with it where the file system allows no other way.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<(File, bool)> {
    match options.clone().custom_flags(libc::O_DIRECT).open(path) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok((options.open(path)?, false)),
        Err(error) => Err(error),
    }
}

/// Files that are removed at the end.
struct Files([PathBuf; 2]);

impl Drop for Files {
    fn drop(&mut self) {
        self.0.iter().for_each(|path| drop(fs::remove_file(path)));
    }
}

/// Writes `bytes` that differ from block to block.
fn make_source(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = io::BufWriter::new(File::create(path)?);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..bytes / 8 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.write_all(&state.to_ne_bytes())?;
    }
    file.into_inner()?.sync_all()
}

fn have_same_bytes(paths: &[PathBuf; 2]) -> io::Result<bool> {
    let (mut one, mut other) = (File::open(&paths[0])?, File::open(&paths[1])?);
    let (mut a, mut b) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    loop {
        let length = one.read(&mut a)?;
        other.read_exact(&mut b[..length])?;
        if length == 0 || a[..length] != b[..length] {
            return Ok(length == 0);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mib: u64 = env::args().nth(1).map_or(Ok(64), |text| text.parse())?;
    let folder = env::args().nth(2).map_or_else(env::temp_dir, PathBuf::from);
    // The kernel keeps the pages of this moment: all are resident, none goes back, and a fork copies none.
    let builder = PagePool::builder(POOL_BYTES).name("io buffers").on_fork(OnFork::Absent);
    let pool = builder.prefault(true).give_back(GiveBack::OFF).build()?;
    let space = pool.memory().address_space();
    let buffer = libc::iovec { iov_base: space.as_ptr().cast(), iov_len: space.len() };
    let registered = IoUring::new(DEPTH as u32).and_then(|ring| {
        // SAFETY: the memory stays mapped until the ring is dropped, which is before the pool.
        unsafe { ring.submitter().register_buffers(&[buffer])? };
        Ok(ring)
    });
    let mut ring = match registered {
        Ok(ring) => ring,
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            println!("SKIPPED io_uring_copy: the system refuses io_uring: {error}");
            return Ok(());
        }
        Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => {
            println!("SKIPPED io_uring_copy: ulimit -l allows less than {POOL_BYTES} bytes of locked memory");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let path = |name| folder.join(format!("pageset-io-uring-{}-{name}", std::process::id()));
    let files = Files([path("source"), path("copy")]);
    let bytes = mib << 20;
    make_source(&files.0[0], bytes)?;
    let (from, reads_directly) = open(&files.0[0], OpenOptions::new().read(true))?;
    let (to, writes_directly) = open(&files.0[1], OpenOptions::new().write(true).create(true).truncate(true))?;
    let began = Instant::now();
    copy(&mut ring, &pool, &from, &to, bytes)?;
    let took = began.elapsed();
    println!("copied {mib} MiB in {:.3} s, {:.0} MiB/s", took.as_secs_f64(), mib as f64 / took.as_secs_f64());
    println!("O_DIRECT: {} of the source, {} of the copy", reads_directly, writes_directly);
    let stats = pool.stats();
    println!("runs of {} KiB: {} allocated", (PAGE_BYTES << ORDER) >> 10, stats.alloc_bytes >> (12 + ORDER));
    drop(ring);
    if stats.in_use_bytes > 0 {
        return Err(format!("{} bytes of buffers are still in use", stats.in_use_bytes).into());
    }
    if !have_same_bytes(&files.0)? {
        return Err("the copy differs".into());
    }
    println!("the copy has the same bytes");
    Ok(())
}
