//! Files that get the verdict, each in a format: `--verdict junit=budget.xml`.

use super::ci::{self, FileVerdict};
use super::text::render;
use super::{Limits, Verdict};
use crate::failure::Failure;
use crate::output::Output;
use crate::print::colour::Paint;
use clap::ValueEnum;
use highwater_formats::json::SCHEMA;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// How a verdict is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum VerdictFormat {
    /// For people
    #[default]
    Text,
    /// One JSON document
    Json,
    /// JUnit's XML, which CI services show as tests
    Junit,
    /// Annotations of GitHub Actions
    Github,
    /// GitLab's code quality report
    Gitlab,
}

impl VerdictFormat {
    /// What a file in this format has after the name of the recording.
    fn ending(self) -> &'static str {
        match self {
            Self::Text => "txt",
            Self::Json => "json",
            Self::Junit => "xml",
            Self::Github => "github.txt",
            Self::Gitlab => "gitlab.json",
        }
    }

    fn render(self, file: &FileVerdict<'_>, verdict: Option<&Verdict>, limits: Option<&Limits>) -> String {
        match self {
            Self::Text => {
                let problems: String = file.problems.iter().flatten().map(|problem| format!("{problem}\n")).collect();
                problems + &verdict.map_or_else(String::new, |verdict| render(verdict, Paint::plain(), None))
            }
            Self::Json => {
                let document = json!({
                    "schema": SCHEMA,
                    "command": "check",
                    "file": file.path.display().to_string(),
                    "problems": file.problems,
                    "budget": verdict.map(Verdict::document),
                });
                format!("{document:#}\n")
            }
            Self::Junit => ci::junit(file, verdict),
            Self::Github => ci::github(file, verdict),
            Self::Gitlab => format!("{:#}\n", ci::gitlab(file, verdict, limits)),
        }
    }
}

/// A file that gets the verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictFile {
    format: VerdictFormat,
    path: PathBuf,
}

impl FromStr for VerdictFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || "not a format and a file: junit=budget.xml; there are text, json, junit, github, gitlab".to_owned();
        let (format, path) = text.split_once('=').filter(|(_, path)| !path.is_empty()).ok_or_else(wrong)?;
        let format = VerdictFormat::from_str(format, false).map_err(|_| wrong())?;
        Ok(Self { format, path: path.into() })
    }
}

impl VerdictFile {
    /// Removes a file of an earlier run.
    pub(super) fn remove_old(&self) {
        if self.path.is_file() {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// The file's path; in a folder, it has the name of the recording.
    fn path_for(&self, recording: &Path) -> PathBuf {
        match self.path.is_dir() {
            true => {
                let name = recording.file_stem().unwrap_or_default().to_string_lossy();
                self.path.join(format!("{name}.{}", self.format.ending()))
            }
            false => self.path.clone(),
        }
    }

    /// Writes the verdict.
    pub fn write(
        &self,
        file: &FileVerdict<'_>,
        verdict: Option<&Verdict>,
        limits: Option<&Limits>,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let text = self.format.render(file, verdict, limits);
        if self.path.as_os_str() == "-" {
            output.bytes(text.as_bytes())?;
            return output.flush();
        }
        let path = self.path_for(file.path);
        std::fs::write(&path, text).map_err(|error| Failure::writing_file(&path, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_format_in_front() {
        let read = |text: &str| text.parse::<VerdictFile>();
        let file = VerdictFile { format: VerdictFormat::Junit, path: "a=b.xml".into() };
        assert_eq!(read("junit=a=b.xml"), Ok(file.clone()));
        for wrong in ["", "junit", "junit=", "xml=a", "=a"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert_eq!(file.path_for(Path::new("x/app.hw")), Path::new("a=b.xml"));
        let in_folder = VerdictFile { path: std::env::temp_dir(), ..file };
        assert_eq!(in_folder.path_for(Path::new("x/app.hw")), std::env::temp_dir().join("app.xml"));
    }
}
