//! Tests of programs that use this library. Installed programs must print the same output with and
//! without the library. Other programs call the library's functions, also with bad pointers.
#![cfg(all(target_os = "linux", target_pointer_width = "64", not(any(miri, ephemera_loom))))]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Returns the path of the library, which cargo builds next to this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let path = test.with_file_name("libephemera_c.so");
    assert!(path.exists(), "cargo builds {} before this test", path.display());
    path
}

fn run(program: &str, args: &[&str], input: &str, preload: bool) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if preload {
        command.env("LD_PRELOAD", library());
    }
    let mut child = command.spawn().ok()?;
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_owned();
    let writer = std::thread::spawn(move || _ = stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("the program ends");
    writer.join().expect("no panic");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!preload || !said.contains("cannot be preloaded"), "{said}");
    Some(output)
}

/// Checks that a program prints the same output with and without the library. Skips a program that
/// is not installed.
fn same(program: &str, args: &[&str], input: &str) {
    let Some(without) = run(program, args, input, false) else {
        println!("{program} is not installed: skipped");
        return;
    };
    let with = run(program, args, input, true).expect("the program is installed");
    assert!(with.status.success() == without.status.success(), "{program}: {with:?}");
    assert!(with.stdout == without.stdout, "{program}: {with:?}");
    assert!(!without.stdout.is_empty(), "{program} prints something");
}

#[test]
fn git_prints_the_same() {
    same("git", &["--version"], "");
    same("git", &["log", "-p", "-3", "--stat", "--no-color"], "");
}

#[test]
fn sort_prints_the_same() {
    let words: String =
        (0..60_000_u64).map(|word| format!("{}\n", word.wrapping_mul(0x9E37_79B9_7F4A_7C15))).collect();
    same("sort", &["--parallel=4"], &words);
}

#[test]
fn ls_prints_the_same() {
    same("ls", &["-lR", env!("CARGO_MANIFEST_DIR")], "");
}

#[test]
fn sqlite_prints_the_same() {
    let script = "create table t(a integer primary key, b text);
        with recursive n(x) as (select 1 union all select x + 1 from n where x < 20000)
        insert into t select x, hex(x * 7) || printf('%060d', x) from n;
        create index i on t(b);
        select count(*), sum(a), max(b) from t where b > '3';
        select group_concat(b) from t where a % 999 = 0;";
    same("sqlite3", &[":memory:"], script);
}

#[test]
fn python_with_threads_and_children_prints_the_same() {
    let script = "
import threading, json, os
def work(n, out):
    d = {str(i * n): [i] * (i % 50) for i in range(3000)}
    out.append(len(json.dumps(d)) + len(json.loads(json.dumps(d))))
    b = bytearray()
    for i in range(400): b += b'x' * (i * 37)
    out.append(len(b))
out = []
threads = [threading.Thread(target=work, args=(n, out)) for n in range(1, 9)]
[t.start() for t in threads]
pid = os.fork()
if pid == 0:
    more = []
    work(3, more)
    os._exit(0 if len(more) == 2 else 1)
[t.join() for t in threads]
print(sorted(out), os.waitpid(pid, 0)[1])
";
    same("python3", &["-W", "ignore", "-c", script], "");
}

/// Calls every function of the `malloc` family through Python's `ctypes`.
#[test]
fn each_function_of_the_family_keeps_its_contract() {
    let script = "
import ctypes as c
l = c.CDLL(None, use_errno=True)
for f in 'malloc calloc realloc aligned_alloc memalign valloc pvalloc reallocarray'.split(): getattr(l, f).restype = c.c_void_p
l.malloc_usable_size.restype = c.c_size_t
S, P = c.c_size_t, c.c_void_p
sizes = [0, 1, 24, 1000, 1025, 5000, 32768, 32769, 70000, 1 << 20, (1 << 20) + 1, 5 << 20]
for first in sizes:
    n = first
    p = l.malloc(S(n)); assert p and p % 16 == 0 and l.malloc_usable_size(P(p)) >= n, n
    c.memset(p, 7, n)
    for m in sizes[1:]:
        p = l.realloc(P(p), S(m)); assert p and l.malloc_usable_size(P(p)) >= m, (n, m)
        k = min(n, m)
        assert c.string_at(p, k) == b'\\x07' * k, (n, m)
        c.memset(p, 7, m); n = m
    l.free(P(p))
    n = first
    # `calloc` reuses the freed block, whose bytes are not zero.
    p = l.malloc(S(n)); c.memset(p, 7, n); l.free(P(p))
    z = l.calloc(S(n), S(1)); assert c.string_at(z, n) == b'\\0' * n; l.free(P(z))
    for a in [16, 64, 4096, 8192, 1 << 20, 1 << 22]:
        for f in (l.memalign, l.aligned_alloc):
            p = f(S(a), S(n)); assert p and p % a == 0 and l.malloc_usable_size(P(p)) >= n, (n, a)
            c.memset(p, 1, n); p = l.realloc(P(p), S(n + 100)); assert c.string_at(p, n) == b'\\1' * n; l.free(P(p))
        q = P(); assert l.posix_memalign(c.byref(q), S(a), S(n)) == 0 and q.value % a == 0; l.free(q)
p = l.valloc(S(5)); assert p % 4096 == 0; l.free(P(p))
p = l.pvalloc(S(5)); assert p % 4096 == 0 and l.malloc_usable_size(P(p)) >= 4096; l.free(P(p))
q = P(); assert l.posix_memalign(c.byref(q), S(3), S(8)) == 22
p = l.memalign(S(24), S(8)); assert p % 32 == 0; l.free(P(p))
p = l.memalign(S(0), S(8)); assert p and p % 16 == 0; l.free(P(p))
assert not l.memalign(S((1 << 63) + 1), S(8)) and c.get_errno() == 22
assert not l.aligned_alloc(S(24), S(8)) and c.get_errno() == 22
assert not l.malloc(S(1 << 62)) and c.get_errno() == 12
assert not l.calloc(S(1 << 40), S(1 << 40)) and not l.reallocarray(None, S(1 << 40), S(1 << 40))
l.free(None); assert l.malloc_usable_size(None) == 0
print('all kept')
";
    let Some(output) = run("python3", &["-c", script], "", true) else { return };
    assert!(output.status.success() && output.stdout == b"all kept\n", "{output:?}");
}

/// Compiles a C source with these arguments into cargo's directory for test files, and returns the
/// path of the result. Returns `None` if there is no C compiler.
fn compiled(name: &str, source: &str, args: &[&str]) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = Command::new("cc");
    command.args(["-x", "c", "-", "-pthread", "-o"]).arg(&path).args(args).stdin(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        println!("there is no C compiler: skipped");
        return None;
    };
    child.stdin.take().expect("a pipe").write_all(source.as_bytes()).expect("the compiler reads");
    assert!(child.wait().expect("the compiler ends").success(), "{name} compiles");
    Some(path)
}

/// `dlopen` runs constructors under the lock with which the C library registers destructors of
/// thread-locals. A thread that registers one while a constructor waits for it would deadlock.
#[test]
fn a_thread_that_dlopen_waits_for_can_allocate() {
    let source = "
#include <pthread.h>
#include <stdlib.h>
static void *work(void *other) { free(other); free(malloc(100)); return 0; }
__attribute__((constructor)) static void start(void) {
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        pthread_create(&thread, 0, work, malloc(3000));
        pthread_join(thread, 0);
    }
}";
    let Some(path) = compiled("libwaits.so", source, &["-shared", "-fPIC"]) else { return };
    let script = format!("import ctypes; ctypes.CDLL({:?}); print('loaded')", path.to_str().expect("a path"));
    let Some(output) = run("timeout", &["60", "python3", "-c", &script], "", true) else { return };
    if output.status.code() == Some(127) {
        println!("python3 is not installed: skipped");
        return;
    }
    assert!(output.status.success() && output.stdout == b"loaded\n", "{output:?}");
}

/// Each thread frees three neighbouring blocks, and lives until all threads have done so. There are
/// far more threads than static records, so some frees request memory for a record.
#[test]
fn a_free_without_memory_keeps_errno() {
    let source = "
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
enum { THREADS = 600 };
static void *blocks[THREADS][3];
static sem_t turns[THREADS + 1], end;
static int changed;
static void *work(void *index) {
    long self = (long)index;
    sem_wait(turns + self);
    errno = 42;
    for (int i = 0; i < 3; i++) free(blocks[self][i]);
    if (errno != 42) changed++;
    sem_post(turns + self + 1);
    sem_wait(&end);
    return 0;
}
int main(void) {
    pthread_t threads[THREADS];
    pthread_attr_t small;
    struct rlimit limit, before;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    sem_init(&end, 0, 0);
    for (long i = 0; i <= THREADS; i++) sem_init(turns + i, 0, 0);
    for (long i = 0; i < THREADS; i++) {
        for (int j = 0; j < 3; j++) blocks[i][j] = malloc(100);
        if (pthread_create(threads + i, &small, work, (void *)i)) return 2;
    }
    getrlimit(RLIMIT_AS, &before);
    limit = before;
    limit.rlim_cur = 1;
    if (setrlimit(RLIMIT_AS, &limit)) return 3;
    for (size_t size = 1 << 20; size >= 16; size /= 2) while (malloc(size));
    sem_post(turns);
    sem_wait(turns + THREADS);
    for (int i = 0; i < THREADS; i++) sem_post(&end);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    setrlimit(RLIMIT_AS, &before);
    return printf(\"%d changed\\n\", changed), 0;
}";
    let Some(path) = compiled("keeps-errno", source, &["-O1", "-fno-builtin"]) else { return };
    let path = path.to_str().expect("a path");
    let Some(output) = run("timeout", &["60", path], "", true) else { return };
    if output.status.code() == Some(2) {
        let without = Command::new(path).output().expect("the program starts");
        assert_eq!(without.status.code(), Some(2), "the program starts its threads only without the library");
        println!("the system does not allow 600 threads in a process: skipped");
        return;
    }
    assert!(output.status.success() && output.stdout == b"0 changed\n", "{output:?}");
}

/// The limit on the address space leaves no room for a second mapping, which a copy would need.
#[test]
fn a_growing_mapping_moves_without_a_copy() {
    let script = "
import ctypes as c, resource
l = c.CDLL(None)
l.malloc.restype = l.realloc.restype = c.c_void_p
S, P, M = c.c_size_t, c.c_void_p, 1 << 20
block = l.malloc(S(64 * M))
c.memset(block, 7, 64 * M)
# The mappings next to the block keep it from growing in place.
behind = [l.malloc(S(64 * M)) for _ in range(4)]
used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 40 * M, used + 40 * M))
for size in range(66, 90, 2):
    block = l.realloc(P(block), S(size * M))
    assert block, size
assert c.string_at(block, 9) == c.string_at(block + 64 * M - 9, 9) == b'\\x07' * 9
print('moved')
";
    let Some(output) = run("python3", &["-c", script], "", true) else { return };
    assert!(output.status.success() && output.stdout == b"moved\n", "{output:?}");
}

#[test]
fn a_block_that_shrinks_without_memory_for_a_copy_stays() {
    let script = "
import ctypes as c, resource
l = c.CDLL(None)
l.malloc.restype = l.realloc.restype = c.c_void_p
S, P, M = c.c_size_t, c.c_void_p, 1 << 20
place, count, realloc, malloc = (c.c_void_p * 20000)(), 0, l.realloc, l.malloc
large, small, shrunk = S(60000), S(20000), None
used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 40 * M, used + 40 * M))
for size in (small, large):
    while True:
        block = malloc(size)
        if not block: break
        place[count] = block
        count += 1
block = place[count - 1]
c.memset(block, 7, 60000)
shrunk = realloc(P(block), small)
for at in range(0, 100): l.free(P(place[at]))
assert shrunk == block and c.string_at(shrunk, 20000) == b'\\x07' * 20000
print('stayed')
";
    let Some(output) = run("python3", &["-c", script], "", true) else { return };
    assert!(output.status.success() && output.stdout == b"stayed\n", "{output:?}");
}

/// Runs each script in a child of one process. Each script passes a bad pointer to the library,
/// which must end the child with a message.
fn end_with_a_message(scripts: &[(&str, &str)]) {
    let mut all = "import ctypes as c, os, threading
l = c.CDLL(None)
l.malloc.restype = l.realloc.restype = l.memalign.restype = l.mmap.restype = c.c_void_p
P, M = c.c_void_p, 1 << 20
def free(p): l.free(P(p))
def elsewhere(p): t = threading.Thread(target=free, args=(p,)); t.start(); t.join()
def ends(what, script):
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(theirs, 2)
        exec(script, globals())
        os._exit(0)
    os.close(theirs)
    said = open(ours).read()
    status = os.waitpid(pid, 0)[1]
    assert status & 127 == 6 and 'is not a block of this allocator, or was already freed' in said, (what, status, said)
"
    .to_owned();
    scripts.iter().for_each(|(what, script)| all += &format!("ends({what:?}, {script:?})\n"));
    let Some(output) = run("python3", &["-W", "ignore", "-c", &all], "", true) else { return };
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_pointer_that_cannot_be_a_block_ends_the_process_with_a_message() {
    end_with_a_message(&[
        ("an odd foreign pointer", "free(c.addressof(l.malloc) + 8)"),
        ("a pointer into a slot", "free(l.malloc(3000) + 16)"),
        ("a pointer into a slot of another thread", "elsewhere(l.malloc(3000) + 16)"),
        ("the size at a pointer into a slot", "l.malloc_usable_size(P(l.malloc(3000) + 16))"),
    ]);
}

#[test]
#[cfg(debug_assertions)]
fn every_double_free_and_foreign_pointer_ends_the_process_with_a_message() {
    end_with_a_message(&[
        ("a slot", "p = l.malloc(24); free(p); free(p)"),
        (
            "a slot in the middle of a free list",
            "ps = [l.malloc(3000) for _ in range(10)]; [free(p) for p in ps[:5]]; free(ps[2])",
        ),
        (
            "a slot of a freed unit",
            "ps = [l.malloc(20000) for _ in range(2000)]; [free(p) for p in ps]; free(ps[700])",
        ),
        ("a slot that another thread freed", "p = l.malloc(3000); elsewhere(p); free(p)"),
        ("a slot, by another thread", "p = l.malloc(3000); free(p); elsewhere(p)"),
        ("a span", "p = l.malloc(90000); free(p); free(p)"),
        (
            "a span in a full cache",
            "ps = [l.malloc(90000) for _ in range(300)]; [free(p) for p in ps]; free(ps[100])",
        ),
        ("a cached mapping", "p = l.malloc(5 * M); free(p); free(p)"),
        ("an unmapped mapping", "p = l.malloc(200 * M); free(p); free(p)"),
        ("an aligned mapping", "p = l.memalign(4 * M, 5 * M); free(p); free(p)"),
        ("a block that moved", "p = l.malloc(3000); q = l.realloc(P(p), 90000); free(p)"),
        (
            "a mapping that moved",
            "p = l.malloc(64 * M); k = l.malloc(64 * M); q = l.realloc(P(p), 300 * M); free(p)",
        ),
        ("a resized freed block", "p = l.malloc(200 * M); free(p); l.realloc(P(p), 9000)"),
        ("the size of a freed block", "p = l.malloc(30); free(p); l.malloc_usable_size(P(p))"),
        ("the middle of a span", "p = l.malloc(90000); c.memset(p, 7, 90000); free(p + 4096)"),
        ("the middle of a mapping", "p = l.malloc(5 * M); c.memset(p, 7, 5 * M); free(p + 4096)"),
        ("the header of a unit", "free(l.malloc(20000) & ~0x3ffff)"),
        ("a page of code", "free(c.cast(l.getpid, P).value & ~4095)"),
        ("a page of the program", "free(l.mmap(None, 4096, 3, 0x22, -1, 0))"),
        ("an unmapped page", "free(4096)"),
        ("an address beyond all memory", "free(0xdead000000000000)"),
    ]);
}

/// The heap's thread-local then takes part of the static TLS surplus, which the C library keeps for
/// thread-locals with a fixed offset.
#[test]
fn a_running_program_can_load_the_library() {
    let script = "
import ctypes as c, sys, threading
l = c.CDLL(sys.argv[1])
l.malloc.restype = c.c_void_p
def pair():
    p = l.malloc(c.c_size_t(40)); assert p
    l.free(c.c_void_p(p))
    assert l.malloc(c.c_size_t(40)) == p
    l.free(c.c_void_p(p))
    done.append(p)
done = []
pair()
threads = [threading.Thread(target=pair) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print(len(done))
";
    let path = library();
    let path = path.to_str().expect("a path of Unicode");
    let Some(output) = run("python3", &["-c", script, path], "", false) else { return };
    assert!(output.status.success() && output.stdout == b"5\n", "{output:?}");
}
