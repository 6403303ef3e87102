//! Finds a program by its name. A new program needs a module, a line in `programs!`, a feature with
//! the program's name, and a row in `xtask/src/programs/catalogue.rs`.

use std::path::Path;

use crate::checksum::ProgramResult;

/// A program: a function from the repository's root to a checksum.
pub(crate) type ProgramFn = fn(&Path) -> ProgramResult;

/// Declares the module of each program, and the function `find`. A variant runs another function of
/// the same module. The build contains a program if the feature with the program's name is enabled.
macro_rules! programs {
    ($($name:literal => $module:ident $(, $($variant:literal => $run:ident),+)?;)*) => {
        $(
            #[cfg(feature = $name)]
            mod $module;
        )*

        /// Returns the program with this name, or `None` if this build does not contain it.
        pub(crate) fn find(name: &str) -> Option<ProgramFn> {
            match name {
                $(
                    #[cfg(feature = $name)]
                    $name => Some($module::run),
                    $($(
                        #[cfg(feature = $name)]
                        $variant => Some($module::$run),
                    )+)?
                )*
                _ => None,
            }
        }
    };
}

programs! {
    "hyper" => hyper;
    "minijinja" => minijinja;
    "naga" => naga;
    "pulldown-cmark" => pulldown_cmark;
    "redb" => redb;
    "rhai" => rhai;
    "serde_json" => serde_json;
    "service" => service, "service-long" => run_long, "service-bursts" => run_bursts;
    "service-scopes" => service_scopes,
        "service-scopes-long" => run_long, "service-scopes-bursts" => run_bursts;
    "syn" => syn;
    "tantivy" => tantivy;
    "wasmi" => wasmi;
}
