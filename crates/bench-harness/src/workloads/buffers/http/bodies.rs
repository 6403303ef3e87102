//! The pages that the server of R3 sends: the pages of the toolchain's documentation if it is
//! installed, and otherwise generated pages of similar sizes.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use rand::RngExt;
use rand::seq::SliceRandom;

use crate::workloads::blocks::json::toolchains;
use crate::workloads::draws::stream;

pub(crate) const PAGES: usize = 64;
/// The largest length of a page, in bytes. Longer pages are truncated.
pub(super) const LONGEST: usize = 64 * 1024;
/// The directories of the pages within a toolchain's documentation.
const FOLDERS: [&str; 3] = ["std/collections", "std/io", "std/vec"];

/// Returns the pages of this host. The first call reads or generates them.
pub(super) fn shared() -> &'static [Vec<u8>] {
    static SHARED: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    SHARED.get_or_init(|| installed().unwrap_or_else(|| generated(4141)))
}

/// Returns the first [`PAGES`] pages by name, in a fixed random order, or `None` if fewer pages are
/// installed.
fn installed() -> Option<Vec<Vec<u8>>> {
    let mut pages = toolchains().iter().find_map(|root| {
        let html = root.join("share/doc/rust/html");
        let mut found: Vec<PathBuf> = FOLDERS
            .iter()
            .filter_map(|folder| fs::read_dir(html.join(folder)).ok())
            .flat_map(|folder| folder.flatten().map(|file| file.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "html"))
            .collect();
        found.sort();
        found.truncate(PAGES);
        (found.len() == PAGES).then_some(found)
    })?;
    pages.shuffle(&mut stream(4141, 24));
    let read = |path: &PathBuf| {
        let mut page = fs::read(path).ok()?;
        page.truncate(LONGEST);
        (!page.is_empty()).then_some(page)
    };
    pages.iter().map(read).collect()
}

/// Generates pages of 2 to 64 KiB, with more short pages than long ones.
fn generated(seed: u64) -> Vec<Vec<u8>> {
    let mut rng = stream(seed, 25);
    let page = |_| {
        let length = (2048.0 * 32.0_f64.powf(rng.random::<f64>())) as usize;
        (0..length.min(LONGEST)).map(|_| b'a' + rng.random_range(0..26_u64) as u8).collect()
    };
    (0..PAGES).map(page).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_has_pages() {
        for pages in [shared().to_vec(), generated(1)] {
            assert_eq!(pages.len(), PAGES);
            assert!(pages.iter().all(|page| (1..=LONGEST).contains(&page.len())));
        }
        assert_eq!(generated(1), generated(1));
        assert_ne!(generated(1), generated(2));
    }
}
