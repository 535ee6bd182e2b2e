//! The parts of the state tree that clients ask for, by their paths.

use super::cbor::Cbor;
use super::hash_tree::StateTree;
use super::ingress::IngressHistory;
use super::keys::HostKeys;
use super::principal::{canister_id, canister_range};
use crate::hosted::{HostState, HostedCanister};
use highwater_image::wasm::{sections, unpacked};
use sha2::{Digest, Sha256};

/// Why a path is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// It leads nowhere.
    #[error("Invalid path requested.")]
    Unknown,
    /// It is about another canister than the address.
    #[error("The path is about another canister than the address of the request.")]
    OtherCanister,
    /// It is for others.
    #[error("The user has no permission to read this path.")]
    Forbidden,
}

/// What the tree is made of.
pub struct TreeSource<'a> {
    /// The keys of the host.
    pub keys: &'a HostKeys,
    /// The canisters.
    pub state: &'a HostState,
    /// The calls.
    pub ingress: &'a IngressHistory,
    /// The principal of the client.
    pub sender: &'a [u8],
    /// The canister in the address; none if the address is the subnet's.
    pub effective: Option<&'a [u8]>,
}

impl TreeSource<'_> {
    /// The tree of the parts at these paths.
    pub fn tree(&self, paths: &[Vec<Vec<u8>>]) -> Result<StateTree, BadPath> {
        let mut tree = StateTree::default();
        for path in paths {
            let labels: Vec<&[u8]> = path.iter().map(Vec::as_slice).collect();
            self.put(&labels, &mut tree)?;
        }
        Ok(tree)
    }

    fn put(&self, path: &[&[u8]], tree: &mut StateTree) -> Result<(), BadPath> {
        match path {
            [] | [b"time"] | [b"api_boundary_nodes", ..] => {}
            [b"subnet", ..] => self.put_subnet(tree),
            [b"canister_ranges", subnet, ..] => {
                if **subnet == *self.keys.subnet_id {
                    tree.put(&[b"canister_ranges", subnet, &canister_id(0)], ranges());
                }
            }
            [b"request_status", id, ..] => {
                let id = (*id).try_into().map_err(|_| BadPath::Unknown)?;
                if self.ingress.sender(&id).is_some_and(|sender| sender != self.sender) {
                    return Err(BadPath::Forbidden);
                }
                self.ingress.put(&id, tree);
            }
            [b"canister", id, rest @ ..] => {
                if self.effective.is_some_and(|effective| effective != *id) {
                    return Err(BadPath::OtherCanister);
                }
                self.put_canister(id, rest, tree)?;
            }
            _ => return Err(BadPath::Unknown),
        }
        Ok(())
    }

    fn put_subnet(&self, tree: &mut StateTree) {
        let keys = self.keys;
        tree.put(&[b"subnet", &keys.subnet_id, b"public_key"], keys.root_key.clone());
        tree.put(&[b"subnet", &keys.subnet_id, b"canister_ranges"], ranges());
        tree.put(&[b"subnet", &keys.subnet_id, b"node", &keys.node_id, b"public_key"], keys.node_key.clone());
        tree.put(&[b"subnet", &keys.subnet_id, b"type"], *b"application");
    }

    fn put_canister(&self, id: &[u8], rest: &[&[u8]], tree: &mut StateTree) -> Result<(), BadPath> {
        let canister = self.state.canisters.get(id);
        let module = canister.and_then(module_of);
        match rest {
            [b"module_hash"] => {
                if let Some(module) = module {
                    tree.put(&[b"canister", id, b"module_hash"], Sha256::digest(module).to_vec());
                }
            }
            [b"controllers"] => {
                if let Some(canister) = canister {
                    let all = canister.settings.controllers(self.sender).into_iter().map(Cbor::Bytes).collect();
                    tree.put(&[b"canister", id, b"controllers"], Cbor::Array(all).write());
                }
            }
            [b"certified_data"] => {
                let program = canister.and_then(|canister| canister.program.as_ref()?.canister());
                if let Some(program) = program {
                    let data = program.machine().system_ref().settings.certified.clone();
                    tree.put(&[b"canister", id, b"certified_data"], data);
                }
            }
            [b"metadata", name] => {
                let (Some(canister), Some(module)) = (canister, module) else { return Ok(()) };
                let name = std::str::from_utf8(name).map_err(|_| BadPath::Unknown)?;
                if let Some((is_public, content)) = custom_section(module, name) {
                    if !is_public && !canister.settings.is_controller(self.sender) {
                        return Err(BadPath::Forbidden);
                    }
                    tree.put(&[b"canister", id, b"metadata", name.as_bytes()], content);
                }
            }
            _ => return Err(BadPath::Unknown),
        }
        Ok(())
    }
}

fn module_of(canister: &HostedCanister) -> Option<&[u8]> {
    Some(&canister.program.as_ref()?.module().installed)
}

/// The canisters that the subnet has, in CBOR: one range.
fn ranges() -> Vec<u8> {
    let [first, last] = canister_range().map(Cbor::Bytes);
    Cbor::Array(vec![Cbor::Array(vec![first, last])]).write()
}

/// A section that a module carries for its clients, and whether everyone may read it.
fn custom_section(module: &[u8], name: &str) -> Option<(bool, Vec<u8>)> {
    let module = unpacked(module).ok()?;
    let wanted = [format!("icp:public {name}"), format!("icp:private {name}")];
    sections(&module).ok()?.into_iter().filter(|section| section.id == 0).find_map(|section| {
        let (length, rest) = section.entries()?;
        let (title, content) = rest.split_at_checked(length as usize)?;
        let at = wanted.iter().position(|wanted| wanted.as_bytes() == title)?;
        Some((at == 0, content.to_vec()))
    })
}
