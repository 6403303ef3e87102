//! The rows and headings of the written tables: `xtask/readme.toml`.

use anyhow::{Context, Result};
use serde::Deserialize;

/// The tables that the pages and the picture show.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadmeTables {
    #[serde(rename = "class")]
    pub(super) classes: Vec<ReadmeClass>,
    #[serde(rename = "page")]
    pub(super) pages: Vec<CostsPage>,
}

/// A class of contenders.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadmeClass {
    /// The name of the class in the recorded run.
    pub(super) class: String,
    /// The heading of the class on the pages and in the picture.
    pub(super) heading: String,
    /// The picture's row for our allocator: the key of a contender, and the shown name.
    pub(super) ours: (String, String),
    /// The picture's row for the peer: the key of a contender, and the shown name, which is also
    /// the title of the column of peers in README.md.
    pub(super) peer: (String, String),
    pub(super) rows: Vec<FrontRow>,
}

/// A row of README.md: a workload, the key of the contender that README.md recommends for it, and
/// the key of the peer.
pub(super) type FrontRow = (String, String, String);

/// The README of a crate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CostsPage {
    /// The directory of the crate.
    pub(super) dir: String,
    /// The rows: a workload, and the key of a contender from this crate.
    pub(super) rows: Vec<(String, String)>,
}

/// Parses the tables of `xtask/readme.toml`, which is compiled into xtask.
pub(super) fn tables() -> Result<ReadmeTables> {
    toml::from_str(include_str!("../../readme.toml")).context("xtask/readme.toml")
}
