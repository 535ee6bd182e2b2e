//! The captured bytes equal images that another engine made of the same modules after the same calls.

mod support;

use highwater_host::canister::{Canister, World};
use highwater_host::engine::{Machine, MachineLimits};
use highwater_host::plain::PlainModule;
use highwater_host::system::CanisterResponse;
use highwater_image::hexadecimal;
use sha2::{Digest, Sha256};
use support::module;

fn image_hash<S: Default>(machine: &Machine<S>) -> (u64, String) {
    let mut bytes = vec![0; machine.memory_bytes() as usize];
    machine.memory().read(0, &mut bytes).unwrap();
    (machine.memory_bytes(), hexadecimal(&Sha256::digest(&bytes)))
}

/// A call with a natural number below 2^14, or with nothing.
fn argument(number: Option<u64>) -> Vec<u8> {
    match number {
        None => b"DIDL\0\0".to_vec(),
        Some(number) if number < 128 => [b"DIDL\0\x01\x7d".as_slice(), &[number as u8]].concat(),
        Some(number) => [b"DIDL\0\x01\x7d".as_slice(), &[number as u8 | 0x80, (number >> 7) as u8]].concat(),
    }
}

#[track_caller]
fn check(name: &str, calls: &[(&str, Option<u64>)], points: &[(usize, u64, &str)]) {
    let empty = argument(None);
    let mut canister = Canister::new(module(name), MachineLimits::default(), World::default(), &empty).unwrap();
    for (number, (method, value)) in calls.iter().enumerate() {
        let answered = canister.call(method, &argument(*value)).unwrap();
        assert!(matches!(answered.response, Some(CanisterResponse::Reply(_))), "{name} {method}: {answered:?}");
        if let Some((_, bytes, hash)) = points.iter().find(|(after, ..)| *after == number + 1) {
            assert_eq!(
                image_hash(canister.machine()),
                (*bytes, (*hash).to_owned()),
                "{name} after {} calls",
                number + 1
            );
        }
    }
}

#[test]
fn ledger_with_64_bits() {
    let calls = [("open", Some(100)), ("open", Some(400)), ("open", Some(1500))];
    check(
        "ledger",
        &calls,
        &[
            (1, 5_439_488, "39648881322c6d2c2f05dae624b76b4867bc338ba9a15e2949fc7ef93ee1fb2e"),
            (2, 6_225_920, "c5681c1ccfc1b5838ac49da96881e5158d88774a50606eead3645415cc634980"),
            (3, 9_633_792, "8ca814426bb4dff27fe77ad53ba5584f0f28dcc3a63c1dfcd14b4eb252a1bff3"),
        ],
    );
}

#[test]
fn ledger_with_32_bits() {
    let calls = [("open", Some(100)), ("stat", None), ("open", Some(400))];
    check(
        "ledger32",
        &calls,
        &[
            (1, 2_228_224, "d405f7c71aca56f907fd95e009711f9cec91abf8fa0e19bcdedcf90f4550f01b"),
            (3, 2_621_440, "0682683367753b95538d7cc403b2074e13976259949d753c76ea1d7b6b49a1a7"),
        ],
    );
}

#[test]
fn ropes() {
    let calls = [("append", Some(40)), ("append", Some(60)), ("flatten", None), ("append", Some(5))];
    check(
        "ropes",
        &calls,
        &[
            (1, 5_308_416, "516dda720b554134758584d27a4b8d66b028428305e9281f2b568950cfecac0f"),
            (4, 5_308_416, "aefe6408230b20f65acec1e64021b794d8bc6a5eeb0fb4c53bcb3151347f78b2"),
        ],
    );
}

#[test]
fn zoo() {
    check(
        "zoo",
        &[("push", Some(9))],
        &[(1, 5_308_416, "536ca1ab804c1e8e361f2d3e18d1bef6c249fc2e4e346c6d4febf94945b0cdc6")],
    );
}

/// The calls that the fixtures' own runner makes between two dumps: they leave traces on the stack and in static memory.
fn read_ledger(plain: &mut PlainModule) {
    let number = |plain: &mut PlainModule, name: &str| plain.call(name, &[]).unwrap()[0].parse::<u64>().unwrap();
    let (address, rows) = (number(plain, "ledger_ptr"), number(plain, "ledger_len"));
    for row in 0..rows {
        let mut kind = [0; 4];
        plain.machine().memory().read(address + row * 20 + 8, &mut kind).unwrap();
        plain.call("type_name", &[u32::from_le_bytes(kind).into()]).unwrap();
    }
    for counter in 0..4 {
        plain.call("counters", &[counter]).unwrap();
    }
}

#[track_caller]
fn check_plain(name: &str, hashes: [&str; 3]) {
    let mut plain = PlainModule::new(module(name), MachineLimits::default()).unwrap();
    for (epoch, hash) in hashes.into_iter().enumerate() {
        plain.call("step", &[400]).unwrap();
        if epoch == 2 {
            plain.call("finish", &[]).unwrap();
        }
        assert_eq!(image_hash(plain.machine()).1, hash, "{name} after epoch {}", epoch + 1);
        read_ledger(&mut plain);
    }
    assert!(plain.take_printed().iter().any(|line| line.starts_with("@ ALLOCATE ")));
}

#[test]
fn leaky_c() {
    check_plain(
        "leaky_c",
        [
            "30d2fc018840df237f05a8c66a9b8f25d4fdad8b483f5084654f2de51463e342",
            "7fae5b8c3668ee5bdd032649db8095c2717986f397b4f662d653380454c94bd6",
            "4893414d33b3cdda075e30ecb05900794737e02f361c131470952c7e557e6fde",
        ],
    );
}

#[test]
fn clean_c() {
    check_plain(
        "clean_c",
        [
            "64ccbd986528b6bbfc3c857c8a3b6817265dcf3d5664097f54bb7cc78f8f5f1e",
            "ea49e11a53cef218d2ebc3491b409f06de82be2c6dc18704c314907a80f67c96",
            "bb92e5d4fe1b121f902c6a9dfbaae518da67b872b4fd803c9af505e6de6be01c",
        ],
    );
}

#[test]
fn leaky_rs() {
    check_plain(
        "leaky_rs",
        [
            "31e30c60a15b0483dc71055ff8a100c5c72ff85298ceb8b48872d1ba932ba635",
            "46f213b547e5c12c838a708268bd618e2068fd5ac7b474a20d4fe00bb373aa73",
            "01e70e6af6aa8f0b0ee1de1d6b18e9ac57092b8c43013f19fd70ed13603399aa",
        ],
    );
}

#[test]
fn clean_rs() {
    check_plain(
        "clean_rs",
        [
            "70d053ffe12f41c9ac11ff3b5cad1587018093f6c8b68816357fd39d773fbc3a",
            "9cea8f4ac1aebd7104704445343355457adb72d49dbcc298831a2af51ffbfcfa",
            "4acf16e37db65cc3de524f3ba98a5a5f25e77963dac1301d4b4ec31a22190189",
        ],
    );
}
