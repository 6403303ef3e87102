//! Tests that the memory of a burst leaves the process while the thread that allocated the burst
//! frees it, and that repeated bursts keep their pages. No operation follows the last free, and no
//! thread trims. The test runs in its own process, because all threads of a process share the cache
//! of spans.
#![cfg(all(feature = "std", target_os = "linux", target_pointer_width = "64", not(miri)))]
// The shadow memory of AddressSanitizer stays resident.
#![cfg(not(ephemera_poison = "asan"))]

use bursts::{BURST, KEPT, SHORT, burst, in_order, left};
use ephemera_testkit::bursts::{check_pages_are_kept, huge_page_excess, measured};

#[path = "support/bursts.rs"]
mod bursts;

#[test]
fn bursts_that_their_owner_frees_leave_unless_they_are_repeated() {
    let left = left(measured(|| burst(BURST), in_order));
    assert!(left < KEPT + huge_page_excess(1), "{left} bytes stay");
    let memory: Vec<_> = (0..10).map(|_| measured(|| burst(SHORT), in_order)).collect();
    check_pages_are_kept(&memory, SHORT);
}
