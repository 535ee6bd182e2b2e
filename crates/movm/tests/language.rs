//! Scripts mean what they mean to the Motoko compiler: each case has the result of the compiler's own interpreter.

use std::process::Command;

const MOVM: &str = env!("CARGO_BIN_EXE_highwater-movm");
const CASES: &str = include_str!("fixtures/language/cases.txt");

/// One case: its title, the script, and what it prints.
struct Case<'a> {
    title: &'a str,
    script: String,
    printed: String,
}

/// As `refresh.js` does: imports first, then the script, then its expression.
fn case(text: &str) -> Case<'_> {
    let mut lines = text.trim_end().lines();
    let title = lines.next().unwrap();
    let library = title.rsplit(' ').next().unwrap();
    let (mut imports, mut body, mut printed) =
        (format!("import Debug \"mo:{library}/Debug\";\n"), String::new(), Vec::new());
    let mut shown = "";
    for line in lines {
        if let Some(line) = line.strip_prefix("-- ") {
            printed.push(line);
        } else if let Some(line) = line.strip_prefix("=> ") {
            shown = line;
        } else if line.starts_with("import ") {
            imports += &format!("{};\n", line.trim_end_matches(';'));
        } else {
            body += &format!("{line}\n");
        }
    }
    Case { title, script: format!("{imports}{body}Debug.print(debug_show({shown}));"), printed: printed.join("\n") }
}

#[test]
fn scripts_mean_what_the_compiler_says() {
    let cases: Vec<Case> = CASES.split("\n== ").map(|text| case(text.trim_start_matches("== "))).collect();
    assert!(cases.len() >= 75, "{}", cases.len());
    let image = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("language.img");
    std::fs::write(&image, b"an image").unwrap();
    for Case { title, script, printed } in cases {
        let ended = Command::new(MOVM).arg(&image).args(["--expression", &script]).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(
            (String::from_utf8(ended.stdout).unwrap().trim_end(), said.as_str()),
            (&*printed, ""),
            "{title}:\n{script}"
        );
    }
}
