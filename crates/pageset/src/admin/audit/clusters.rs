//! The clusters of order-0 lists: each descriptor in use stands for one run of pages, with its length and its tail.

use super::{Audit, Inconsistency};
use crate::frame::MigrateType;
use crate::frame::Order;
use crate::history::cluster::Cluster;
use crate::machine::Machine;

impl<M: Machine> Audit<'_, '_, M> {
    /// Walks the lists that have clusters. The lists themselves have been checked.
    pub(super) fn clusters(&self) -> Result<(), Inconsistency> {
        let (zone, links) = (self.zone, self.zone.frames.links);
        let mut runs = 0;
        for list in MigrateType::ALL.iter().filter(|migratetype| zone.has_clusters(Order::ZERO, **migratetype)) {
            let list = zone.list(Order::ZERO, *list);
            let mut at = list.first();
            while let Some(first) = at {
                let (mut last, mut len) = (first, 1);
                at = list.after(links, first);
                let Some(cluster) = zone.clusters.of(first) else { continue };
                while let Some(next) = at.filter(|next| zone.clusters.of(*next) == Some(cluster)) {
                    (last, len) = (next, len + 1);
                    at = list.after(links, next);
                }
                self.cluster(cluster, first, last, len)?;
                runs += 1;
            }
        }
        self.equal("clusters in use against those on lists", zone.clusters.in_use().into(), runs)
    }

    /// Checks a cluster against its run of pages.
    fn cluster(&self, cluster: Cluster, first: u32, last: u32, len: u32) -> Result<(), Inconsistency> {
        let clusters = &self.zone.clusters;
        if !clusters.is_known(cluster) {
            return self.error(Some(first), "the cluster of a page was never made", 0, cluster.0.into());
        }
        if clusters.len(cluster) != len {
            return self.error(Some(first), "the length of a cluster", clusters.len(cluster).into(), len.into());
        }
        if clusters.tail(cluster) != last {
            return self.error(Some(first), "the tail of a cluster", clusters.tail(cluster).into(), last.into());
        }
        Ok(())
    }
}
