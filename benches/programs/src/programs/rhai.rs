//! A scripting engine: rhai counts the words of the repository's pages and sorts a table.

use std::path::Path;

use rhai::{Engine, Scope};

use crate::checksum::{Checksum, ProgramResult};
use crate::files;

/// The script. The variable `text` holds the pages, and the script evaluates to the text of a
/// table.
const SCRIPT: &str = r#"
    let counts = #{};
    for line in text.split("\n") {
        for word in line.split(" ") {
            if word.len < 3 { continue; }
            let key = word.to_lower();
            counts[key] = (counts[key] ?? 0) + 1;
        }
    }
    let rows = [];
    for key in counts.keys() {
        rows.push(#{ word: key, times: counts[key], first: key.sub_string(0, 1) });
    }
    rows.sort(|one, other| {
        if one.times != other.times { return other.times - one.times; }
        if one.word < other.word { -1 } else { 1 }
    });
    let out = "";
    for (row, index) in rows {
        if index == 4000 { break; }
        out += row.first + ":" + row.word + "=" + row.times + "\n";
    }
    out
"#;

/// The maximum number of bytes that the script reads, over all pages.
const INPUT: usize = 200_000;

/// Compiles the script once and runs it twice over the pages.
pub(crate) fn run(root: &Path) -> ProgramResult {
    let mut text = files::texts(&root.join("docs"), "md")?.concat();
    text.truncate(text.floor_char_boundary(INPUT));
    let engine = Engine::new();
    let script = engine.compile(SCRIPT)?;
    let mut checksum = Checksum::new();
    for _ in 0..2 {
        let mut scope = Scope::new();
        scope.push("text", text.clone());
        let table: String = engine.eval_ast_with_scope(&mut scope, &script)?;
        checksum.bytes(table.as_bytes());
    }
    Ok(checksum)
}
