//! The thread that maintains a pool.

use std::time::Duration;

use crate::error::{Failure, catch_uncancelled_code, pageset_error};
use crate::handle::{pageset_pool, pool, replace_ticker, shared_pool};
use crate::signals::SignalsBlocked;

/// Starts a thread that does the work of pageset_tick on each CPU that the caller may use, once each `interval_ms`, at least
/// 1. About 1000 is right for most programs. If the pool has such a thread, the call ends that thread first.
///
/// The thread receives no signals. It ends with pageset_ticker_stop or with the pool. A forked child does not have it. Stop
/// it before the library is unloaded.
///
/// PAGESET_ERR_ARGUMENT if `interval_ms` is 0. PAGESET_ERR_SYSTEM if the system starts no thread. PAGESET_ERR_FORKED in a
/// forked child. A thread that was there before then keeps running.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_ticker_start(pool: *const pageset_pool, interval_ms: u32) -> pageset_error {
    catch_uncancelled_code(|| {
        // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
        let found = unsafe { shared_pool(pool)? };
        if interval_ms == 0 {
            let (name, allowed) = ("interval_ms", "1 to 4294967295");
            return Err(Failure::OutOfRange { name, value: 0, allowed });
        }
        if found.is_forked() {
            return Err(Failure::Forked("start a ticker"));
        }
        let ticker = {
            // The thread inherits the mask.
            let _blocked = SignalsBlocked::new();
            found.start_ticker(Duration::from_millis(interval_ms.into()), |_| ())?
        };
        // SAFETY: (1) the pool came from this handle; (2) the program guarantees that no other thread destroys it.
        drop(unsafe { replace_ticker(pool, &found, Some(ticker)) });
        Ok(())
    })
}

/// Ends the thread of pageset_ticker_start and waits for it, at most for one round of its work. Does nothing if there is no
/// such thread, and in a forked child.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_ticker_stop(pool: *const pageset_pool) -> pageset_error {
    catch_uncancelled_code(|| {
        // SAFETY: (1) the program guarantees a handle that no other thread destroys meanwhile; (2) the pool came from it.
        drop(unsafe { replace_ticker(pool, self::pool(pool)?, None) });
        Ok(())
    })
}
