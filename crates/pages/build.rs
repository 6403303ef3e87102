//! Writes a Markdown page with both sides of each change of Rust code in the workspace's pages. A
//! change is a `diff` block. `src/lib.rs` runs both sides as documentation tests.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// The paths of the pages, relative to the root of the workspace.
const PAGES: [&str; 6] = [
    "README.md",
    "docs/guide.md",
    "crates/ring-alloc/README.md",
    "crates/ringal/README.md",
    "crates/shared_arena/README.md",
    "crates/typed-pool/README.md",
];

/// A stand-in for the package `mimalloc`. The package needs a C compiler, but the workspace must
/// build without one.
const MIMALLOC: &str = "\
mod mimalloc {
    pub struct MiMalloc;
    // SAFETY: every call goes to `System`, which meets the contract.
    unsafe impl std::alloc::GlobalAlloc for MiMalloc {
        unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
            unsafe { std::alloc::System.alloc(layout) }
        }
        unsafe fn dealloc(&self, block: *mut u8, layout: std::alloc::Layout) {
            unsafe { std::alloc::System.dealloc(block, layout) }
        }
    }
}
";

fn main() -> ExitCode {
    match write() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the changes cannot be read from the pages: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut out = String::new();
    for page in PAGES {
        println!("cargo::rerun-if-changed=../../{page}");
        let text = fs::read_to_string(root.join(page))?;
        for change in blocks(&text).filter(|change| !change.contains("[dependencies]")) {
            out.push_str(&format!("In `{page}`, before:\n\n{}", side(&change, '-')));
            out.push_str(&format!("In `{page}`, after:\n\n{}", side(&change, '+')));
        }
    }
    let dir = std::env::var_os("OUT_DIR").unwrap_or_default();
    fs::write(Path::new(&dir).join("changes.md"), out)
}

/// Returns the content of each `diff` block.
fn blocks(text: &str) -> impl Iterator<Item = String> {
    let mut lines = text.lines();
    core::iter::from_fn(move || {
        lines.find(|line| *line == "```diff")?;
        let inside: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        Some(inside.join("\n"))
    })
}

/// Returns one side of a change as a block of Rust code: the common lines, and the lines that begin
/// with `mark`.
fn side(change: &str, mark: char) -> String {
    let mut code = String::from("```rust\n");
    if change.contains("mimalloc::") {
        // A program has one global allocator, so rustdoc must not merge this test with others.
        code = format!("```rust,standalone_crate\n{MIMALLOC}");
    }
    for line in change.lines() {
        if let Some(kept) = line.strip_prefix([' ', mark]) {
            code.push_str(kept);
            code.push('\n');
        } else if line.is_empty() {
            code.push('\n');
        }
    }
    code + "```\n\n"
}
