//! Contenders of the harness that are written in C, and whether they can be built here.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::workspace::Workspace;

/// The package whose default feature `c-peers` builds them.
pub(crate) const HARNESS: &str = "bench-harness";

/// What a contender's build needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// A C compiler that makes programs that run.
    Cc,
    /// `make`, for sources that bring a makefile.
    Make,
}

/// The contenders behind `c-peers`.
const CONTENDERS: [(&str, &[Need]); 2] = [("mimalloc", &[Need::Cc]), ("jemalloc", &[Need::Cc, Need::Make])];

/// What is missing on this machine.
#[derive(Debug)]
pub(crate) struct Support {
    missing: Vec<Need>,
}

impl Support {
    /// Tries to compile and run a program.
    pub(crate) fn detect(ws: &Workspace) -> Self {
        let mut missing = Vec::new();
        if !compiler_works(&ws.target_dir("xtask-cc")) {
            missing.push(Need::Cc);
        }
        if !CONTENDERS.iter().all(|(_, needs)| !needs.contains(&Need::Make)) && !starts("make") {
            missing.push(Need::Make);
        }
        Self { missing }
    }

    /// Whether `c-peers` can be built.
    pub(crate) fn whole(&self) -> bool {
        self.missing.is_empty()
    }

    /// Who is left out, why, and how to get them.
    pub(crate) fn told(&self) -> Option<String> {
        if self.whole() {
            return None;
        }
        let names: Vec<_> = CONTENDERS.iter().map(|(name, _)| *name).collect();
        let missing: Vec<_> = self.missing.iter().map(|need| need.told()).collect();
        let ways: Vec<_> = self.missing.iter().map(|need| need.way()).collect();
        Some(format!(
            "LEFT OUT: {} (contenders written in C): {}.\n  To get them: {}.",
            names.join(", "),
            missing.join("; "),
            ways.join("; ")
        ))
    }
}

impl Need {
    fn told(self) -> &'static str {
        match self {
            Self::Cc => "no C compiler here that works ($CC, cc)",
            Self::Make => "no make here",
        }
    }

    fn way(self) -> &'static str {
        match self {
            Self::Cc => "install a C compiler, such as `apt-get install gcc libc6-dev`, or name yours in CC",
            Self::Make => "install make, such as `apt-get install make`",
        }
    }
}

fn starts(program: &str) -> bool {
    quiet(Command::new(program).arg("--version"))
}

fn quiet(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A compiler without headers or without a linker is as good as none.
fn compiler_works(dir: &Path) -> bool {
    let named = std::env::var("CC").ok().filter(|cc| !cc.trim().is_empty());
    let line = named.unwrap_or_else(|| "cc".to_owned());
    let mut words = line.split_whitespace();
    let Some(program) = words.next() else { return false };
    let source = dir.join("probe.c");
    let made = dir.join(format!("probe{}", std::env::consts::EXE_SUFFIX));
    let text = "#include <stdlib.h>\nint main(void) { free(malloc(1)); return 0; }\n";
    if std::fs::create_dir_all(dir).is_err() || std::fs::write(&source, text).is_err() {
        return false;
    }
    quiet(Command::new(program).args(words).arg(&source).arg("-o").arg(&made))
        && quiet(&mut Command::new(&made))
}

#[cfg(test)]
mod tests {
    use super::{Need, Support};

    #[test]
    fn what_is_left_out_is_said_with_the_way_to_get_it() {
        assert!(Support { missing: vec![] }.told().is_none());
        let told = Support { missing: vec![Need::Make] }.told().unwrap();
        assert!(told.contains("mimalloc, jemalloc") && told.contains("no make here"), "{told}");
        assert!(told.contains("install make") && !told.contains("gcc"), "{told}");
    }
}
