//! Opens pages in Chromium without a window, measures them, and collects Chromium's complaints.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

/// The time after which a test considers the browser hung.
const LIMIT: Duration = Duration::from_secs(60);

/// A script that measures the page in a frame, and writes the measurements into an attribute of the
/// document that contains the frame. It ignores the width of the contents of boxes that scroll.
/// Text has too little contrast if its ratio to the nearest background that is not transparent is
/// below 4.5, as in level AA of WCAG.
const PROBE: &str = r##"<script>
const inBox = e => e.closest('.wide') && !e.matches('.wide');
const name = e => e.tagName + '.' + (e.getAttribute('class') || '');
const all = [...document.body.querySelectorAll('*')];
const wide = all.filter(e => !inBox(e) && e.getBoundingClientRect().right > innerWidth + 1).map(name);
const rgb = c => (c.match(/[\d.]+/g) || []).map(Number);
const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
  if (c.length == 3 || c[3] > 0) return c; } return [255, 255, 255]; };
const light = c => c.slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const faint = new Set();
for (const e of all) {
  if (![...e.childNodes].some(n => n.nodeType == 3 && n.data.trim()) || e.closest('title, desc')) continue;
  const style = getComputedStyle(e);
  const [a, b] = [light(rgb(e.closest('svg') ? style.fill : style.color)), light(ground(e))];
  if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5) faint.add(name(e));
}
const pictures = [...document.querySelectorAll('svg')].filter(s => s.getBoundingClientRect().height > 20).length;
parent.document.documentElement.setAttribute('data-' + window.name, [innerWidth, document.documentElement.scrollWidth, pictures,
  getComputedStyle(document.body).backgroundColor, [...new Set(wide)].join(' '), [...faint].join(' ')].join('|'));
</script></body>"##;

/// The colour schemes in which each page is opened.
const SCHEMES: [&str; 2] = ["light", "dark"];

/// The measurements of a page.
#[derive(Debug)]
pub(crate) struct Look {
    /// The width of the window, in pixels.
    pub(crate) width: u32,
    /// The width of the contents, in pixels.
    pub(crate) scroll_width: u32,
    /// The number of pictures that are higher than 20 pixels.
    pub(crate) pictures: u32,
    /// The background colour of the page.
    pub(crate) ground: String,
    /// The elements that extend beyond the right edge of the window.
    pub(crate) wide: String,
    /// The elements whose text has too little contrast.
    pub(crate) faint: String,
}

impl Look {
    fn read(text: &str) -> Self {
        let parts: Vec<&str> = text.split('|').collect();
        let number = |index: usize| parts[index].parse().expect("a number of pixels");
        Self {
            width: number(0),
            scroll_width: number(1),
            pictures: number(2),
            ground: parts[3].to_owned(),
            wide: parts[4].to_owned(),
            faint: parts[5].to_owned(),
        }
    }
}

/// The path of the browser's program.
pub(crate) struct Chromium(PathBuf);

impl Chromium {
    /// Returns the program that `CHROMIUM` names, or else the first known program in `PATH`, or
    /// `None` if there is none.
    pub(crate) fn find() -> Option<Self> {
        if let Some(path) = env::var_os("CHROMIUM") {
            return Some(Self(path.into()));
        }
        let paths = env::var_os("PATH")?;
        let named =
            |name: &str| env::split_paths(&paths).map(|dir| dir.join(name)).find(|path| path.is_file());
        ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(named).map(Self)
    }

    /// Opens a page in frames of the given widths, each in light and in dark. The page's policy
    /// also admits the measuring script. Returns the measurements of each frame, and the messages
    /// of the console, which include refused requests.
    pub(crate) fn look(&self, page: &str, name: &str, widths: &[u32]) -> (Vec<[Look; 2]>, Vec<String>) {
        let probed = page
            .replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';")
            .replace("</body>", PROBE)
            .replace('&', "&amp;")
            .replace('"', "&quot;");
        let mut frames = "<!doctype html><html><body>".to_owned();
        for width in widths {
            for scheme in SCHEMES {
                // The page in a frame sees the colour scheme of the frame's element.
                frames += &format!(
                    "<iframe name=\"{scheme}{width}\" style=\"border: 0; width: {width}px; height: 900px; \
                     color-scheme: {scheme}\" srcdoc=\"{probed}\"></iframe>\n"
                );
            }
        }
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.html", std::process::id()));
        fs::write(&path, frames).expect("cargo's directory can be written");
        let (dom, log) = self.run(&path);
        let _ = fs::remove_file(path);
        let of = |scheme: &str, width: u32| {
            let found = dom.split_once(&format!("data-{scheme}{width}=\""));
            let (look, _) = found
                .and_then(|(_, rest)| rest.split_once('"'))
                .unwrap_or_else(|| panic!("nothing was measured: {log}"));
            Look::read(look)
        };
        let looks = widths.iter().map(|&width| SCHEMES.map(|scheme| of(scheme, width)));
        let complaints = log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned);
        (looks.collect(), complaints.collect())
    }

    /// Opens a page. Returns its elements after loading, and the program's messages.
    fn run(&self, page: &Path) -> (String, String) {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let run = format!("chromium-{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(run);
        fs::create_dir_all(&home).expect("cargo's directory can be written");
        let (dom, log) = (home.join("dom"), home.join("log"));
        let file = |path: &Path| File::create(path).expect("cargo's directory can be written");
        let mut child = Command::new(&self.0)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--hide-scrollbars", "--enable-logging=stderr", "--v=0", "--dump-dom"])
            .arg(format!("--user-data-dir={}", home.join("profile").display()))
            .arg(format!("file://{}", page.display()))
            .stdin(Stdio::null())
            .stdout(file(&dom))
            .stderr(file(&log))
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", self.0.display()));
        let start = Instant::now();
        let status = loop {
            match child.try_wait().expect("it is our child") {
                Some(status) => break status,
                None if start.elapsed() > LIMIT => {
                    child.kill().expect("it is our child");
                    panic!("{} took longer than {LIMIT:?}", self.0.display());
                }
                None => thread::sleep(Duration::from_millis(20)),
            }
        };
        let [dom, log] =
            [dom, log].map(|path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned());
        assert!(status.success(), "{}: {status}: {log}", self.0.display());
        let _ = fs::remove_dir_all(home);
        (dom, log)
    }
}
