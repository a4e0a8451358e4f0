//! A byte-level tokenizer with one token per byte and a `ChatML` template.

use serde_json::{Map, Value, json};
use vllm_rs_model_files::TokenizerSource;
use vllm_rs_server::generate::params::SamplingDefaults;
use vllm_rs_server::model::{Model, longest_token_bytes};
use vllm_rs_text::{ChatTemplate, TemplateLimits, Tokenizer};

pub const IM_START: u32 = 256;
pub const IM_END: u32 = 257;
pub const VOCAB_SIZE: u32 = 258;
pub const MAX_MODEL_LEN: u32 = 256;

const TEMPLATE: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
                        {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// The character GPT-2's byte-level tokenizers write for a byte.
fn byte_char(byte: u8) -> char {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if printable(byte) {
        return char::from(byte);
    }
    let rank = (0..byte).filter(|b| !printable(*b)).count() as u32;
    char::from_u32(256 + rank).expect("below the surrogates")
}

fn tokenizer_json() -> Value {
    let mut vocab = Map::new();
    for byte in 0..=255_u8 {
        vocab.insert(byte_char(byte).to_string(), json!(byte));
    }
    let added = |id: u32, text: &str| {
        json!({"id": id, "content": text, "special": true, "single_word": false, "lstrip": false,
               "rstrip": false, "normalized": false})
    };
    let byte_level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [added(IM_START, "<|im_start|>"), added(IM_END, "<|im_end|>")],
        "normalizer": null, "pre_tokenizer": byte_level, "post_processor": null, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": []}
    })
}

pub fn model() -> Model {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tokenizer.json");
    std::fs::write(&path, tokenizer_json().to_string()).expect("writable");
    let config = json!({"eos_token": "<|im_end|>"});
    let tokenizer = Tokenizer::from_source(TokenizerSource::HfJson {
        tokenizer_json: path,
        config,
        chat_template: None,
    })
    .expect("a usable tokenizer");
    let template =
        ChatTemplate::for_tokenizer(&tokenizer, Some(TEMPLATE), TemplateLimits::default()).expect("valid");
    Model {
        names: vec!["tiny".to_owned(), "alias".to_owned()],
        root: "tests/tiny".to_owned(),
        created_unix_s: 1,
        longest_token_bytes: longest_token_bytes(&tokenizer),
        tokenizer,
        template: Some(template),
        max_model_len: MAX_MODEL_LEN.into(),
        vocab_size: VOCAB_SIZE,
        eos_token_ids: vec![IM_END],
        defaults: SamplingDefaults::default(),
    }
}
