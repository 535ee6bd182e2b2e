//! The value of the field `Authorization`: from an environment variable, or from a file.

use highwater_http::client::OutgoingRequest;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

/// The longest value. Tokens have some thousand characters at most.
const LONGEST: u64 = 16 << 10;

/// Where the value comes from.
#[derive(Clone, Default)]
pub enum Authorization {
    /// Requests have no such field.
    #[default]
    None,
    /// This value.
    Value(String),
    /// The first line of a file, which is read for each parcel.
    File(PathBuf),
}

/// Why there is no value. Never has the value itself in it.
#[derive(Debug, thiserror::Error)]
pub enum AuthorizationError {
    /// The file cannot be read.
    #[error("cannot read the authorization in {path}: {error}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The value cannot be a field of a request.
    #[error(
        "the authorization is empty, too long, or has characters beside visible ASCII; it is for example 'Bearer TOKEN'"
    )]
    Malformed,
}

impl Authorization {
    /// The value of an environment variable, if it is set.
    pub fn from_variable(value: Option<String>) -> Result<Self, AuthorizationError> {
        value.map_or(Ok(Self::None), |value| checked(&value).map(Self::Value))
    }

    /// The value now.
    pub(super) fn value(&self) -> Result<Option<String>, AuthorizationError> {
        match self {
            Self::None => Ok(None),
            Self::Value(value) => Ok(Some(value.clone())),
            Self::File(path) => {
                let mut text = String::new();
                let read = File::open(path).and_then(|file| file.take(LONGEST + 2).read_to_string(&mut text));
                read.map_err(|error| AuthorizationError::File { path: path.clone(), error })?;
                checked(&text).map(Some)
            }
        }
    }
}

fn checked(text: &str) -> Result<String, AuthorizationError> {
    let value = text.trim();
    let is_valid = !value.is_empty() && value.len() as u64 <= LONGEST && OutgoingRequest::is_field(value);
    is_valid.then(|| value.to_owned()).ok_or(AuthorizationError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_line_and_in_no_message() {
        let of = |text: &str| Authorization::from_variable(Some(text.to_owned()));
        assert_eq!(of(" Bearer abc\n").unwrap().value().unwrap().as_deref(), Some("Bearer abc"));
        assert!(Authorization::from_variable(None).unwrap().value().unwrap().is_none());
        for text in ["", " ", "secret\r\nHost: x", "gehei\u{df}", &"s".repeat(20_000)] {
            let message = of(text).err().unwrap().to_string();
            assert!(!message.contains("secret") && !message.contains("gehei"), "{message}");
        }
        let message = Authorization::File("/does/not/exist".into()).value().unwrap_err().to_string();
        assert!(message.starts_with("cannot read the authorization in /does/not/exist: "), "{message}");
    }
}
