//! The inputs of a cell.

use std::sync::Arc;

use super::blocks::json::Document;
use super::nodes::Sources;

/// The inputs of a cell other than its parameters.
#[derive(Clone, Debug)]
pub struct Context {
    /// The seed of every table. The same seed gives the same operations.
    pub seed: u64,
    /// The text that R1 parses.
    pub document: Arc<Document>,
    /// The sources that R4 and R5 work on.
    pub sources: Arc<Sources>,
    /// The processor to which a workload pins a second thread, or `None` if the process may use
    /// only one.
    pub second_cpu: Option<usize>,
}
