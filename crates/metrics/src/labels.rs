//! Labels of a process: what OpenTelemetry's variables in its environment say.

use highwater_collector::Environment;

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
    /// Those of a running process. Empty if its environment may not be read.
    pub fn of(pid: u32) -> Self {
        Self::from_environment(&Environment::of_program(pid))
    }

    /// Those that an environment gives.
    pub fn from_environment(environment: &Environment) -> Self {
        let attribute = |key: &str| environment.attribute(key).unwrap_or_default().to_owned();
        let service = environment.variable("OTEL_SERVICE_NAME").map(str::to_owned);
        Self { service: service.unwrap_or_else(|| attribute("service.name")), version: attribute("service.version") }
    }
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
            let labels =
                ProcessLabels::from_environment(&Environment::parse(environment.replace('|', "\0").as_bytes()));
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
        assert_eq!(
            ProcessLabels::from_environment(&Environment::parse(b"OTEL_SERVICE_NAME=\xff\0")).service,
            "\u{fffd}"
        );
    }

    #[test]
    fn values_are_escaped_and_short() {
        assert_eq!(escaped("a\"b\\c\nd\re\u{1b}f ü"), "a\\\"b\\\\c\\nd e f ü");
        assert_eq!(escaped(&"é".repeat(1000)).chars().count(), LONGEST_VALUE + 1);
    }
}
