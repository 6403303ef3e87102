//! Runs a list of steps and prints a table of their results. Neighbouring steps that allow it run
//! side by side, on one thread for each lane.

use core::fmt::Display;
use core::time::Duration;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Result, bail};
use console::style;

use crate::shell;
use crate::workspace::Workspace;

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The check ran and passed. The text is a remark and can be empty.
    Passed(String),
    /// The check failed, or could not run although it should have. The text is the reason.
    Failed(String),
    /// The check did not run. The text is the reason; if a tool is missing, it says how to install
    /// the tool.
    Skipped(String),
}

/// The number of lanes, each of which runs one step at a time: one lane for each core of the
/// smallest supported machine.
const LANES: usize = 2;

/// The function that a step runs.
type Body<'w> = Box<dyn FnOnce(&Workspace) -> Result<Outcome> + Send + 'w>;

/// One check of a command.
pub(crate) struct Step<'w> {
    /// The name of the step, with parts separated by `/`. `--only` accepts the whole name, or its
    /// first parts as the name of a group.
    pub(crate) name: String,
    /// The statement that the step checks, as a short clause.
    pub(crate) what: String,
    run: Body<'w>,
    /// Whether the step can run at the same time as neighbours that have this flag too.
    beside: bool,
}

/// The result of a step, as a row of the final table.
#[derive(Debug)]
pub(crate) struct StepRow {
    name: String,
    outcome: Outcome,
    took: Duration,
}

impl<'w> Step<'w> {
    /// Creates a step named `name` that calls `run` to check the statement `what`.
    pub(crate) fn new(
        name: impl Into<String>,
        what: impl Into<String>,
        run: impl FnOnce(&Workspace) -> Result<Outcome> + Send + 'w,
    ) -> Self {
        Self { name: name.into(), what: what.into(), run: Box::new(run), beside: false }
    }

    /// Lets the step run at the same time as its neighbours with this flag. Its output is then
    /// printed when the step ends, not as it arrives.
    pub(crate) fn beside(self) -> Self {
        Self { beside: true, ..self }
    }

    /// Creates a step that is skipped, with the reason `why`.
    pub(crate) fn skipped(name: impl Into<String>, what: impl Into<String>, why: impl Into<String>) -> Self {
        let why = why.into();
        Self::new(name, what, move |_| Ok(Outcome::Skipped(why)))
    }
}

/// Returns the steps that `only` names, by full name or by group. Returns all steps if `only` is
/// empty.
///
/// # Errors
/// Returns an error if a name matches no step.
pub(crate) fn select<'w>(steps: Vec<Step<'w>>, only: &[String]) -> Result<Vec<Step<'w>>> {
    if only.is_empty() {
        return Ok(steps);
    }
    let named = |step: &Step<'_>, name: &str| {
        step.name == name || step.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))
    };
    if let Some(unknown) = only.iter().find(|name| !steps.iter().any(|step| named(step, name))) {
        let names: Vec<_> = steps.iter().map(|step| step.name.as_str()).collect();
        bail!("no step is named `{unknown}`; the steps are: {}", names.join(", "));
    }
    Ok(steps.into_iter().filter(|step| only.iter().any(|name| named(step, name))).collect())
}

/// Runs the steps in order and prints the table. Returns `true` if no step failed.
pub(crate) fn run(ws: &Workspace, steps: Vec<Step<'_>>) -> bool {
    let total = steps.len();
    let mut rows: Vec<StepRow> = Vec::with_capacity(total);
    let start = Instant::now();
    let mut steps = steps.into_iter().enumerate().peekable();
    while let Some(first) = steps.next() {
        let mut group = vec![first];
        while group[0].1.beside
            && let Some(next) = steps.next_if(|(_, step)| step.beside)
        {
            group.push(next);
        }
        rows.extend(if group.len() > 1 { side_by_side(ws, group, total) } else { alone(ws, group, total) });
    }
    println!("\n{}", table(&rows, start.elapsed()));
    for failure in failures(&rows) {
        println!("{failure}");
    }
    println!("{}", last_line(&rows));
    !rows.iter().any(|row| matches!(row.outcome, Outcome::Failed(_)))
}

/// Runs the steps of `group` one after another and prints their output as it arrives. `total` is
/// the number of all steps of the command.
fn alone(ws: &Workspace, group: Vec<(usize, Step<'_>)>, total: usize) -> Vec<StepRow> {
    let one = |(index, step): (usize, Step<'_>)| {
        eprintln!("\n{}", headline(index, total, &step));
        let row = perform(ws, step);
        eprintln!("{}", row.told());
        row
    };
    group.into_iter().map(one).collect()
}

/// Runs the steps of `group` on [`LANES`] threads, and prints the output of each step when the step
/// ends. Returns the rows in the order of the steps.
fn side_by_side(ws: &Workspace, group: Vec<(usize, Step<'_>)>, total: usize) -> Vec<StepRow> {
    let rows: Vec<Mutex<Option<StepRow>>> = group.iter().map(|_| Mutex::new(None)).collect();
    let todo = Mutex::new(group.into_iter().zip(&rows));
    let work = |lane: usize| {
        shell::set_lane(lane);
        // A panic poisons the lock and leaves the list intact. The closure releases the lock before
        // the step runs: a lock taken in the head of the loop would be held during the body.
        let next = || todo.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some(((index, step), place)) = next() {
            eprintln!("\n{} ...", headline(index, total, &step));
            let head = headline(index, total, &step);
            let (row, said) = shell::keeping(|| perform(ws, step));
            eprintln!("\n{head}\n{}{}", said, row.told());
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(row);
        }
    };
    thread::scope(|scope| {
        let work = &work;
        for lane in 1..LANES {
            scope.spawn(move || work(lane));
        }
        work(0);
    });
    drop(todo);
    rows.into_iter().filter_map(|row| row.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

fn headline(index: usize, total: usize, step: &Step<'_>) -> impl Display + use<> {
    style(format!("== {}/{total}  {}: {}", index + 1, step.name, step.what)).bold()
}

fn perform(ws: &Workspace, step: Step<'_>) -> StepRow {
    let start = Instant::now();
    let outcome = if shell::time_is_up() {
        Outcome::Failed("not run: the time limit is over".to_owned())
    } else {
        (step.run)(ws).unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")))
    };
    StepRow { name: step.name, outcome, took: start.elapsed() }
}

impl StepRow {
    /// Returns the result in one line, or two lines for a skipped step.
    fn told(&self) -> String {
        let line = format!("-- {}: {} in {}", self.name, self.outcome.told(), seconds(self.took));
        match self.outcome {
            Outcome::Skipped(_) => {
                format!("{line}\n{}", style(format!("!! {} DID NOT RUN", self.name)).yellow().bold())
            }
            _ => line,
        }
    }
}

impl Outcome {
    fn word(&self) -> &'static str {
        match self {
            Self::Passed(_) => "passed",
            Self::Failed(_) => "FAILED",
            Self::Skipped(_) => "not run",
        }
    }

    fn remark(&self) -> &str {
        match self {
            Self::Passed(text) | Self::Failed(text) | Self::Skipped(text) => text,
        }
    }

    fn told(&self) -> String {
        match self.remark() {
            "" => self.word().to_owned(),
            remark => format!("{} ({remark})", self.word()),
        }
    }
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

/// Returns the table of `rows`. `total` is the elapsed time, which is less than the sum of the rows
/// if steps ran side by side.
fn table(rows: &[StepRow], total: Duration) -> String {
    let wide = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let first = row.outcome.remark().lines().next().unwrap_or("");
        let line = format!("{:wide$}  {:7}  {:>9}  {first}", row.name, row.outcome.word(), seconds(row.took));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str(&format!("{:wide$}  {:7}  {:>9}", "total", "", seconds(total)));
    text
}

/// Returns a line for each failed step, so that the end of a long log says what failed.
fn failures(rows: &[StepRow]) -> impl Iterator<Item = String> {
    rows.iter()
        .filter(|row| matches!(row.outcome, Outcome::Failed(_)))
        .map(|row| format!("FAILED  {}: {}", row.name, row.outcome.remark()))
}

/// Returns `N passed, N failed`, followed by `, N skipped` if steps were skipped.
fn last_line(rows: &[StepRow]) -> String {
    let count = |wanted: fn(&Outcome) -> bool| rows.iter().filter(|row| wanted(&row.outcome)).count();
    let passed = count(|outcome| matches!(outcome, Outcome::Passed(_)));
    let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
    let tail = if skipped == 0 { String::new() } else { format!(", {skipped} skipped") };
    format!("{passed} passed, {failed} failed{tail}")
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::sync::{Mutex, mpsc};

    use super::{Outcome, Step, StepRow, failures, last_line, select, side_by_side, table};

    fn row(name: &str, outcome: Outcome) -> StepRow {
        StepRow { name: name.to_owned(), outcome, took: Duration::from_millis(1250) }
    }

    fn step(name: &str) -> Step<'static> {
        Step::new(name, "", |_| Ok(Outcome::Passed(String::new())))
    }

    #[test]
    fn all_steps_side_by_side_run_and_their_rows_are_in_order() {
        let ws = crate::workspace::tests::sample();
        let (ran, late) = (Mutex::new(Vec::new()), "c");
        let step = |name: &'static str| {
            let ran = &ran;
            Step::new(name, "", move |_: &_| {
                ran.lock().unwrap().push(name);
                if name == late {
                    anyhow::bail!("for a reason")
                }
                Ok(Outcome::Passed(String::new()))
            })
        };
        let group = ["a", "b", late, "d"].map(|name| step(name).beside());
        let rows = side_by_side(&ws, group.into_iter().enumerate().collect(), 4);
        let names: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
        assert_eq!(rows[2].outcome, Outcome::Failed("for a reason".to_owned()));
        let mut ran = ran.into_inner().unwrap();
        ran.sort_unstable();
        assert_eq!(ran, ["a", "b", "c", "d"]);
    }

    #[test]
    fn steps_side_by_side_run_concurrently() {
        let ws = crate::workspace::tests::sample();
        let (here, there) = (mpsc::channel(), mpsc::channel());
        let meets = |name: &'static str, say: mpsc::Sender<()>, hear: mpsc::Receiver<()>| {
            Step::new(name, "", move |_: &_| {
                say.send(())?;
                hear.recv_timeout(Duration::from_secs(60))?;
                Ok(Outcome::Passed(String::new()))
            })
        };
        let group = vec![(0, meets("a", here.0, there.1)), (1, meets("b", there.0, here.1))];
        let rows = side_by_side(&ws, group, 2);
        assert!(rows.iter().all(|row| matches!(row.outcome, Outcome::Passed(_))), "{rows:?}");
    }

    #[test]
    fn the_last_line_counts_every_outcome() {
        let passed = || row("a", Outcome::Passed(String::new()));
        assert_eq!(last_line(&[passed(), passed()]), "2 passed, 0 failed");
        let rows =
            [passed(), row("b", Outcome::Failed(String::new())), row("c", Outcome::Skipped("x".into()))];
        assert_eq!(last_line(&rows), "1 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn failed_steps_are_named_after_the_table_with_their_whole_reason() {
        let failed = row("icount", Outcome::Failed("two rows\na: 10 -> 12".to_owned()));
        let lines: Vec<_> = failures(&[row("fmt", Outcome::Passed(String::new())), failed]).collect();
        assert_eq!(lines, ["FAILED  icount: two rows\na: 10 -> 12"]);
    }

    #[test]
    fn the_table_shows_the_reason_and_the_time() {
        let text =
            table(&[row("miri", Outcome::Skipped("no nightly\nmore".into()))], Duration::from_millis(1250));
        assert_eq!(text, "miri  not run      1.2 s  no nightly\ntotal               1.2 s");
    }

    #[test]
    fn steps_are_selected_by_name_or_group_and_unknown_names_are_errors() {
        let all = || vec![step("loom/prim"), step("loom/ring-alloc"), step("loom-long"), step("fmt")];
        let names = |only: &[&str]| {
            let only: Vec<_> = only.iter().map(|name| (*name).to_owned()).collect();
            select(all(), &only).map(|steps| steps.into_iter().map(|step| step.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["loom"]).unwrap(), ["loom/prim", "loom/ring-alloc"]);
        assert_eq!(names(&["fmt", "loom/prim"]).unwrap(), ["loom/prim", "fmt"]);
        assert_eq!(names(&[]).unwrap().len(), 4);
        assert!(names(&["lint"]).unwrap_err().to_string().contains("`lint`"));
    }
}
