//! What the checks report, each in a process of its own, since a report ends it.

use alloc::string::String;
use std::process::Command;

use super::TAIL;
use crate::RingAl;

/// Tells the child which of the misuses below is its own.
const CHILD: &str = "RINGAL_MISUSE";

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

/// Runs this test again as a child that misuses a buffer, and returns what it said, and whether it ended well.
fn child(name: &str) -> (bool, String) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "checked::tests::misuse_is_reported_where_it_happened", "--nocapture"]);
    let output = child.env(CHILD, name).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
#[cfg_attr(
    any(miri, ephemera_poison = "asan"),
    ignore = "starts processes, and the sanitizer is there first"
)]
fn misuse_is_reported_where_it_happened() {
    if let Ok(name) = std::env::var(CHILD) {
        let ended = std::panic::catch_unwind(|| misuse(&name));
        // Only what was not reported, or unwound, gets here.
        std::process::exit(if ended.is_ok() { 0 } else { 3 });
    }
    assert!(child("none").0, "{}", child("none").1);
    for (name, words) in [
        ("overrun", "a buffer of 61 bytes at"),
        ("overrun", "was overrun by 3 or more"),
        ("underrun", "the guard in front of a buffer of 61 bytes"),
        ("far", "the guard in front of a buffer of 10 bytes"),
        ("look", "was overwritten"),
        ("twice", "was released twice"),
        ("frozen", "was overrun by 32 or more"),
    ] {
        let (well, said) = child(name);
        assert!(!well && said.contains(words), "{name}: {said}");
    }
}
