//! Labels of a process: what OpenTelemetry's variables in its environment say.

use std::fs::File;
use std::io::Read;

/// The longest environment that is read.
const LONGEST_ENVIRONMENT: u64 = 1 << 20;
/// The longest value of a label, in characters.
const LONGEST_VALUE: usize = 200;

/// The labels that a process's environment gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessLabels {
    /// `OTEL_SERVICE_NAME`, or `service.name` of `OTEL_RESOURCE_ATTRIBUTES`; empty if there is neither.
    pub service: String,
    /// `service.version` of `OTEL_RESOURCE_ATTRIBUTES`; empty if there is none.
    pub version: String,
}

impl ProcessLabels {
    /// Reads the environment with which a process was started. Empty if it may not be read.
    pub fn of(pid: u32) -> Self {
        let mut environment = Vec::new();
        let read = File::open(format!("/proc/{pid}/environ"))
            .and_then(|file| file.take(LONGEST_ENVIRONMENT).read_to_end(&mut environment));
        if read.is_err() { Self::default() } else { Self::from_environment(&environment) }
    }

    /// From variables that are each ended by a zero byte.
    pub fn from_environment(environment: &[u8]) -> Self {
        let variable = |name: &str| {
            let value = environment.split(|&byte| byte == 0).find_map(|variable| {
                variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=").filter(|value| !value.is_empty())
            });
            value.map(|value| String::from_utf8_lossy(value).into_owned())
        };
        let attributes = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        let attribute = |name: &str| {
            let pairs = attributes.split(',').filter_map(|pair| pair.split_once('='));
            let mut values =
                pairs.filter(|(key, _)| key.trim() == name).filter_map(|(_, value)| percent_decoded(value.trim()));
            values.rfind(|value| !value.is_empty())
        };
        let service = variable("OTEL_SERVICE_NAME").or_else(|| attribute("service.name"));
        Self { service: service.unwrap_or_default(), version: attribute("service.version").unwrap_or_default() }
    }
}

/// Decodes `%xx`; `None` if a percent sign is not followed by two digits.
fn percent_decoded(text: &str) -> Option<String> {
    let (mut decoded, mut rest) = (Vec::new(), text.bytes());
    while let Some(byte) = rest.next() {
        let mut digit = || (rest.next()? as char).to_digit(16);
        decoded.push(if byte == b'%' { (digit()? * 16 + digit()?) as u8 } else { byte });
    }
    Some(String::from_utf8_lossy(&decoded).into_owned())
}

/// A label's value between quotes, escaped as both text formats require. Long values are shortened, and control characters become spaces.
pub fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for (number, character) in value.chars().enumerate() {
        if number == LONGEST_VALUE {
            text.push('…');
            break;
        }
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other if other.is_control() => text.push(' '),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_that_of_open_telemetry() {
        let of = |environment: &str| {
            let labels = ProcessLabels::from_environment(environment.replace('|', "\0").as_bytes());
            (labels.service, labels.version)
        };
        let pair = |service: &str, version: &str| (service.to_owned(), version.to_owned());
        assert_eq!(of("HOME=/|OTEL_SERVICE_NAME=shop|"), pair("shop", ""));
        assert_eq!(of("OTEL_RESOURCE_ATTRIBUTES=service.name=cart, service.version=1.2|"), pair("cart", "1.2"));
        assert_eq!(of("OTEL_RESOURCE_ATTRIBUTES=service.name=cart|OTEL_SERVICE_NAME=shop|"), pair("shop", ""));
        assert_eq!(of("OTEL_SERVICE_NAME=|OTEL_RESOURCE_ATTRIBUTES=service.name=a%zz%|"), pair("", ""));
        assert_eq!(
            of("OTEL_SERVICE_NAME=|OTEL_RESOURCE_ATTRIBUTES=service.name=a%2Cb,service.name=%4|"),
            pair("a,b", "")
        );
        assert_eq!(of("XOTEL_SERVICE_NAME=shop|OTEL_SERVICE_NAMES=x|nonsense"), pair("", ""));
        assert_eq!(ProcessLabels::from_environment(b"OTEL_SERVICE_NAME=\xff\0").service, "\u{fffd}");
    }

    #[test]
    fn values_are_escaped_and_short() {
        assert_eq!(escaped("a\"b\\c\nd\re\u{1b}f ü"), "a\\\"b\\\\c\\nd e f ü");
        assert_eq!(escaped(&"é".repeat(1000)).chars().count(), LONGEST_VALUE + 1);
    }
}
