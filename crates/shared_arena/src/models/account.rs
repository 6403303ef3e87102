//! A model of an account whose bytes another thread frees while a request is being refused.

use core::alloc::Layout;

use loom::sync::Arc;
use loom::thread;

use super::{Sent, check};
use crate::account::StoreAccount;

/// Another thread frees its bytes during a request of this thread, which the limit can refuse.
#[test]
fn loom_a_refusal_by_the_limit_reports_the_bytes_that_exceeded_it() {
    check(3, || {
        let layout = Layout::new::<[u64; 8]>();
        let account = Arc::new(StoreAccount::new(100));
        let free = move |account: &StoreAccount, block: Sent<u8>| {
            // SAFETY: this account granted the block with this layout, and no code uses the block.
            unsafe { account.release(block.0, layout) };
        };
        let block = Sent(account.acquire(layout).unwrap());
        let there = Arc::clone(&account);
        let other = thread::spawn(move || free(&there, block));
        match account.acquire(layout) {
            Ok(block) => free(&account, Sent(block)),
            Err(refused) => {
                assert!(refused.by_limit(), "{refused}");
                assert!(refused.held + refused.asked > refused.limit, "{refused}");
            }
        }
        other.join().unwrap();
        assert_eq!(account.bytes.held(), 0);
    });
}
