//! The bytes that Python's msgspec makes, read and written by Rust, and the other way round.
//!
//! `tests/contract` holds the bytes and Python's half of this contract.

mod cases;
mod vllm;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use bytes::Bytes;
use vllm_rs_wire::{Wire, decode_outputs, decode_payload, decode_request, encode_payload};

/// Frames by case.
fn golden(file: &str) -> BTreeMap<String, Vec<Bytes>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/contract/golden")
        .join(file);
    let text = std::fs::read_to_string(&path).expect("the golden bytes are part of the repository");
    let cases: BTreeMap<String, Vec<String>> = serde_json::from_str(&text).expect("a map of lists of hex");
    let frames = |hex: Vec<String>| hex.iter().map(|frame| from_hex(frame)).collect();
    cases.into_iter().map(|(name, hex)| (name, frames(hex))).collect()
}

fn from_hex(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex
        .chars()
        .filter_map(|c| c.to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn agree<T: Wire + PartialEq + Debug>(name: &str, frames: &[Bytes], value: &T) {
    assert_eq!(decode_payload::<T>(frames).as_ref(), Ok(value), "reading {name}");
    assert_eq!(encode_payload(value), frames, "writing {name}");
}

// covers: ENG-09
#[test]
fn both_languages_write_the_same_bytes_and_read_them_alike() {
    let mut left = golden("wire.json");
    let mut take = |name: &str| {
        left.remove(name)
            .unwrap_or_else(|| panic!("no golden bytes for {name}"))
    };
    for (name, request) in cases::requests() {
        let frames = take(name);
        agree(name, &frames, &request);
        assert_eq!(decode_request(&frames).as_ref(), Ok(&request), "{name}");
    }
    for (name, batch) in cases::outputs() {
        let frames = take(name);
        agree(name, &frames, &batch);
        let decoded = decode_outputs(&frames).expect(name);
        let outputs: Vec<_> = decoded
            .outputs
            .into_iter()
            .map(|output| output.expect(name))
            .collect();
        assert_eq!(
            (outputs, decoded.utility_output),
            (batch.outputs, batch.utility_output),
            "{name}"
        );
    }
    agree(
        "abort",
        &take("abort"),
        &vec!["req-1".to_owned(), "req-2".to_owned()],
    );
    agree(
        "utility_request",
        &take("utility_request"),
        &cases::utility_request(),
    );
    agree("init", &take("init"), &cases::init());
    agree("registration", &take("registration"), &cases::registration());
    for (name, message) in cases::handshake() {
        agree(name, &take(name), &message);
    }
    assert_eq!(
        left.keys().collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "cases that Rust does not know"
    );
}
