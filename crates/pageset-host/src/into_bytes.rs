//! Conversion of handles into `bytes::Bytes` without a copy. The last `Bytes` of a run frees it.

use bytes::Bytes;

use crate::contig::ContigPages;
use crate::pages::{Pages, PoolRef};

impl<P: PoolRef + Send + 'static> From<Pages<P>> for Bytes {
    fn from(pages: Pages<P>) -> Bytes {
        Bytes::from_owner(pages)
    }
}

impl<P: PoolRef + Send + 'static> From<ContigPages<P>> for Bytes {
    fn from(pages: ContigPages<P>) -> Bytes {
        Bytes::from_owner(pages)
    }
}
