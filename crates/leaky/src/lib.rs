//! A WASM module that leaks on purpose: a prover whose host forgets proofs, as JavaScript does with objects that it must free by hand.
//!
//! Built by `crates/leaky/build`, run by `crates/leaky/run.mjs`. `crates/leaky/bindgen` builds it with the glue of wasm-bindgen.
#![allow(unsafe_code, reason = "names that a host can call")]

use highwater::{Tracked, objects};
use std::cell::RefCell;

/// A proof: what the host asks for.
#[derive(Tracked)]
struct Proof {
    points: Vec<[u8; 32]>,
    transcript: Box<str>,
}

/// What is needed while a proof is made.
#[derive(Tracked)]
struct Witness(Vec<u64>);

/// Made once, kept for ever.
#[derive(Tracked)]
struct Parameters {
    powers: Vec<[u8; 32]>,
}

/// What the host holds, each under its handle.
#[derive(Default)]
struct HeldObjects {
    parameters: Option<Tracked<Parameters>>,
    proofs: Vec<Option<Tracked<Proof>>>,
    log: Vec<Tracked<String>>,
}

thread_local!(static HELD: RefCell<HeldObjects> = RefCell::default());

fn held<T>(work: impl FnOnce(&mut HeldObjects) -> T) -> T {
    HELD.with(|held| work(&mut held.borrow_mut()))
}

fn parameters() -> Parameters {
    Parameters { powers: vec![[1; 32]; 64] }
}

/// Begins: everything that is made from now on is reported.
// SAFETY: no other function has this name.
#[cfg_attr(not(feature = "wasm-bindgen"), unsafe(no_mangle))]
#[cfg_attr(feature = "wasm-bindgen", wasm_bindgen::prelude::wasm_bindgen)]
pub extern "C" fn start() {
    #[cfg(target_family = "wasm")]
    objects::to_console();
    objects::measure("start");
    held(|held| held.parameters = Some(parameters().tracked()));
}

/// Makes a proof, and gives the host a handle to it.
// SAFETY: no other function has this name.
#[cfg_attr(not(feature = "wasm-bindgen"), unsafe(no_mangle))]
#[cfg_attr(feature = "wasm-bindgen", wasm_bindgen::prelude::wasm_bindgen)]
pub extern "C" fn prove(size: u32) -> u32 {
    let mut witness = Witness(Vec::new()).tracked();
    witness.0.extend(0..u64::from(size));
    let proof =
        Proof { points: vec![[2; 32]; 1500], transcript: format!("proof of {}", witness.0.len()).into() }.tracked();
    held(|held| {
        held.log.push(Tracked::new(format!("{} points, {}", proof.points.len(), proof.transcript)));
        held.proofs.push(Some(proof));
        held.proofs.len() as u32 - 1
    })
}

/// True if a proof is right.
// SAFETY: no other function has this name.
#[cfg_attr(not(feature = "wasm-bindgen"), unsafe(no_mangle))]
#[cfg_attr(feature = "wasm-bindgen", wasm_bindgen::prelude::wasm_bindgen)]
pub extern "C" fn verify(proof: u32) -> bool {
    let check = |held: &mut HeldObjects| {
        let powers = held.parameters.as_ref().map_or(0, |parameters| parameters.powers.len());
        held.proofs.get(proof as usize).is_some_and(|proof| proof.is_some() && powers > 0)
    };
    held(check)
}

/// The host has no use for a proof any more.
// SAFETY: no other function has this name.
#[cfg_attr(not(feature = "wasm-bindgen"), unsafe(no_mangle))]
#[cfg_attr(feature = "wasm-bindgen", wasm_bindgen::prelude::wasm_bindgen)]
pub extern "C" fn free_proof(proof: u32) {
    let proof = held(|held| held.proofs.get_mut(proof as usize).and_then(Option::take));
    drop(proof);
}

/// The end of a round.
// SAFETY: no other function has this name.
#[cfg_attr(not(feature = "wasm-bindgen"), unsafe(no_mangle))]
#[cfg_attr(feature = "wasm-bindgen", wasm_bindgen::prelude::wasm_bindgen)]
pub extern "C" fn round_done(number: u32) {
    if cfg!(feature = "mended") {
        held(|held| held.log.clear());
    }
    objects::measure(&format!("round {number}"));
}
