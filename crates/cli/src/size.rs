//! Sizes on the command line.

/// Bytes with or without a unit: `65536`, `512KiB`, `1M`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return Err("not a size; such as 512KiB, 1MiB, 65536".to_owned()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes.filter(|&bytes| bytes > 0).ok_or_else(|| "not a size; such as 512KiB, 1MiB, 65536".to_owned())
}

/// A sampling rate: a size, or `off` for every block, which is 0.
pub fn parse_sample(text: &str) -> Result<u64, String> {
    match text {
        "off" | "0" => Ok(0),
        _ => parse_bytes(text).map_err(|_| "neither 'off' nor a size; such as 512KiB, 1MiB, 65536".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_are_never_nothing() {
        assert_eq!(
            (parse_bytes("65536"), parse_bytes("512KiB"), parse_bytes("1M")),
            (Ok(65536), Ok(512 << 10), Ok(1 << 20))
        );
        for wrong in ["", "0", "KiB", "12 parsecs", "99999999999999999999", "20000000000G"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
        assert_eq!((parse_sample("off"), parse_sample("0"), parse_sample("4k")), (Ok(0), Ok(0), Ok(4096)));
    }
}
