//! Which processes a question is about: `service=checkout`, `region!=eu-west-1`, `host=web-*`.

use crate::literal;
use std::fmt;
use std::str::FromStr;

/// What a filter looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FleetLabel {
    /// The service.
    Service,
    /// The version.
    Version,
    /// The region.
    Region,
    /// The host.
    Host,
    /// The container or pod.
    Container,
    /// The pid on its host.
    Pid,
    /// The identity of a process.
    Process,
}

impl FleetLabel {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Service, Self::Version, Self::Region, Self::Host, Self::Container, Self::Pid, Self::Process];

    /// Its name on the command line.
    pub fn key(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Version => "version",
            Self::Region => "region",
            Self::Host => "host",
            Self::Container => "container",
            Self::Pid => "pid",
            Self::Process => "process",
        }
    }

    fn column(self) -> &'static str {
        if self == Self::Process { "process_id" } else { self.key() }
    }

    fn is_number(self) -> bool {
        matches!(self, Self::Pid | Self::Process)
    }
}

/// A condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelFilter {
    /// The label.
    pub label: FleetLabel,
    /// The condition is that the label does *not* match.
    pub is_inverted: bool,
    /// The value; `*` stands for any characters, `?` for one.
    pub pattern: String,
}

/// A text that is no filter.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadLabelFilter {
    /// There is no `=`.
    #[error("'{0}' is no filter: service=checkout, region!=eu-west-1 and host=web-* are")]
    NoSign(String),
    /// There is no such label.
    #[error("there is no label '{0}': service, version, region, host, container, pid and process are labels")]
    NoLabel(String),
    /// A number is wanted.
    #[error("'{1}' is no number, and {0} is one")]
    NoNumber(&'static str, String),
}

impl FromStr for LabelFilter {
    type Err = BadLabelFilter;

    fn from_str(text: &str) -> Result<Self, BadLabelFilter> {
        let (name, pattern) = text.split_once('=').ok_or_else(|| BadLabelFilter::NoSign(text.into()))?;
        let (name, is_inverted) = name.strip_suffix('!').map_or((name, false), |name| (name, true));
        let known = FleetLabel::ALL.into_iter().find(|label| label.key() == name.trim());
        let label = known.ok_or_else(|| BadLabelFilter::NoLabel(name.into()))?;
        if label.is_number() && pattern.parse::<i64>().is_err() {
            return Err(BadLabelFilter::NoNumber(label.key(), pattern.into()));
        }
        Ok(Self { label, is_inverted, pattern: pattern.to_owned() })
    }
}

impl fmt::Display for LabelFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}={}", self.label.key(), if self.is_inverted { "!" } else { "" }, self.pattern)
    }
}

impl LabelFilter {
    /// Whether a value passes.
    pub fn passes(&self, value: &str) -> bool {
        matches_glob(&self.pattern, value) != self.is_inverted
    }

    /// The condition in SQL. Only `processes` has containers, so that others look for them in `containers`.
    fn sql(&self, containers: Option<&str>) -> String {
        let column = self.label.column();
        let is_glob = self.pattern.contains(['*', '?']);
        let condition = match (self.label.is_number(), is_glob) {
            (true, _) => format!("{column} = {}", self.pattern.parse::<i64>().unwrap_or(0)),
            (false, true) => literal::matches_glob(column, &self.pattern),
            (false, false) => format!("{column} = {}", literal::text(&self.pattern)),
        };
        match (containers.filter(|_| self.label == FleetLabel::Container), self.is_inverted) {
            (Some(relation), false) => format!("process_id IN (SELECT process_id FROM {relation} WHERE {condition})"),
            (Some(relation), true) => {
                format!("process_id NOT IN (SELECT process_id FROM {relation} WHERE {condition})")
            }
            (None, false) => condition,
            (None, true) => format!("NOT ({condition})"),
        }
    }
}

/// All filters as one condition; `None` if there are none. Values of one label are alternatives, different labels and inverted filters must all pass. `containers` is a
/// relation with the containers of processes, for rows that have none.
pub fn condition(filters: &[LabelFilter], containers: Option<&str>) -> Option<String> {
    let mut parts = Vec::new();
    for label in FleetLabel::ALL {
        let of_label = |is_inverted| filters.iter().filter(move |f| f.label == label && f.is_inverted == is_inverted);
        let wanted: Vec<String> = of_label(false).map(|filter| filter.sql(containers)).collect();
        match wanted.len() {
            0 => {}
            1 => parts.extend(wanted),
            _ => parts.push(format!("({})", wanted.join(" OR "))),
        }
        parts.extend(of_label(true).map(|filter| filter.sql(containers)));
    }
    (!parts.is_empty()).then(|| parts.join(" AND "))
}

/// Whether a value of one label passes all filters of that label.
pub fn label_passes(filters: &[LabelFilter], label: FleetLabel, value: &str) -> bool {
    let mut wanted = filters.iter().filter(|filter| filter.label == label && !filter.is_inverted).peekable();
    let is_wanted = wanted.peek().is_none() || wanted.any(|filter| filter.passes(value));
    is_wanted
        && filters
            .iter()
            .filter(|filter| filter.label == label && filter.is_inverted)
            .all(|filter| filter.passes(value))
}

/// `*` stands for any characters, `?` for one.
fn matches_glob(pattern: &str, value: &str) -> bool {
    let (pattern, value): (Vec<char>, Vec<char>) = (pattern.chars().collect(), value.chars().collect());
    let (mut at, mut read) = (0, 0);
    let mut retry = None;
    while read < value.len() {
        match pattern.get(at) {
            Some('*') => {
                retry = Some((at + 1, read));
                at += 1;
            }
            Some(c) if *c == '?' || *c == value[read] => {
                at += 1;
                read += 1;
            }
            _ => match retry {
                Some((after_star, from)) => {
                    retry = Some((after_star, from + 1));
                    at = after_star;
                    read = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters(texts: &[&str]) -> Vec<LabelFilter> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn filters_become_one_condition() {
        assert_eq!(condition(&[], None), None);
        let sql =
            condition(&filters(&["region!=eu", "host=web-*", "host=db", "pid=7", "container=c'1"]), Some("processes"))
                .unwrap();
        assert_eq!(
            sql,
            "NOT (region = 'eu') AND (host LIKE 'web-%' ESCAPE '!' OR host = 'db') AND \
             process_id IN (SELECT process_id FROM processes WHERE container = ('c' || chr(39) || '1')) AND pid = 7"
        );
    }

    #[test]
    fn a_bad_filter_says_what_a_good_one_is() {
        let said = |text: &str| text.parse::<LabelFilter>().unwrap_err().to_string();
        assert!(said("checkout").contains("service=checkout"));
        assert!(said("zone=1").contains("no label 'zone'"));
        assert!(said("pid=1 OR 1=1").contains("no number"));
    }

    #[test]
    fn globs_match_as_in_sql() {
        for (pattern, value, expected) in [
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("?", "ü", true),
            ("*", "", true),
            ("a*b*c", "axbybc", true),
            ("", "x", false),
        ] {
            assert_eq!(matches_glob(pattern, value), expected, "{pattern} {value}");
        }
        assert!(label_passes(&filters(&["service=a", "service=b"]), FleetLabel::Service, "b"));
        assert!(!label_passes(&filters(&["service=a*", "service!=ab"]), FleetLabel::Service, "ab"));
    }
}
