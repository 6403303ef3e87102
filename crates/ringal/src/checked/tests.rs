//! What the checks report, each in a process of its own, since a report ends it.

use ephemera_testkit::child;

use super::TAIL;
use crate::RingAl;

fn misuse(name: &str) {
    let mut ring = RingAl::new(1024);
    let mut buffer = ring.fixed(61).unwrap();
    let data = buffer.as_mut_ptr();
    match name {
        "overrun" => {
            // SAFETY: in the store, three bytes behind the buffer. That this is not the buffer's is the point.
            unsafe { data.wrapping_add(61).write_bytes(0, 3) };
            drop(buffer);
        }
        "underrun" => {
            // SAFETY: the last bytes of its guard, which nobody may write: the word of this layout lies there.
            unsafe { data.wrapping_sub(16).write_bytes(0x11, 8) };
            drop(buffer);
        }
        "far" => {
            let neighbour = ring.fixed(10).unwrap();
            // SAFETY: in the store, over the margin and the neighbour's guard.
            unsafe { data.wrapping_add(61).write_bytes(0x22, 150) };
            core::mem::forget(buffer);
            drop(neighbour);
        }
        "look" => {
            // SAFETY: in the store, over the free region's guard that follows.
            unsafe { data.wrapping_add(61).write_bytes(0x33, 80) };
            core::mem::forget(buffer);
            drop(ring.fixed(1));
        }
        "twice" => {
            // SAFETY: a copy of a handle, of which one too many is dropped: that is the point.
            let copy = unsafe { core::ptr::read(&raw const buffer) };
            drop(buffer);
            drop(copy);
        }
        "frozen" => {
            // SAFETY: as in "overrun".
            unsafe { data.wrapping_add(61 + TAIL - 1).write_bytes(0, 1) };
            drop(buffer.freeze());
        }
        _ => drop(buffer),
    }
}

#[test]
#[cfg_attr(
    any(miri, ephemera_poison = "asan"),
    ignore = "starts processes, and the sanitizer is there first"
)]
fn misuse_is_reported_where_it_happened() {
    if let Some(name) = child::part() {
        child::end_unless_it_ends(|| misuse(&name));
    }
    let run = |name| child::run("checked::tests::misuse_is_reported_where_it_happened", name);
    let ended = run("none");
    assert!(ended.well(), "{ended:?}");
    for (name, words) in [
        ("overrun", "a buffer of 61 bytes at"),
        ("overrun", "was overrun by 3 or more"),
        ("underrun", "the guard in front of a buffer of 61 bytes"),
        ("far", "the guard in front of a buffer of 10 bytes"),
        ("look", "was overwritten"),
        ("twice", "was released twice"),
        ("frozen", "was overrun by 32 or more"),
    ] {
        let ended = run(name);
        assert!(!ended.well() && !ended.unwound() && ended.said.contains(words), "{name}: {ended:?}");
    }
}
