//! Reads and checks the table of negative controls, `xtask/controls.toml`.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::workspace::Workspace;

/// The table's path from the root.
pub(crate) const FILE: &str = "xtask/controls.toml";

/// The environment variable that chooses the weakening of a test run.
pub(crate) const VARIABLE: &str = "EPHEMERA_WEAKEN";

/// The number of Miri seeds for a row that sets none.
const SEEDS: u32 = 16;

/// One weakening and the test that must fail with it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Control {
    /// The name of the weakening. A weakening can have at most one control of each kind.
    pub(crate) name: String,
    /// The package whose test must fail. The weakened code may be in another package.
    pub(crate) package: String,
    /// The way in which the test is run.
    pub(crate) kind: ControlKind,
    /// The filter that chooses the test.
    pub(crate) test: String,
    /// The test target: `lib`, or the name of an integration test [default: all targets of the
    /// package].
    #[serde(default)]
    pub(crate) target: Option<String>,
    /// The number of seeds that Miri tries.
    #[serde(default = "seeds")]
    pub(crate) seeds: u32,
    /// One sentence that says what is weakened and what then goes wrong.
    pub(crate) what: String,
}

/// The way in which a control's test is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ControlKind {
    /// As a loom model.
    Loom,
    /// Under Miri, with many seeds.
    Miri,
    /// As an ordinary test.
    Test,
}

impl ControlKind {
    /// Returns the kind's name in the table.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Loom => "loom",
            Self::Miri => "miri",
            Self::Test => "test",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ControlTable {
    #[serde(default)]
    control: Vec<Control>,
}

fn seeds() -> u32 {
    SEEDS
}

/// Reads the table and checks its rows. If a row is faulty, returns an error that describes the
/// first fault.
pub(crate) fn load(ws: &Workspace) -> Result<Vec<Control>> {
    let text = std::fs::read_to_string(ws.root.join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
    parse(&text, ws).with_context(|| FILE.to_owned())
}

fn parse(text: &str, ws: &Workspace) -> Result<Vec<Control>> {
    let table: ControlTable = toml::from_str(text)?;
    let mut names = BTreeSet::new();
    for control in &table.control {
        let name = &control.name;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        {
            bail!("control `{name}`: a name consists of lower-case letters, digits and underscores");
        }
        if !names.insert((name, control.kind.word())) {
            bail!("control `{name}` is listed twice as {}", control.kind.word());
        }
        if control.test.is_empty() || control.what.is_empty() || control.seeds == 0 {
            bail!("control `{name}`: `test` and `what` may not be empty, nor `seeds` zero");
        }
        let package = ws.package(&control.package).with_context(|| format!("control `{name}`"))?;
        if let Some(target) = control.target.as_deref()
            && target != "lib"
            && !package.tests.iter().any(|test| test == target)
        {
            bail!("control `{name}`: {} has no integration test `{target}`", package.name);
        }
    }
    Ok(table.control)
}

#[cfg(test)]
mod tests {
    use super::{ControlKind, load, parse};
    use crate::workspace::Workspace;
    use crate::workspace::tests::sample;

    fn row(name: &str, more: &str) -> String {
        format!(
            "[[control]]\nname = \"{name}\"\npackage = \"prim\"\nkind = \"loom\"\ntest = \"loom_a\"\nwhat = \"w\"\n{more}\n"
        )
    }

    #[test]
    fn missing_fields_of_a_row_get_their_defaults() {
        let text = format!("{}{}", row("a_1", ""), row("b", "target = \"exit\"\nseeds = 3"));
        let rows = parse(&text, &sample()).unwrap();
        assert_eq!(
            (rows[0].kind, rows[0].seeds, rows[0].target.as_deref()),
            (ControlKind::Loom, super::SEEDS, None)
        );
        assert_eq!((rows[1].seeds, rows[1].target.as_deref()), (3, Some("exit")));
        assert!(parse("", &sample()).unwrap().is_empty());
    }

    #[test]
    fn a_faulty_row_is_refused_with_the_fault() {
        let said = |text: &str| format!("{:#}", parse(text, &sample()).unwrap_err());
        assert!(said(&format!("{}{}", row("a", ""), row("a", ""))).contains("twice"));
        let other = row("a", "").replace("loom\"", "miri\"");
        assert_eq!(parse(&format!("{}{other}", row("a", "")), &sample()).unwrap().len(), 2);
        assert!(said(&row("a-b", "")).contains("lower-case"));
        assert!(said(&row("a", "target = \"nothing\"")).contains("no integration test `nothing`"));
        assert!(said(&row("a", "colour = 1")).contains("colour"));
        assert!(said(&row("a", "").replace("prim", "ringal")).contains("no package is named `ringal`"));
    }

    #[test]
    fn the_committed_table_is_accepted() {
        load(&Workspace::load().unwrap()).unwrap();
    }
}
