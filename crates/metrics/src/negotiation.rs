//! Which text format a client understands.

/// A text format for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The format of Prometheus before it.
    Prometheus,
}

impl TextFormat {
    /// The one that an `Accept` field prefers. Clients that do not mention OpenMetrics get the older format, which all read.
    pub fn accepted(accept: &str) -> Self {
        let quality = |wanted: &str| {
            let parts = accept.split(',').filter_map(|part| {
                let mut words = part.split(';').map(str::trim);
                let is_wanted = words.next()?.eq_ignore_ascii_case(wanted);
                let quality = words.find_map(|word| word.strip_prefix("q=")?.parse::<f64>().ok()).unwrap_or(1.0);
                is_wanted.then_some(quality)
            });
            parts.fold(0.0, f64::max)
        };
        let open = quality("application/openmetrics-text");
        if open > 0.0 && open >= quality("text/plain") { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// The content type of an answer.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_one_that_the_client_prefers() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.75,application/openmetrics-text;version=0.0.1;q=0.5,\
            text/plain;version=0.0.4;q=0.4,*/*;q=0.1";
        assert_eq!(TextFormat::accepted(prometheus), TextFormat::OpenMetrics);
        assert_eq!(TextFormat::accepted("application/openmetrics-text; version=1.0.0"), TextFormat::OpenMetrics);
        for accept in ["", "*/*", "text/plain", "application/openmetrics-text;q=0", "text/html, image/*;q=0.8"] {
            assert_eq!(TextFormat::accepted(accept), TextFormat::Prometheus, "{accept}");
        }
        let rather_plain = "text/plain, application/openmetrics-text;q=0.5";
        assert_eq!(TextFormat::accepted(rather_plain), TextFormat::Prometheus);
    }
}
