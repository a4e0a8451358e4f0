//! Mutated model files: whatever the bytes, opening ends in a model or a clear error.
//!
//! `FUZZ_CASES` sets how many (5,000 by default; the long run uses 20,000).
#![allow(clippy::unwrap_used, reason = "a test may stop at once")]

mod common;

use std::fs;
use std::path::Path;

use common::{config_json, f32_bytes, llama, safetensors};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::json;
use vllm_rs_model_files::{ModelFileError, ModelFiles, TokenizerSource};

/// One change to a file.
#[derive(Debug, Clone)]
enum Mutation {
    Flip(prop::sample::Index, u8),
    Truncate(prop::sample::Index),
    Remove(prop::sample::Index, usize),
    Insert(prop::sample::Index, Vec<u8>),
    /// Repeats a stretch of the file, which doubles keys and records.
    Repeat(prop::sample::Index, usize),
    /// An interesting number where a count, an offset or a type may be.
    Number(prop::sample::Index, u64),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = any::<prop::sample::Index>;
    let number = prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(u64::MAX / 2),
        Just(1 << 32),
        Just((1 << 63) + 8),
        0..64u64,
        any::<u64>(),
    ];
    prop_oneof![
        (at(), 1..=255u8).prop_map(|(at, bits)| Mutation::Flip(at, bits)),
        at().prop_map(Mutation::Truncate),
        (at(), 1..32usize).prop_map(|(at, count)| Mutation::Remove(at, count)),
        (at(), prop::collection::vec(any::<u8>(), 1..32)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        (at(), 1..64usize).prop_map(|(at, count)| Mutation::Repeat(at, count)),
        (at(), number).prop_map(|(at, value)| Mutation::Number(at, value)),
    ]
}

fn apply(bytes: &mut Vec<u8>, mutation: &Mutation) {
    if bytes.is_empty() {
        return;
    }
    let length = bytes.len();
    match mutation {
        Mutation::Flip(at, bits) => bytes[at.index(length)] ^= bits,
        Mutation::Truncate(at) => bytes.truncate(at.index(length)),
        Mutation::Remove(at, count) => {
            let at = at.index(length);
            bytes.drain(at..length.min(at + count));
        }
        Mutation::Insert(at, new) => {
            let at = at.index(length);
            bytes.splice(at..at, new.iter().copied());
        }
        Mutation::Repeat(at, count) => {
            let at = at.index(length);
            let copy = bytes[at..length.min(at + count)].to_vec();
            bytes.splice(at..at, copy);
        }
        Mutation::Number(at, value) => {
            let at = at.index(length);
            let end = length.min(at + 8);
            bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
        }
    }
}

/// Opens what lies at `path` and touches everything in it.
fn exercise(path: &Path) -> Result<(), ModelFileError> {
    let model = ModelFiles::open(path)?;
    for name in model.tensor_names() {
        let tensor = model.tensor(name)?;
        let elements: usize = tensor.shape.iter().product();
        // The file's size bounds every tensor, so no output can be large.
        assert!(elements <= 64 * 1024, "{name} claims {elements} elements");
        let mut wide = vec![0.0; elements];
        match model.read_f32(name, &mut wide) {
            Ok(()) | Err(ModelFileError::UnsupportedType { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    model.tokenizer_source().map(|_| ())
}

/// Runs the cases; an error must say something and may not take long words for it.
fn run(cases_of: u32, base: &[(&str, Vec<u8>)], open: &str) {
    let cases = std::env::var("FUZZ_CASES")
        .ok()
        .and_then(|value| value.parse().ok())
        .unwrap_or(5_000u32);
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        cases: (cases / cases_of).max(1),
        failure_persistence: None,
        ..Config::default()
    };
    let plan = (
        any::<prop::sample::Index>(),
        prop::collection::vec(mutation(), 1..4),
    );
    let outcome = TestRunner::new(config).run(&plan, |(which, mutations)| {
        let which = which.index(base.len());
        for (index, (name, bytes)) in base.iter().enumerate() {
            let mut bytes = bytes.clone();
            if index == which {
                for mutation in &mutations {
                    apply(&mut bytes, mutation);
                }
            }
            // A new file each time: truncating one that is still mapped would be another fault.
            let _ = fs::remove_file(folder.path().join(name));
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        for result in [
            exercise(&folder.path().join(open)),
            tokenizer(&folder.path().join(open)),
        ] {
            if let Err(error) = result {
                let text = error.to_string();
                prop_assert!(text.len() > 10, "{text}");
                prop_assert!(
                    text.len() < 2_000,
                    "an error is a line, not a dump: {}",
                    text.len()
                );
            }
        }
        Ok::<(), TestCaseError>(())
    });
    outcome.unwrap();
}

fn tokenizer(path: &Path) -> Result<(), ModelFileError> {
    TokenizerSource::open(path).map(|_| ())
}

#[test]
fn gguf_files() {
    run(2, &[("model.gguf", llama().bytes())], "model.gguf");
}

#[test]
fn safetensors_folders() {
    let weight_map = json!({"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}});
    let values = f32_bytes(&[1.0, 2.0, 3.0, 4.0]);
    let base = [
        ("config.json", config_json().to_string().into_bytes()),
        ("generation_config.json", b"{\"eos_token_id\": [1, 2]}".to_vec()),
        ("tokenizer.json", b"{}".to_vec()),
        (
            "tokenizer_config.json",
            b"{\"chat_template\": [{\"name\": \"default\"}]}".to_vec(),
        ),
        (
            "model.safetensors.index.json",
            weight_map.to_string().into_bytes(),
        ),
        (
            "m-1.safetensors",
            safetensors(&[("a", "F32", &[2, 2], values.clone())]),
        ),
        (
            "m-2.safetensors",
            safetensors(&[("b", "BF16", &[8], values.clone()), ("c", "F32", &[4], values)]),
        ),
    ];
    run(2, &base, ".");
}
