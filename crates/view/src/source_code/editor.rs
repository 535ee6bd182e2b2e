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
}
