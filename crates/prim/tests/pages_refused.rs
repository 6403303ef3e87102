//! Tests of pages while the operating system refuses calls.
#![cfg(all(feature = "std", not(miri)))]

#[path = "support/owned.rs"]
#[expect(dead_code, reason = "these tests do not look at the bytes of blocks")]
mod owned;

use ephemera_prim::pages::{self, Pages};
use ephemera_prim::traits::Allocator;
use ephemera_testkit::suite::take_turn;
use owned::{Owned, layout};

#[test]
fn a_refusal_by_the_system_loses_nothing_and_the_next_call_succeeds() {
    take_turn();
    /// Allocates, grows and frees blocks of every kind, and adds the number of refusals to
    /// `refused`.
    fn work(refused: &mut usize) {
        let sizes = [1, 32 << 10, 200_000, 1 << 20, 3 << 20, 40 << 20];
        let mut blocks = Vec::new();
        for size in sizes.into_iter().cycle().take(18) {
            match Owned::new(layout(size, 8)) {
                Some(block) => {
                    // SAFETY: the block has at least one byte.
                    unsafe { block.0.write(3) };
                    blocks.push(block);
                }
                None => *refused += 1,
            }
        }
        while let Some(block) = blocks.pop() {
            let new = layout(block.1.size() * 3, 16);
            let block = core::mem::ManuallyDrop::new(block);
            // SAFETY: the block is live with layout `block.1`, and `new` is larger.
            match unsafe { Pages.grow(block.0, block.1, new) } {
                Ok(grown) => {
                    // SAFETY: the first byte was written above.
                    assert_eq!(unsafe { grown.cast::<u8>().read() }, 3);
                    drop(Owned(grown.cast(), new));
                }
                Err(_) => {
                    *refused += 1;
                    drop(Owned(block.0, block.1));
                }
            }
        }
    }
    pages::purge();
    let idle = pages::usage();
    let (mut refused, mut number) = (0, 1);
    loop {
        pages::refuse_call(number);
        work(&mut refused);
        let calls_are_over = pages::refuse_call(0) != 0;
        assert!(Owned::new(layout(50 << 20, 8)).is_some(), "the next call succeeds");
        pages::purge();
        let now = pages::usage();
        assert_eq!((now.bytes_live, now.bytes_cached), (idle.bytes_live, 0), "call {number}");
        if calls_are_over {
            break;
        }
        number += 1;
    }
    assert!(number > 20, "the work makes many calls");
    pages::refuse_call(usize::MAX);
    refused = 0;
    work(&mut refused);
    pages::refuse_call(0);
    assert!(refused > 5, "all calls were refused");
    pages::purge();
    assert_eq!(pages::usage().bytes_live, idle.bytes_live);
    assert!(
        pages::usage().bytes_mapped <= idle.bytes_mapped + (38 << 20),
        "{idle:?}, then {:?}",
        pages::usage()
    );
}

#[test]
fn mappings_that_the_system_refused_to_unmap_leave_with_the_next_purge() {
    take_turn();
    pages::set_cache(0);
    pages::purge();
    let before = pages::usage();
    let blocks: Vec<_> = (2..6).map(|size| Owned::new(layout(size << 20, 8)).unwrap()).collect();
    pages::refuse_call(usize::MAX);
    drop(blocks);
    pages::purge();
    pages::refuse_call(0);
    let refused = pages::usage();
    assert!(refused.bytes_mapped >= before.bytes_mapped + (14 << 20), "{refused:?}");
    assert!(refused.bytes_cached >= before.bytes_cached + (14 << 20), "{refused:?}");
    pages::purge();
    let now = pages::usage();
    assert_eq!((now.bytes_mapped, now.bytes_cached), (before.bytes_mapped, before.bytes_cached));
    pages::set_cache(pages::CACHE);
}

#[test]
fn a_mapping_that_the_system_purged_but_refused_to_unmap_is_not_cached() {
    take_turn();
    pages::set_cache(0);
    pages::purge();
    let before = pages::usage();
    let block = Owned::new(layout(3 << 20, 8)).unwrap();
    pages::refuse_call(1);
    drop(block);
    assert_eq!(pages::refuse_call(0), 0, "the free unmaps the block");
    let refused = pages::usage();
    assert_eq!(refused.bytes_mapped, before.bytes_mapped + (3 << 20));
    assert_eq!((refused.bytes_live, refused.bytes_cached), (before.bytes_live, before.bytes_cached));
    // A block of this size takes the mapping.
    let block = Owned::new(layout(3 << 20, 8)).unwrap();
    assert_eq!(pages::usage().bytes_mapped, refused.bytes_mapped);
    pages::refuse_call(1);
    drop(block);
    pages::refuse_call(0);
    // Looks unmap the mapping, although nothing is cached.
    for _ in 0..64 * 40 {
        drop(Owned::new(layout(32 << 10, 8)));
    }
    let now = pages::usage();
    // The superblock of the small blocks stays mapped.
    assert!(now.bytes_mapped <= before.bytes_mapped + (2 << 20), "{before:?}, then {now:?}");
    pages::set_cache(pages::CACHE);
}
