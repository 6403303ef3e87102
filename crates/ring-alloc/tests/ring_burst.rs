//! Tests that the memory of a burst in a ring without a backing allocator leaves the process while
//! the burst is freed, although the ring lives on. No operation follows the last free. The test
//! runs in its own process, because all threads of a process share the cache of spans.
#![cfg(all(feature = "std", target_os = "linux", target_pointer_width = "64", not(miri)))]
// The shadow memory of AddressSanitizer stays resident.
#![cfg(not(ephemera_poison = "asan"))]

use allocator_api2::boxed::Box;
use ephemera_testkit::bursts::{huge_page_excess, measured};
use ring_alloc::RingAlloc;

const BURST: usize = 64 << 20;

/// The number of bytes that may stay resident: cached spans, and other memory.
const KEPT: usize = 6 << 20;

#[test]
fn burst_in_a_ring_leaves_while_the_ring_lives_on() {
    let ring = RingAlloc::new();
    let burst = || -> Vec<_> {
        (0..BURST / 1_024).map(|number| Some(Box::new_in([number as u64; 128], ring.clone()))).collect()
    };
    let memory = measured(burst, |blocks| blocks.iter_mut().for_each(|block| *block = None));
    let left = (memory.after + BURST).saturating_sub(memory.peak);
    assert!(left < KEPT + huge_page_excess(1), "{left} bytes stay");
    assert_eq!(ring.stats().blocks_live(), 0);
}
