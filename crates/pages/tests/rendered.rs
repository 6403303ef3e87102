//! Renders the README in Chromium, in light and dark, at the width of a desktop and of a phone. The
//! screenshot is `target/tmp/readme/README.png`. Without Chromium, the test prints that it was
//! skipped.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pulldown_cmark::{Options, Parser, html};

/// The style of the page, which imitates a code host: a wide table scrolls separately from the
/// page.
const STYLE: &str = "\
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 860px; margin: 0 auto; padding: 16px;
    background: light-dark(#ffffff, #0d1117); color: light-dark(#1f2328, #f0f6fc); overflow-wrap: break-word }
a { color: light-dark(#0969da, #4493f8) }
img { max-width: 100% }
table { display: block; width: max-content; max-width: 100%; overflow: auto; border-collapse: collapse }
td, th { border: 1px solid light-dark(#d1d9e0, #3d444d); padding: 6px 13px }
pre { overflow: auto; padding: 16px; background: light-dark(#f6f8fa, #151b23) }
";

/// A script that writes four widths into an attribute of the page that contains the frame. The
/// attribute is named after the frame. These are the widths of the loaded picture (0 if it was not
/// loaded), of the displayed picture, of the frame, and of the frame's content.
const PROBE: &str = "<script>addEventListener('load', () => {
    const picture = document.querySelector('img');
    const look = [picture.naturalWidth, picture.width, innerWidth, document.documentElement.scrollWidth];
    parent.document.documentElement.setAttribute('data-' + window.name, look.join(' '));
})</script>";

/// The name, the width in pixels and the colour scheme of each frame. The page in a frame and its
/// picture prefer the colour scheme of the frame's element.
const FRAMES: [(&str, u32, &str); 4] = [
    ("light", 1000, "light"),
    ("dark", 1000, "dark"),
    ("phone-light", 390, "light"),
    ("phone-dark", 390, "dark"),
];

/// The height of all frames, in pixels.
const HEIGHT: u32 = 3600;

fn chromium() -> Option<PathBuf> {
    if let Some(path) = env::var_os("CHROMIUM") {
        return Some(path.into());
    }
    let paths = env::var_os("PATH")?;
    let named = |name: &str| env::split_paths(&paths).map(|dir| dir.join(name)).find(|path| path.is_file());
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(named)
}

/// Returns a page with all frames side by side. Each frame shows the README.
fn page(root: &Path) -> String {
    let text = fs::read_to_string(root.join("README.md")).expect("the README can be read");
    let mut body = String::new();
    html::push_html(&mut body, Parser::new_ext(&text, Options::ENABLE_TABLES));
    let inner = format!(
        "<!doctype html><meta charset=utf-8><base href=\"file://{}/\"><style>{STYLE}</style>{body}{PROBE}",
        root.display()
    );
    let inner = inner.replace('&', "&amp;").replace('"', "&quot;");
    let frames = FRAMES.map(|(name, width, scheme)| {
        format!(
            "<iframe name=\"{name}\" style=\"border: 0; width: {width}px; height: {HEIGHT}px; \
             color-scheme: {scheme}\" srcdoc=\"{inner}\"></iframe>"
        )
    });
    format!("<!doctype html><body style=\"margin: 0; white-space: nowrap\">{}</body>", frames.concat())
}

#[test]
fn the_first_page_fits_a_phone_and_shows_its_picture() {
    let Some(chromium) = chromium() else {
        eprintln!("skipped: Chromium is not installed");
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root exists");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme");
    fs::create_dir_all(&dir).expect("cargo's directory can be written");
    let (file, shot) = (dir.join("README.html"), dir.join("README.png"));
    fs::write(&file, page(&root)).expect("cargo's directory can be written");
    let profile = dir.join("profile");
    let width: u32 = FRAMES.iter().map(|(_, width, _)| width).sum();
    let run = |output: &str| {
        Command::new(&chromium)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"])
            .args(["--allow-file-access-from-files", "--disable-background-networking"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("--window-size={width},{HEIGHT}"))
            .arg(output)
            .arg(format!("file://{}", file.display()))
            .output()
            .expect("Chromium starts")
    };
    run(&format!("--screenshot={}", shot.display()));
    let dom = String::from_utf8_lossy(&run("--dump-dom").stdout).into_owned();
    // A profile that cannot be removed stays in cargo's directory for test files.
    let _ = fs::remove_dir_all(&profile);
    assert!(fs::metadata(&shot).is_ok_and(|shot| shot.len() > 50_000), "{} is empty", shot.display());
    for (name, ..) in FRAMES {
        let look = dom.split_once(&format!("data-{name}=\"")).and_then(|(_, rest)| rest.split_once('"'));
        let (look, _) = look.unwrap_or_else(|| panic!("the frame {name} was not measured"));
        let look: Vec<u32> = look.split(' ').map(|number| number.parse().expect("a width")).collect();
        let [natural, shown, window, content] = look[..] else { panic!("{name}: {look:?}") };
        assert!(natural > 0, "{name}: the picture is not shown");
        assert!(shown <= window && shown >= natural.min(window - 40), "{name}: the picture is {shown} wide");
        assert!(content <= window, "{name}: the page is {content} wide in a window of {window}");
    }
}
