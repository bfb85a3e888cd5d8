//! Ends the program if a thread makes no progress.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{process, thread};

use crate::{COUNTS, THREADS};

/// How long a thread may stay in one operation. The longest operation takes milliseconds.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// What each worker does since when, and then the main thread. `None` for a worker that has ended.
static AT: [Mutex<Option<(&str, Instant)>>; THREADS + 1] = [const { Mutex::new(None) }; THREADS + 1];

/// Notes that a thread begins an operation.
pub(crate) fn at(place: usize, operation: &'static str) {
    *AT[place].lock().unwrap_or_else(PoisonError::into_inner) = Some((operation, Instant::now()));
}

/// Notes that a worker has ended.
pub(crate) fn ended(place: usize) {
    *AT[place].lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Starts the watchdog's thread.
pub(crate) fn start() {
    thread::spawn(|| {
        loop {
            thread::sleep(Duration::from_secs(1));
            for (place, at) in AT.iter().enumerate() {
                let Some((operation, since)) = *at.lock().unwrap_or_else(PoisonError::into_inner) else { continue };
                if since.elapsed() > LIMIT {
                    eprintln!("error: thread {place} has been in `{operation}` for {:?}; {COUNTS:?}", since.elapsed());
                    print_all();
                    process::abort();
                }
            }
        }
    });
}

/// Prints what each thread does: one that waits may not be the cause.
fn print_all() {
    for (place, at) in AT.iter().enumerate() {
        match *at.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((operation, since)) => eprintln!("thread {place}: `{operation}` for {:?}", since.elapsed()),
            None => eprintln!("thread {place}: ended"),
        }
    }
}
