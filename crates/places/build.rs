//! Hides the C library's function `__cxa_thread_atexit_impl` from the program `keyed`.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(keyed)");
    let target = |name| env::var(name).unwrap_or_default();
    if target("CARGO_CFG_TARGET_OS") == "linux" && target("CARGO_CFG_TARGET_ARCH") == "x86_64" {
        println!("cargo::rustc-cfg=keyed");
        // The standard library's weak reference to a symbol at address 0 is null, so the standard
        // library treats the function as missing.
        println!("cargo::rustc-link-arg-bin=keyed=-Wl,--defsym=__cxa_thread_atexit_impl=0");
    }
}
