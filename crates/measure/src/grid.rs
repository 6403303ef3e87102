//! Tables of text: rows of cells, with the head first.
#![forbid(unsafe_code)]

/// Returns a number of bytes in MiB, with one digit after the point.
pub fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

/// Returns a grid whose first row is `head`, followed by `rows`.
pub fn grid<const N: usize>(head: [&str; N], rows: impl Iterator<Item = Vec<String>>) -> Vec<Vec<String>> {
    core::iter::once(head.map(str::to_owned).to_vec()).chain(rows).collect()
}

/// A column of a table: its head, and the function that returns the cell of a row.
pub type Column<R> = (&'static str, fn(&R) -> String);

/// Returns the grid of a table with these columns.
pub fn columns<'r, R: 'r>(columns: &[Column<R>], rows: impl IntoIterator<Item = &'r R>) -> Vec<Vec<String>> {
    let head = columns.iter().map(|(head, _)| (*head).to_owned()).collect();
    let cells = |row| columns.iter().map(|(_, cell)| cell(row)).collect();
    core::iter::once(head).chain(rows.into_iter().map(cells)).collect()
}

/// Returns a grid as lines for a terminal, with each column as wide as its widest cell. The columns
/// for which `right` returns true are aligned to the right. With `rule`, a line of dashes follows
/// the head.
pub fn aligned(grid: &[Vec<String>], right: impl Fn(usize) -> bool, rule: bool) -> String {
    let columns = grid.iter().map(Vec::len).max().unwrap_or(0);
    let wide = |column: usize| {
        let cells = grid.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(wide).collect();
    let line = |row: &[String]| {
        let padded = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if right(column) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let dashes: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
    let mut lines: Vec<String> = grid.iter().map(|row| line(row)).collect();
    if rule && !lines.is_empty() {
        lines.insert(1, line(&dashes));
    }
    lines.concat()
}

/// Returns a grid as a Markdown table.
pub fn piped(grid: &[Vec<String>]) -> String {
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut lines: Vec<String> = grid.iter().map(line).collect();
    if let Some(head) = grid.first() {
        lines.insert(1, format!("|{}\n", "---|".repeat(head.len())));
    }
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_cells_of_markdown_are_escaped() {
        let rows = [["ccc", "–", "x|y"]].map(|row| row.map(str::to_owned).to_vec());
        let grid = grid(["a", "bb", ""], rows.clone().into_iter());
        let cell: [Column<Vec<String>>; 3] =
            [("a", |row| row[0].clone()), ("bb", |row| row[1].clone()), ("", |row| row[2].clone())];
        assert_eq!(columns(&cell, &rows), grid);
        assert_eq!(aligned(&grid, |_| false, true), "a    bb\n---  --  ---\nccc  –   x|y\n");
        assert_eq!(aligned(&grid, |column| column == 1, false), "a    bb\nccc   –  x|y\n");
        assert_eq!(piped(&grid), "| a | bb |  |\n|---|---|---|\n| ccc | – | x\\|y |\n");
        assert_eq!((aligned(&[], |_| true, true), piped(&[])), (String::new(), String::new()));
    }
}
