//! The page of metrics, in either text format.

use crate::labels::escaped;
use crate::negotiation::TextFormat;
use std::fmt::{Display, Write};

/// The kind of a family of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    /// A value that rises and falls.
    Gauge,
    /// A value that only rises, until its process ends.
    Counter,
}

/// A family of series: its name ends with its unit, and lacks the `_total` of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: FamilyKind,
    /// Its unit; empty if it has none.
    pub unit: &'static str,
    /// What it means.
    pub help: &'static str,
}

/// A page that is being written.
#[derive(Debug)]
pub struct MetricsPage {
    format: TextFormat,
    text: String,
    /// The name of the samples of the family that was begun last.
    sample: String,
}

impl MetricsPage {
    /// An empty page.
    pub fn new(format: TextFormat) -> Self {
        Self { format, text: String::new(), sample: String::new() }
    }

    /// Begins a family. All its samples follow.
    pub fn begin(&mut self, family: &Family) {
        let &Family { name, kind, unit, help } = family;
        let (kind, ending) = match kind {
            FamilyKind::Gauge => ("gauge", ""),
            FamilyKind::Counter => ("counter", "_total"),
        };
        self.sample = format!("{name}{ending}");
        let text = &mut self.text;
        let _ = match (self.format, unit) {
            (TextFormat::OpenMetrics, "") => write!(text, "# TYPE {name} {kind}\n# HELP {name} {help}\n"),
            (TextFormat::OpenMetrics, unit) => {
                write!(text, "# TYPE {name} {kind}\n# UNIT {name} {unit}\n# HELP {name} {help}\n")
            }
            (TextFormat::Prometheus, _) => {
                let sample = &self.sample;
                write!(text, "# HELP {sample} {help}\n# TYPE {sample} {kind}\n")
            }
        };
    }

    /// Adds a sample. Labels without a value are left out: to Prometheus, they are the same as labels that are missing.
    pub fn sample<'a>(&mut self, labels: impl IntoIterator<Item = (&'a str, &'a str)>, value: impl Display) {
        self.text.push_str(&self.sample);
        let mut separator = '{';
        for (name, text) in labels.into_iter().filter(|(_, text)| !text.is_empty()) {
            let _ = write!(self.text, "{separator}{name}=\"{}\"", escaped(text));
            separator = ',';
        }
        let end = if separator == ',' { "}" } else { "" };
        let _ = writeln!(self.text, "{end} {value}");
    }

    /// The finished page.
    pub fn finish(mut self) -> String {
        if self.format == TextFormat::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_have_their_own_names_for_counters() {
        let family = Family { name: "a_bytes", kind: FamilyKind::Counter, unit: "bytes", help: "Bytes." };
        let page = |format| {
            let mut page = MetricsPage::new(format);
            page.begin(&family);
            page.sample([("program", "a\"b"), ("service", "")], 7u64);
            page.sample([], 0.5);
            page.finish()
        };
        assert_eq!(
            page(TextFormat::OpenMetrics),
            "# TYPE a_bytes counter\n# UNIT a_bytes bytes\n# HELP a_bytes Bytes.\n\
             a_bytes_total{program=\"a\\\"b\"} 7\na_bytes_total 0.5\n# EOF\n"
        );
        assert_eq!(
            page(TextFormat::Prometheus),
            "# HELP a_bytes_total Bytes.\n# TYPE a_bytes_total counter\na_bytes_total{program=\"a\\\"b\"} 7\na_bytes_total 0.5\n"
        );
    }
}
