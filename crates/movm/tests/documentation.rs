//! The tables of `docs/scripts.md`: each row is run, and its result is compared. `HIGHWATER_REFRESH=1` writes the results instead.

mod folder;

use folder::Folder;
use std::path::Path;

/// The script and the result of a row, if it is one.
fn row(line: &str) -> Option<(String, String)> {
    let (script, result) = line.strip_prefix("| `")?.strip_suffix('|')?.split_once("` | ")?;
    let plain = |text: &str| text.trim().trim_matches('`').replace("\\|", "|");
    Some((plain(script), plain(result)))
}

#[test]
fn the_tables_of_scripts_have_the_results_of_scripts() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scripts.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let files = [("ledger-1.img", "old.img"), ("ledger-2.img", "ledger.img"), ("ledger.wasm", "ledger.wasm")];
    let folder = Folder::with_all(&files);
    let new = ["ledger.img", "--module", "ledger.wasm"];
    let (mut rows, mut of_two, mut written) = (0, 0, String::new());
    let mut images = new.to_vec();
    for line in text.lines() {
        if line == "## Two images" {
            images = [&["old.img", "--module", "ledger.wasm"][..], &new].concat();
        }
        let Some((script, wanted)) = row(line) else {
            written += &format!("{line}\n");
            continue;
        };
        let output = folder.movm(&[&images[..], &["--expression", &script]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {said}");
        let result = String::from_utf8(output.stdout).unwrap().trim_end().replace('\n', " ⏎ ");
        let cell = |text: &str| text.replace('|', "\\|");
        written += &format!("| `{}` | `{}` |\n", cell(&script), cell(&result));
        if std::env::var_os("HIGHWATER_REFRESH").is_none() {
            assert_eq!(result, wanted, "{script}");
        }
        rows += 1;
        of_two += usize::from(images.len() > new.len());
    }
    assert!(rows >= 40 && of_two >= 5, "{rows} rows, {of_two} of two images");
    if std::env::var_os("HIGHWATER_REFRESH").is_some() {
        std::fs::write(page, written).unwrap();
    }
}
