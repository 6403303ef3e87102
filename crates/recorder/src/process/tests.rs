//! Names of a child's trace, and what a recording is not started with.

use super::*;

#[test]
fn suffixes() {
    for (pid, image, said) in [(1, 0, ".1"), (4_294_967_295, 9_999, ".4294967295.9999"), (10, 10, ".10.10")] {
        let mut out = [0; SUFFIX];
        let length = write_suffix(&mut out, pid, image);
        assert_eq!(core::str::from_utf8(&out[..length]), Ok(said));
    }
}

#[test]
fn what_is_no_use_is_refused() {
    assert_eq!(start(c"", 1 << 20), Err(StartError::Path { length: 0 }));
    assert!(matches!(start(c"x", 100), Err(StartError::Limit { least: 36_864 })));
    let long = [b'a'; PATH];
    assert_eq!(launch(&long, 1 << 20, Origin::Call), Err(StartError::Path { length: PATH }));
    let longest = crate::LONGEST_PATH + 1;
    assert_eq!(launch(&long[..longest], 1 << 20, Origin::Call), Err(StartError::Path { length: longest }));
    assert_eq!(crate::LONGEST_PATH, PATH - SUFFIX - 1, "one byte less is taken");
}
