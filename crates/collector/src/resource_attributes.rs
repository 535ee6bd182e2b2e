//! `OTEL_RESOURCE_ATTRIBUTES`: `key=value,key=value`, values percent-encoded.

/// The attributes with values that are not empty. A pair that makes no sense is left out. Of two values of one key the last counts.
pub fn resource_attributes(text: &[u8]) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for pair in text.split(|&byte| byte == b',') {
        let Some(at) = pair.iter().position(|&byte| byte == b'=') else { continue };
        let key = String::from_utf8_lossy(pair[..at].trim_ascii()).into_owned();
        let Some(value) = percent_decoded(pair[at + 1..].trim_ascii()) else { continue };
        if key.is_empty() || value.is_empty() {
            continue;
        }
        all.retain(|(known, _)| *known != key);
        all.push((key, String::from_utf8_lossy(&value).into_owned()));
    }
    all
}

/// `None` if a percent sign is not followed by two digits.
fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let (digits, after) = rest.split_first_chunk::<2>()?;
            let digit = |digit: u8| char::from(digit).to_digit(16);
            decoded.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
            rest = after;
        } else {
            decoded.push(byte);
        }
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_and_nonsense_is_left_out() {
        let text = b"service.name=my%20shop%2C%C3%A9, service.version = 1.42 ,broken,=x,empty=,bad=%zz,cut=%4,a=1,a=2,raw=\xff";
        let found = resource_attributes(text);
        let found: Vec<(&str, &str)> = found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let expected = [("service.name", "my shop,é"), ("service.version", "1.42"), ("a", "2"), ("raw", "\u{fffd}")];
        assert_eq!(found, expected);
        assert!(resource_attributes(b"").is_empty());
    }
}
