//! Requires that the job `conclusion` of a workflow waits for all other jobs. Only `conclusion` is
//! required for a merge, so a job that it does not wait for could fail unnoticed.

use super::{Finding, SourceFile};

/// The name of the job that waits for all others.
const LAST: &str = "conclusion";

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let workflows = files.iter().filter(|file| file.path.starts_with(".github/workflows/"));
    workflows.flat_map(check_workflow).collect()
}

fn check_workflow(file: &SourceFile) -> Vec<Finding> {
    let jobs = jobs(&file.text);
    let Some(last) = jobs.iter().position(|(name, _)| *name == LAST) else { return Vec::new() };
    let start = jobs[last].1;
    let end = jobs.get(last + 1).map_or(usize::MAX, |(_, line)| *line);
    let body = file.text.lines().enumerate().skip(start).take_while(|(index, _)| index + 1 < end);
    let needs = body.map(|(_, line)| line.trim()).find_map(|line| line.strip_prefix("needs:")).unwrap_or("");
    let waits: Vec<_> = needs.trim().trim_matches(['[', ']']).split(',').map(str::trim).collect();
    let missing = jobs.iter().filter(|(name, _)| *name != LAST && !waits.contains(name));
    missing
        .map(|(name, line)| {
            let text =
                format!("job `{name}` is not in `needs: [...]` of `{LAST}`: add it there, on one line");
            Finding::error(&file.path, *line, text)
        })
        .collect()
}

/// Returns the jobs of a workflow with their lines, counted from 1. Expects names indented by two
/// spaces.
fn jobs(text: &str) -> Vec<(&str, usize)> {
    let lines = text.lines().enumerate().skip_while(|(_, line)| *line != "jobs:").skip(1);
    let inside = lines.take_while(|(_, line)| line.is_empty() || line.starts_with([' ', '#']));
    let named = inside.filter_map(|(index, line)| {
        let name = line.strip_prefix("  ")?.strip_suffix(':')?;
        (!name.starts_with([' ', '#'])).then_some((name, index + 1))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::{check, jobs};
    use crate::tidy::SourceFile;

    const FLOW: &str = "on: push\njobs:\n  a:\n    runs-on: x\n  b:\n    needs: [a]\n    steps:\n      - run: y\n\n  conclusion:\n    needs: [a, b]\n    steps:\n";

    #[test]
    fn a_job_that_conclusion_does_not_wait_for_is_reported() {
        assert_eq!(jobs(FLOW), [("a", 3), ("b", 5), ("conclusion", 10)]);
        let found = |text: &str| check(&[SourceFile::new(".github/workflows/ci.yml", text)]);
        assert!(found(FLOW).is_empty());
        let findings = found(&FLOW.replace("needs: [a, b]", "needs: [a]"));
        assert!(findings[0].to_string().starts_with(".github/workflows/ci.yml:5: job `b`"), "{findings:?}");
        assert!(found("jobs:\n  a:\n    x: y\n").is_empty());
    }
}
