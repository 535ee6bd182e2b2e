//! Opens a file in the user's editor.
//!
//! The command is split into words once, when the viewer starts, and is never passed to a shell: a path in a recording may contain anything.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;

/// The command that opens a file: `code -g {file}:{line}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Editor {
    /// The program and its arguments, with `{file}` and `{line}`.
    words: Vec<String>,
}

/// Why a text is no command for an editor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoEditor {
    /// There is no program.
    #[error("the editor's command is empty")]
    Empty,
    /// It would not open the file.
    #[error("the editor's command has no {{file}} among its arguments; for example: 'code -g {{file}}:{{line}}'")]
    NoFile,
    /// A quote is not closed.
    #[error("a quote in the editor's command is not closed")]
    OpenQuote,
}

impl FromStr for Editor {
    type Err = NoEditor;

    fn from_str(text: &str) -> Result<Self, NoEditor> {
        let words = words_of(text)?;
        match words.split_first() {
            None => Err(NoEditor::Empty),
            Some((_, arguments)) if !arguments.iter().any(|word| word.contains("{file}")) => Err(NoEditor::NoFile),
            Some(_) => Ok(Self { words }),
        }
    }
}

/// Editors that have a window of their own, with the arguments that open a file at a line. An editor that needs a terminal would wait for one for ever.
const GRAPHICAL: &[(&[&str], &[&str])] = &[
    (&["code", "code-insiders", "codium", "cursor", "vscodium", "windsurf"], &["-g", "{file}:{line}"]),
    (&["subl", "sublime_text", "zed", "zeditor", "lapce"], &["{file}:{line}"]),
    (&["gvim", "emacs", "gedit", "gnome-text-editor", "xed", "pluma"], &["+{line}", "{file}"]),
    (&["emacsclient"], &["-n", "+{line}", "{file}"]),
    (&["kate", "kwrite", "mousepad"], &["--line", "{line}", "{file}"]),
    (&["geany"], &["-l", "{line}", "{file}"]),
    (
        &["idea", "clion", "rustrover", "pycharm", "goland", "webstorm", "phpstorm", "rubymine", "studio"],
        &["--line", "{line}", "{file}"],
    ),
];
/// Arguments with which emacs and its client stay in the terminal.
const IN_TERMINAL: &[&str] = &["-nw", "--no-window-system", "-t", "-tty", "--tty"];

/// The words of a command. Quotes of both kinds, and a backslash outside of single quotes, have the meaning that they have in a shell; nothing else has.
fn words_of(text: &str) -> Result<Vec<String>, NoEditor> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        match (quote, letter) {
            (Some(open), letter) if open == letter => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(rest.next()),
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    if quote.is_some() { Err(NoEditor::OpenQuote) } else { Ok(words) }
}

impl Editor {
    /// The editor that `$VISUAL` or `$EDITOR` names, if it is one that has a window of its own.
    pub fn of_environment(text: &str) -> Option<Self> {
        let mut words = words_of(text).ok()?;
        let program = words.first()?.rsplit('/').next()?;
        let (_, arguments) = GRAPHICAL.iter().find(|(names, _)| names.contains(&program))?;
        if words.iter().any(|word| IN_TERMINAL.contains(&word.as_str()) || word.contains('{')) {
            return None;
        }
        words.extend(arguments.iter().map(|&argument| argument.to_owned()));
        Some(Self { words })
    }

    /// The words of the command for a file and a line.
    fn command(&self, file: &Path, line: u32) -> Vec<OsString> {
        let line = line.max(1).to_string();
        let word = |word: &String| {
            let mut filled = OsString::new();
            for (at, part) in word.split("{file}").enumerate() {
                if at > 0 {
                    filled.push(file);
                }
                filled.push(part.replace("{line}", &line));
            }
            filled
        };
        self.words.iter().map(word).collect()
    }

    /// Starts the editor. It outlives the request, and has neither our terminal nor our output.
    pub fn open(&self, file: &Path, line: u32) -> io::Result<()> {
        let words = self.command(file, line);
        let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        std::thread::spawn(move || child.wait());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &str, file: &str) -> Vec<String> {
        let editor: Editor = command.parse().unwrap();
        editor.command(Path::new(file), 7).into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn a_command_is_words_and_nothing_else() {
        assert_eq!(words("code -g {file}:{line}", "/a b.rs"), ["code", "-g", "/a b.rs:7"]);
        assert_eq!(words(r#"'my editor' "+{line}" {file} \'"#, "/a.c"), ["my editor", "+7", "/a.c", "'"]);
        assert_eq!(words("e '' {file}", "/$(reboot);{line}.c"), ["e", "", "/$(reboot);{line}.c"]);
        assert_eq!("".parse::<Editor>(), Err(NoEditor::Empty));
        assert_eq!("vi".parse::<Editor>(), Err(NoEditor::NoFile));
        assert_eq!("{file} x".parse::<Editor>(), Err(NoEditor::NoFile));
        assert_eq!("vi '{file}".parse::<Editor>(), Err(NoEditor::OpenQuote));
    }

    #[test]
    fn an_editor_of_the_environment_counts_if_it_has_a_window() {
        let words = |text: &str| {
            let editor = Editor::of_environment(text)?;
            Some(editor.command(Path::new("/a b.c"), 7).into_iter().map(|word| word.into_string().unwrap()).collect())
        };
        let expected =
            |words: &[&str]| -> Option<Vec<String>> { Some(words.iter().map(ToString::to_string).collect()) };
        assert_eq!(words("code --wait"), expected(&["code", "--wait", "-g", "/a b.c:7"]));
        assert_eq!(words("/usr/bin/gvim -f"), expected(&["/usr/bin/gvim", "-f", "+7", "/a b.c"]));
        assert_eq!(words("emacsclient -c"), expected(&["emacsclient", "-c", "-n", "+7", "/a b.c"]));
        for terminal in ["", "vi", "nano", "emacsclient -t", "emacs -nw", "sh -c code", "code {file}", "'code"] {
            assert_eq!(words(terminal), None, "{terminal}");
        }
    }
}
