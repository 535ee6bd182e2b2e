//! A client's request: its parts, its id, and the checks that it must pass before anything is done.

use super::cbor::{Cbor, CborError};
use super::principal::{ANONYMOUS, self_authenticating};
use super::signature::{BadSignature, verify};
use sha2::{Digest, Sha256};

/// How far ahead of the present a request may expire: five minutes, and a minute for clocks that differ.
const LONGEST_LIFE_NS: u64 = 6 * 60 * 1_000_000_000;
/// The most delegations from a key to another.
const MOST_DELEGATIONS: usize = 20;
/// The longest nonce.
const LONGEST_NONCE: usize = 32;
/// The most paths in one request for state, and the most labels of each.
const MOST_PATHS: usize = 1000;
const MOST_LABELS: usize = 127;
/// The longest principal.
const LONGEST_PRINCIPAL: usize = 29;

/// A request that passed all checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcRequest {
    /// The hash of its content, by which clients ask for its result.
    pub id: [u8; 32],
    /// The principal of its sender.
    pub sender: Vec<u8>,
    /// When it ends, in nanoseconds since 1970.
    pub expiry_ns: u64,
    /// What it asks for.
    pub content: RequestContent,
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestContent {
    /// A message to a canister.
    Call(CanisterCall),
    /// The same, without a lasting effect.
    Query(CanisterCall),
    /// Parts of the state tree, by their paths.
    ReadState(Vec<Vec<Vec<u8>>>),
}

/// A message to a canister.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanisterCall {
    /// The principal of the canister.
    pub canister_id: Vec<u8>,
    /// The name of the method.
    pub method: String,
    /// The argument.
    pub argument: Vec<u8>,
}

/// Why a request is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// It is not CBOR.
    #[error(transparent)]
    Cbor(#[from] CborError),
    /// A field is missing, or of another type.
    #[error("the request has no valid field '{0}'")]
    Field(&'static str),
    /// It asks for something unknown.
    #[error("the request type '{0}' is unknown")]
    Type(String),
    /// It is over, or ends too late.
    #[error(
        "Invalid request expiry: the ingress_expiry {given} is not within the allowed range from {least} to {most} (nanoseconds since 1970)"
    )]
    Expiry {
        /// What it says.
        given: u64,
        /// The present.
        least: u64,
        /// The latest end.
        most: u64,
    },
    /// The sender is not the holder of the key.
    #[error("the sender {0} is not the principal of the key 'sender_pubkey'")]
    Sender(String),
    /// A sender with a key did not sign, or the sender without a key did.
    #[error("{0}")]
    Unsigned(&'static str),
    /// The signature is wrong.
    #[error("Invalid signature: {0}")]
    Signature(#[from] BadSignature),
    /// A delegation is over, or is for other canisters.
    #[error("Invalid delegation: {0}")]
    Delegation(&'static str),
    /// A part is too large.
    #[error("the request has {0}")]
    TooMuch(&'static str),
}

impl IcRequest {
    /// Reads a request and checks it, at a time in nanoseconds since 1970.
    pub fn read(body: &[u8], now_ns: u64) -> Result<Self, BadRequest> {
        let envelope = Cbor::read(body)?;
        let Some(Cbor::Map(fields)) = envelope.get("content") else { return Err(BadRequest::Field("content")) };
        let content = Content(fields);
        let expiry_ns = content.number("ingress_expiry")?;
        let most = now_ns.saturating_add(LONGEST_LIFE_NS);
        if expiry_ns < now_ns || expiry_ns > most {
            return Err(BadRequest::Expiry { given: expiry_ns, least: now_ns, most });
        }
        if content.bytes("nonce").is_ok_and(|nonce| nonce.len() > LONGEST_NONCE) {
            return Err(BadRequest::TooMuch("a nonce of more than 32 bytes"));
        }
        let request =
            Self { id: hash_of_map(fields), sender: content.principal("sender")?, expiry_ns, content: content.read()? };
        request.check_sender(&envelope, now_ns)?;
        Ok(request)
    }

    /// Checks that the sender signed the request: with its own key, or with one that this key delegated to.
    fn check_sender(&self, envelope: &Cbor, now_ns: u64) -> Result<(), BadRequest> {
        let field = |name| match envelope.get(name) {
            Some(Cbor::Bytes(bytes)) => Ok(Some(bytes.as_slice())),
            None | Some(Cbor::Null) => Ok(None),
            _ => Err(BadRequest::Field(name)),
        };
        let (key, signature) = (field("sender_pubkey")?, field("sender_sig")?);
        let (key, signature) = match (key, signature) {
            (None, None) if self.sender == ANONYMOUS => return Ok(()),
            (None, None) => {
                return Err(BadRequest::Unsigned("the sender is not anonymous, and the request is not signed"));
            }
            (Some(_), Some(_)) if self.sender == ANONYMOUS => {
                return Err(BadRequest::Unsigned("the sender is anonymous, and the request is signed"));
            }
            (Some(key), Some(signature)) => (key, signature),
            _ => return Err(BadRequest::Unsigned("only one of 'sender_pubkey' and 'sender_sig' is there")),
        };
        if self_authenticating(key) != self.sender {
            return Err(BadRequest::Sender(crate::candid::principal_text(&self.sender)));
        }
        let key = match envelope.get("sender_delegation") {
            None | Some(Cbor::Null) => key.to_vec(),
            Some(Cbor::Array(chain)) => self.follow(key, chain, now_ns)?,
            _ => return Err(BadRequest::Field("sender_delegation")),
        };
        Ok(verify(&key, &signed_message("ic-request", &self.id), signature)?)
    }

    /// The last key of a chain of delegations.
    fn follow(&self, first: &[u8], chain: &[Cbor], now_ns: u64) -> Result<Vec<u8>, BadRequest> {
        if chain.len() > MOST_DELEGATIONS {
            return Err(BadRequest::TooMuch("more than 20 delegations"));
        }
        let mut key = first.to_vec();
        for link in chain {
            let wrong = || BadRequest::Field("sender_delegation");
            let (Some(Cbor::Map(fields)), Some(Cbor::Bytes(signature))) =
                (link.get("delegation"), link.get("signature"))
            else {
                return Err(wrong());
            };
            verify(&key, &signed_message("ic-request-auth-delegation", &hash_of_map(fields)), signature)?;
            let delegation = Content(fields);
            if delegation.number("expiration")? < now_ns {
                return Err(BadRequest::Delegation("it has expired"));
            }
            if let Some(Cbor::Array(targets)) = delegation.get("targets") {
                let Some(canister) = self.canister() else { continue };
                if !targets.iter().any(|target| *target == Cbor::Bytes(canister.to_vec())) {
                    return Err(BadRequest::Delegation("it is for other canisters"));
                }
            }
            key = delegation.bytes("pubkey")?.to_vec();
        }
        Ok(key)
    }

    fn canister(&self) -> Option<&[u8]> {
        match &self.content {
            RequestContent::Call(call) | RequestContent::Query(call) => Some(&call.canister_id),
            RequestContent::ReadState(_) => None,
        }
    }
}

/// The fields of a request's content, or of a delegation.
struct Content<'a>(&'a [(String, Cbor)]);

impl Content<'_> {
    fn get(&self, name: &str) -> Option<&Cbor> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    fn bytes(&self, name: &'static str) -> Result<&[u8], BadRequest> {
        match self.get(name) {
            Some(Cbor::Bytes(bytes)) => Ok(bytes),
            _ => Err(BadRequest::Field(name)),
        }
    }

    fn text(&self, name: &'static str) -> Result<&str, BadRequest> {
        match self.get(name) {
            Some(Cbor::Text(text)) => Ok(text),
            _ => Err(BadRequest::Field(name)),
        }
    }

    fn number(&self, name: &'static str) -> Result<u64, BadRequest> {
        match self.get(name) {
            Some(Cbor::Unsigned(number)) => Ok(*number),
            _ => Err(BadRequest::Field(name)),
        }
    }

    fn principal(&self, name: &'static str) -> Result<Vec<u8>, BadRequest> {
        let bytes = self.bytes(name)?;
        if bytes.len() > LONGEST_PRINCIPAL { Err(BadRequest::Field(name)) } else { Ok(bytes.to_vec()) }
    }

    fn read(&self) -> Result<RequestContent, BadRequest> {
        match self.text("request_type")? {
            "call" => Ok(RequestContent::Call(self.call()?)),
            "query" => Ok(RequestContent::Query(self.call()?)),
            "read_state" => Ok(RequestContent::ReadState(self.paths()?)),
            other => Err(BadRequest::Type(other.chars().take(40).collect())),
        }
    }

    fn call(&self) -> Result<CanisterCall, BadRequest> {
        Ok(CanisterCall {
            canister_id: self.principal("canister_id")?,
            method: self.text("method_name")?.to_owned(),
            argument: self.bytes("arg")?.to_vec(),
        })
    }

    fn paths(&self) -> Result<Vec<Vec<Vec<u8>>>, BadRequest> {
        let wrong = || BadRequest::Field("paths");
        let Some(Cbor::Array(paths)) = self.get("paths") else { return Err(wrong()) };
        if paths.len() > MOST_PATHS {
            return Err(BadRequest::TooMuch("more than 1000 paths"));
        }
        let label = |label: &Cbor| match label {
            Cbor::Bytes(bytes) => Ok(bytes.clone()),
            _ => Err(wrong()),
        };
        let path = |path: &Cbor| match path {
            Cbor::Array(labels) if labels.len() > MOST_LABELS => {
                Err(BadRequest::TooMuch("a path of more than 127 labels"))
            }
            Cbor::Array(labels) => labels.iter().map(label).collect(),
            _ => Err(wrong()),
        };
        paths.iter().map(path).collect()
    }
}

/// The hash of a map that does not depend on its order or form, by which requests are known.
pub fn hash_of_map(fields: &[(String, Cbor)]) -> [u8; 32] {
    let mut pairs: Vec<[u8; 64]> = fields
        .iter()
        .filter(|(_, value)| *value != Cbor::Null)
        .map(|(key, value)| {
            let mut pair = [0; 64];
            pair[..32].copy_from_slice(&Sha256::digest(key));
            pair[32..].copy_from_slice(&hash_of(value));
            pair
        })
        .collect();
    pairs.sort_unstable();
    Sha256::digest(pairs.concat()).into()
}

fn hash_of(value: &Cbor) -> [u8; 32] {
    match value {
        Cbor::Unsigned(number) => Sha256::digest(super::hash_tree::leaf_number(*number)).into(),
        Cbor::Bytes(bytes) => Sha256::digest(bytes).into(),
        Cbor::Text(text) => Sha256::digest(text).into(),
        Cbor::Array(items) => Sha256::digest(items.iter().flat_map(hash_of).collect::<Vec<u8>>()).into(),
        Cbor::Map(fields) => hash_of_map(fields),
        Cbor::Bool(truth) => Sha256::digest([u8::from(*truth)]).into(),
        Cbor::Null => Sha256::digest([]).into(),
    }
}

/// What is signed for a hash: the name of its purpose comes first, so that a signature for one purpose serves no other.
pub fn signed_message(domain: &str, hash: &[u8]) -> Vec<u8> {
    [&[domain.len() as u8], domain.as_bytes(), hash].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_image::hexadecimal;

    /// The example of the interface specification, section "Request id".
    #[test]
    fn the_example_of_the_specification_has_its_id() {
        let fields = [
            ("request_type", Cbor::text("call")),
            ("sender", Cbor::Bytes(vec![4])),
            ("ingress_expiry", Cbor::Unsigned(1_685_570_400_000_000_000)),
            ("canister_id", Cbor::Bytes(vec![0, 0, 0, 0, 0, 0, 4, 0xd2])),
            ("method_name", Cbor::text("hello")),
            ("arg", Cbor::Bytes(b"DIDL\x00\xfd*".to_vec())),
        ];
        let fields = fields.map(|(key, value)| (key.to_owned(), value));
        let id = "1d1091364d6bb8a6c16b203ee75467d59ead468f523eb058880ae8ec80e2b101";
        assert_eq!(hexadecimal(&hash_of_map(&fields)), id);
    }
}
