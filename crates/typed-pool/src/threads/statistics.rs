//! Statistics of a family: walks over the units of all records.

use ephemera_prim::account::Account;
use ephemera_prim::record::Record;
use ephemera_prim::sync::{Ordering, fence};

use super::lease_end::{release, trim_leftovers};
use super::ledger::Ledger;
use super::state::{Family, PoolRecord, ThreadHeap};
use super::table::Heaps;
use crate::stats::Stats;

/// Returns the bytes that a family holds, and its units, live slots and large blocks. `holds`
/// returns whether the calling thread holds a record.
pub(super) fn stats_of(family: &Family, holds: impl Fn(&Record<PoolRecord>) -> bool) -> Stats {
    let mut stats = Stats::of_account(family.account().now());
    for record in family.records() {
        let Some(heaps) = Heaps::find(record, family) else { continue };
        stats.state_bytes += family.heaps() * size_of::<ThreadHeap>();
        heaps.first().tally.add_to(&mut stats);
        gather_record(&mut stats, heaps, holds(record));
    }
    stats.extra_records = family.registry().later_records();
    stats.clear_negative_sums();
    stats.add_large();
    stats
}

/// Adds the units and live slots of a table to `stats`. `owned` says whether the calling thread
/// holds the table's record. If no thread holds that record, this function leases it for the walk.
fn gather_record(stats: &mut Stats, heaps: Heaps<'_>, owned: bool) {
    if owned {
        return heaps.gather(stats, true);
    }
    let record = heaps.first().record();
    let lease = record.try_lease();
    heaps.gather(stats, lease.is_some());
    if let Some(lease) = lease {
        return release(lease);
    }
    record.data().walks.fetch_add(1, Ordering::Relaxed);
    // ORDERING: SeqCst fence. Pairs with the one in `Lease::release`. Either the thread that
    // releases the record sees that this walk is over, or this thread sees the units that the other
    // thread left.
    fence(Ordering::SeqCst);
    if !weakened!("walker_leaves_the_rest") {
        trim_leftovers(record);
    }
}

/// Returns the units and live slots of a scope with these records. Also returns the large blocks
/// and bytes that count for the scope.
pub(super) fn stats_of_scope<'w>(
    family: &'w Family,
    records: impl Iterator<Item = &'w Record<PoolRecord>>,
    ledger: &Ledger,
) -> Stats {
    let mut stats = Stats::of_account(ledger.booked());
    for record in records {
        let Some(heaps) = Heaps::find(record, family) else { continue };
        gather_record(&mut stats, heaps, false);
    }
    stats.add_large();
    stats
}
