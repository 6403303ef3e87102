//! A WebAssembly interpreter: wasmi compiles generated modules and runs their functions.

use core::fmt::Write as _;
use std::path::Path;

use wasmi::{Engine, Linker, Module, Store};

use crate::checksum::{Checksum, ProgramResult};

const MODULES: u64 = 30;
/// The number of functions in each module.
const FUNCTIONS: u64 = 400;

/// Assembles, validates, translates and runs each module. Does not read files of the repository.
pub(crate) fn run(_root: &Path) -> ProgramResult {
    let engine = Engine::default();
    let mut checksum = Checksum::new();
    for module in 0..MODULES {
        let code = wat::parse_str(source(module))?;
        checksum.bytes(&code);
        let module = Module::new(&engine, &code)?;
        let mut store = Store::new(&engine, ());
        let linker = <Linker<()>>::new(&engine);
        let instance = linker.instantiate_and_start(&mut store, &module)?;
        let entry = instance.get_typed_func::<i64, i64>(&store, "run")?;
        checksum.number(entry.call(&mut store, 300)?.cast_unsigned());
    }
    Ok(checksum)
}

/// Returns the text of a module. Each function mixes its argument in a loop and writes to memory.
/// Each function except the first also calls the function before it.
fn source(module: u64) -> String {
    let mut text = String::from("(module (memory 1)\n");
    for function in 0..FUNCTIONS {
        let constant = (module * FUNCTIONS + function).wrapping_mul(0x9e37_79b9_7f4a_7c15).cast_signed();
        let address = function % 1000 * 8;
        let _ = write!(
            text,
            "(func $f{function} (param $x i64) (result i64) (local $i i32) (local $y i64)
               (local.set $y (i64.const {constant}))
               (local.set $i (i32.const 4))
               (loop $again
                 (local.set $y (i64.mul (i64.xor (local.get $y) (local.get $x)) (i64.const {})))
                 (if (i64.lt_s (local.get $y) (i64.const 0))
                   (then (local.set $y (i64.rotl (local.get $y) (i64.const {}))))
                   (else (i64.store offset={address} (i32.const 0) (local.get $y))))
                 (local.set $i (i32.sub (local.get $i) (i32.const 1)))
                 (br_if $again (local.get $i)))
               (i64.add (local.get $y) (i64.load offset={address} (i32.const 0)))",
            constant | 1,
            function % 63 + 1,
        );
        match function.checked_sub(1) {
            Some(before) => {
                let _ = writeln!(text, "(call $f{before} (local.get $y)) i64.add)");
            }
            None => text.push_str(")\n"),
        }
    }
    let last = FUNCTIONS - 1;
    let _ = write!(
        text,
        "(func (export \"run\") (param $n i64) (result i64) (local $sum i64)
           (loop $again
             (local.set $sum (i64.add (local.get $sum) (call $f{last} (local.get $n))))
             (local.set $n (i64.sub (local.get $n) (i64.const 1)))
             (br_if $again (i64.ne (local.get $n) (i64.const 0))))
           (local.get $sum)))"
    );
    text
}
