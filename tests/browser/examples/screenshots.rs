//! Writes every screen in both themes, 390, 1,440 and 1,920 pixels wide, to `target/screenshots/`. Also writes README's
//! picture: `make screenshots`.
#![allow(clippy::print_stdout, reason = "prints where the pictures are")]

use std::path::{Path, PathBuf};

use pulse_browser::emulation::{Media, Size};
use pulse_browser::page::Page;
use pulse_browser::screens::SCREENS;
use pulse_browser::shop::Shop;

/// The incident in the pictures, unless `DEMO_INCIDENT` names another. This one fills most parts of the dashboard.
const INCIDENT: &str = "bad_deploy";

/// README's picture.
const PICTURE: &str = "docs/overview.png";
const MAX_PICTURE_BYTES: usize = 300_000;

/// The sizes of the pictures, named by their width.
const SIZES: [(&str, Size); 3] = [
    ("390", Size::PHONE),
    ("1440", Size::USUAL),
    ("1920", Size::LARGE),
];

#[tokio::main]
async fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pictures = root.join("target/screenshots");
    std::fs::create_dir_all(&pictures).expect("create the directory of pictures");
    let incident = std::env::var("DEMO_INCIDENT").unwrap_or_else(|_| INCIDENT.to_owned());
    let env = [("DEMO_HISTORY", "3h"), ("DEMO_INCIDENT", &*incident)];
    let shop = Shop::start(&env).await;
    let page = Page::empty().await;
    for (theme, media) in [("light", Media::Light), ("dark", Media::Dark)] {
        page.prefer(media).await;
        for (width, size) in SIZES {
            page.resize(size).await;
            for screen in SCREENS {
                page.visit(&shop.url(), screen).await;
                let name = format!("{}-{theme}-{width}.png", screen.name);
                let picture = page.screenshot().await;
                if name == "overview-light-1440.png" && incident == INCIDENT {
                    let size = picture.len();
                    assert!(
                        size <= MAX_PICTURE_BYTES,
                        "README's picture has {size} bytes"
                    );
                    write(root.join(PICTURE), &picture);
                }
                write(pictures.join(name), &picture);
            }
        }
    }
    println!("the pictures are in {}", pictures.display());
}

fn write(path: PathBuf, picture: &[u8]) {
    let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = written.and_then(|()| std::fs::write(&path, picture));
    written.unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}
