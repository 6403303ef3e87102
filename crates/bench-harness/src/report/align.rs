//! Formats tables as text.
#![forbid(unsafe_code)]

use core::fmt::Write;

/// Returns a grid as text, with each column padded to its widest cell. If `bars` is `true`, the
/// text is a Markdown table.
pub(super) fn align(grid: &[Vec<String>], bars: bool) -> String {
    let columns = grid.first().map_or(0, Vec::len);
    let wide = |column: usize| grid.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(wide).collect();
    let mut text = String::new();
    for (index, row) in grid.iter().enumerate() {
        let padded = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        let line = padded.collect::<Vec<_>>().join(if bars { " | " } else { "  " });
        let line = if bars { format!("| {line} |") } else { line.trim_end().to_owned() };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{line}");
        if index == 0 {
            let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
            let rule = if bars { format!("|-{}-|", rule.join("-|-")) } else { rule.join("  ") };
            let _ = writeln!(text, "{rule}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let grid = [["a", "bb"], ["ccc", "–"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(align(&grid, false), "a    bb\n---  --\nccc  –\n");
        assert_eq!(align(&grid, true), "| a   | bb |\n|-----|----|\n| ccc | –  |\n");
    }
}
