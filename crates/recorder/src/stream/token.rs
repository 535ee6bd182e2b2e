//! A shared secret: each client that connects sends it first, in a line.

use std::fmt;
use std::io::{self, Read};
use std::net::TcpStream;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The start of the line.
pub const TOKEN_WORD: &str = "HWtoken ";
/// The longest token.
pub const LONGEST_TOKEN: usize = 256;
/// How long a client may take to send it.
const PATIENCE: Duration = Duration::from_secs(5);

/// A token: a word without spaces.
#[derive(Clone, PartialEq, Eq)]
pub struct StreamToken(String);

impl fmt::Debug for StreamToken {
    /// Never shows the token itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl FromStr for StreamToken {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sound = (1..=LONGEST_TOKEN).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if sound { Ok(Self(text.to_owned())) } else { Err("a token is a word of at most 256 letters".to_owned()) }
    }
}

impl StreamToken {
    /// The line to send.
    pub fn line(&self) -> String {
        format!("{TOKEN_WORD}{}\n", self.0)
    }

    /// Whether a line has this token. A wrong token takes the same time to check as the right one.
    pub fn is_in(&self, line: &[u8]) -> bool {
        let expected = self.line();
        let differences = expected.bytes().zip(line.iter().chain(std::iter::repeat(&0))).map(|(a, b)| a ^ b);
        differences.fold(0, |all, one| all | one) == 0 && line.len() == expected.len()
    }

    /// Reads a line from the client that has connected: whether it has this token.
    pub fn is_sent_by(&self, connection: &mut TcpStream) -> io::Result<bool> {
        let deadline = Instant::now() + PATIENCE;
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') && line.len() < TOKEN_WORD.len() + LONGEST_TOKEN + 1 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            connection.set_read_timeout(Some(left))?;
            let mut byte = [0];
            match connection.read(&mut byte) {
                Ok(0) => return Ok(false),
                Ok(_) => line.push(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Ok(false),
            }
        }
        connection.set_read_timeout(None)?;
        Ok(self.is_in(&line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_line_will_do() {
        let token = StreamToken::from_str("secret").unwrap();
        assert!(token.is_in(b"HWtoken secret\n"));
        for wrong in
            [&b"HWtoken secre\n"[..], b"HWtoken secrets\n", b"HWtoken secret", b"secret\n", b"", b"HWtoken secret\n "]
        {
            assert!(!token.is_in(wrong), "{wrong:?}");
        }
        assert!(StreamToken::from_str("two words").is_err() && StreamToken::from_str("").is_err());
        assert_eq!(format!("{token:?}"), "Token");
    }
}
