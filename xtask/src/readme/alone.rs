//! The tables of workloads that run each contender in a separate process, as the harness formatted
//! them.

use core::fmt::Write as _;

use anyhow::Result;
use ephemera_measure::grid::piped;

use super::recorded::RecordedBench;

/// Writes the section of the tables in `recorded.alone`, if there are any.
pub(super) fn section(out: &mut String, recorded: &RecordedBench) -> Result<()> {
    if recorded.alone.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "## Resident memory\n\n{}\n\nBy default, jemalloc keeps freed pages for ten seconds, and returns them only while the program calls it.\n",
        recorded.told()
    )?;
    for table in &recorded.alone {
        writeln!(out, "### {}\n\n{}; {}.\n", table.id, table.title, table.legend)?;
        writeln!(out, "{}", piped(&table.grid))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::recorded::RecordedBench;
    use super::section;

    const RUN: &str = r#"{"format": 1, "mode": "quick", "seed": 7, "processes": 3, "rounds": 15, "document": "d",
        "host": {"commit": "abc", "cpu": "a cpu", "cpus": 2, "kernel": "k", "libc": "l", "huge_pages": "h",
            "rustc": "r", "profile": "p"},
        "workloads": [],
        "alone": [{"id": "S12/idle/local", "class": "blocks", "title": "a burst", "legend": "in MiB", "rows": [],
            "grid": [["allocator", "asleep 1 s", "notes"], ["glibc", "93.1", "reference"]]}]}"#;

    #[test]
    fn tables_without_rounds_are_written_and_recorded() {
        let recorded = RecordedBench::parse(RUN).unwrap();
        let mut page = String::new();
        section(&mut page, &recorded).unwrap();
        assert!(page.contains("## Resident memory\n\nCommit abc"), "{page}");
        let table = "### S12/idle/local\n\na burst; in MiB.\n\n| allocator | asleep 1 s | notes |\n|---|---|---|\n\
                     | glibc | 93.1 | reference |\n";
        assert!(page.contains(table), "{page}");
        let again = RecordedBench::parse(&recorded.text().unwrap()).unwrap();
        let mut same = String::new();
        section(&mut same, &again).unwrap();
        assert_eq!(page, same);
        assert_eq!(recorded.text().unwrap().lines().count(), 3, "a line for each contender");
    }

    #[test]
    fn a_run_without_such_tables_has_no_section() {
        let without = RUN.replace("\"alone\"", "\"none\"");
        let mut page = String::new();
        section(&mut page, &RecordedBench::parse(&without).unwrap()).unwrap();
        assert_eq!(page, "");
    }
}
