//! Whether this user can record on this machine.

use rustix::fs::{Access, access};

use crate::error::RecordError;
use crate::owner::require_own_proc;
use crate::setup::require_events;
use crate::tracefs::{Tracefs, no_permission};

/// Succeeds if this user can probably record: tracefs is there, it has the required events, and this user may create an
/// instance. Mounts and unmounts tracefs if it is not mounted and this user may mount it. Changes nothing else.
pub fn ready() -> Result<(), RecordError> {
    require_own_proc()?;
    let tracefs = Tracefs::find()?;
    require_events(&tracefs)?;
    let instances = tracefs.path("instances");
    access(&instances, Access::WRITE_OK).map_err(|_| no_permission(&instances))
}
