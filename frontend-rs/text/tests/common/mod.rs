//! The oracle's fixtures (`tests/oracle/text/make_fixtures.py` makes them) and tokenizers to test.

// Each test file uses its own part of this.
#![allow(dead_code)]

use std::path::PathBuf;
use std::sync::OnceLock;

use serde_json::Value;
use vllm_rs_model_files::{GgufTokenizer, TokenizerSource};
use vllm_rs_text::Tokenizer;

pub(crate) fn fixture_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/oracle/text/fixtures")
        .join(name)
}

pub(crate) fn fixture(name: &str) -> Value {
    let text = std::fs::read_to_string(fixture_path(name)).expect("fixture is readable");
    serde_json::from_str(&text).expect("fixture is JSON")
}

pub(crate) fn tokenizers_fixture() -> &'static Value {
    static FIXTURE: OnceLock<Value> = OnceLock::new();
    FIXTURE.get_or_init(|| fixture("tokenizers.json"))
}

pub(crate) fn strings(value: &Value) -> Vec<String> {
    let items = value.as_array().map_or(&[][..], Vec::as_slice);
    items
        .iter()
        .map(|item| item.as_str().unwrap_or_default().to_owned())
        .collect()
}

pub(crate) fn ids(value: &Value) -> Vec<u32> {
    let items = value.as_array().map_or(&[][..], Vec::as_slice);
    items
        .iter()
        .map(|item| u32::try_from(item.as_u64().unwrap()).unwrap())
        .collect()
}

/// The metadata of one of the two vocabularies in the fixture.
pub(crate) fn gguf_source(vocabulary: &str, pre: Option<&str>) -> GgufTokenizer {
    let vocab = &tokenizers_fixture()[vocabulary];
    let scores = vocab["scores"].as_array().map_or(&[][..], Vec::as_slice);
    GgufTokenizer {
        model: vocab["model"].as_str().unwrap().to_owned(),
        pre: pre.map(str::to_owned),
        tokens: strings(&vocab["tokens"]),
        scores: scores
            .iter()
            .map(|score| score.as_f64().unwrap() as f32)
            .collect(),
        token_types: vocab["token_types"]
            .as_array()
            .unwrap()
            .iter()
            .map(|kind| i32::try_from(kind.as_i64().unwrap()).unwrap())
            .collect(),
        merges: strings(&vocab["merges"]),
        bos_token_id: Some(1),
        eos_token_id: Some(2),
        unk_token_id: Some(0),
        ..GgufTokenizer::default()
    }
}

pub(crate) fn from_gguf(source: GgufTokenizer) -> Tokenizer {
    Tokenizer::from_source(TokenizerSource::Gguf(Box::new(source))).expect("tokenizer builds")
}

/// The tokenizer of a case in the fixture.
pub(crate) fn tokenizer(name: &str) -> Tokenizer {
    match name {
        "spm" => from_gguf(gguf_source("sentencepiece", None)),
        folder if folder.starts_with("hf_") => {
            let folder = fixture_path(folder);
            let config = std::fs::read_to_string(folder.join("tokenizer_config.json")).unwrap();
            Tokenizer::from_source(TokenizerSource::HfJson {
                tokenizer_json: folder.join("tokenizer.json"),
                config: serde_json::from_str(&config).unwrap(),
                chat_template: None,
            })
            .expect("tokenizer builds")
        }
        pre => from_gguf(gguf_source("byte_level", Some(pre))),
    }
}

/// One tokenizer of each kind of decoding.
pub(crate) fn one_of_each_kind() -> &'static [Tokenizer] {
    static KINDS: OnceLock<Vec<Tokenizer>> = OnceLock::new();
    KINDS.get_or_init(|| {
        ["smollm", "spm", "hf_unigram"]
            .into_iter()
            .map(tokenizer)
            .collect()
    })
}
