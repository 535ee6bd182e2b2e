//! Sizes on the command line.

const FORMS: &str = "a size is 65536, 512KiB (1,024 bytes each), 80KB (1,000 bytes each), 1MiB or 2G";

/// A number of bytes that is not 0: see [`highwater_query::parse_bytes`].
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let bytes = highwater_query::parse_bytes(text).filter(|&bytes| bytes > 0);
    bytes.ok_or_else(|| format!("not a size: {FORMS}"))
}

/// A sampling rate: a size, or `off` for every block, which is 0.
pub fn parse_sample(text: &str) -> Result<u64, String> {
    match text {
        "off" | "0" => Ok(0),
        _ => parse_bytes(text).map_err(|_| format!("neither 'off' nor a size: {FORMS}")),
    }
}

/// A sampling rate as OCaml's memtrace has it: the chance of each word of 8 bytes to be a sample. Returns the mean number of bytes from one sample to the
/// next; 0 if every word is one, which is every block.
pub fn parse_sample_rate(text: &str) -> Result<u64, String> {
    const WORD_BYTES: f64 = 8.0;
    /// Beyond it, no program would ever have a sample.
    const MOST: f64 = (1u64 << 50) as f64;
    let rate = text.parse::<f64>().ok().filter(|rate| *rate > 0.0 && *rate <= 1.0 && WORD_BYTES / rate <= MOST);
    let rate = rate.ok_or("not a rate: the chance of each word of 8 bytes to be a sample, such as 1e-4, at most 1")?;
    Ok(if rate == 1.0 { 0 } else { (WORD_BYTES / rate).round() as u64 })
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
        for wrong in ["", "0", "KiB", "12 parsecs", "99999999999999999999", "20000000000G", "1kbb", "1ib", "1.5G"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
        assert_eq!((parse_sample("off"), parse_sample("0"), parse_sample("4k")), (Ok(0), Ok(0), Ok(4096)));
    }

    #[test]
    fn rates_are_chances_of_words() {
        let cases =
            [("1e-4", 80_000), ("0.0001", 80_000), ("1e-6", 8_000_000), ("0.5", 16), ("1", 0), ("3e-4", 26_667)];
        for (text, bytes) in cases {
            assert_eq!(parse_sample_rate(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "0", "-1e-4", "1.5", "nan", "inf", "1e-300", "1e-4%", "512KiB"] {
            assert!(parse_sample_rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn units_with_an_i_are_binary_and_those_without_decimal() {
        let cases = [
            ("80KB", 80_000),
            ("80kb", 80_000),
            ("80KiB", 80 << 10),
            ("80 kib", 80 << 10),
            ("80K", 80 << 10),
            ("3MB", 3_000_000),
            ("3MiB", 3 << 20),
            ("2GB", 2_000_000_000),
            ("2GiB", 2 << 30),
            ("1TB", 1_000_000_000_000),
            ("1TiB", 1 << 40),
            ("7B", 7),
        ];
        for (text, bytes) in cases {
            assert_eq!((parse_bytes(text), parse_sample(text)), (Ok(bytes), Ok(bytes)), "{text}");
        }
    }
}
