//! Principals, the identifiers of canisters and users: bytes, and their text form.

const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// The most bytes of a principal.
const LONGEST: usize = 29;

/// The text form: base 32 of a checksum and the bytes, in groups of five letters.
pub fn principal_text(bytes: &[u8]) -> String {
    let mut all = crc32fast::hash(bytes).to_be_bytes().to_vec();
    all.extend(bytes);
    let mut letters = String::new();
    let (mut buffer, mut bits) = (0u32, 0);
    for byte in all {
        buffer = buffer << 8 | u32::from(byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            letters.push(char::from(LETTERS[(buffer >> bits) as usize & 31]));
        }
    }
    if bits > 0 {
        letters.push(char::from(LETTERS[(buffer << (5 - bits)) as usize & 31]));
    }
    let groups: Vec<&str> = (0..letters.len()).step_by(5).map(|at| &letters[at..letters.len().min(at + 5)]).collect();
    groups.join("-")
}

/// Parses the text form; `None` if it is not valid, for instance because the checksum is wrong.
pub fn principal_bytes(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let (mut buffer, mut bits) = (0u32, 0);
    for letter in text.bytes().filter(|&letter| letter != b'-') {
        let value = LETTERS.iter().position(|&known| known == letter.to_ascii_lowercase())?;
        buffer = buffer << 5 | value as u32;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            bytes.push((buffer >> bits) as u8);
        }
    }
    let principal = bytes.get(4..)?.to_vec();
    (principal.len() <= LONGEST && principal_text(&principal) == text.to_ascii_lowercase()).then_some(principal)
}
