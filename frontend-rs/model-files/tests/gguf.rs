//! The GGUF reader on whole files: what it makes of good ones, and what it says about bad ones.
#![allow(clippy::unwrap_used, reason = "a test may stop at once")]

mod common;

use common::{F32, GgufWriter, llama, llama_metadata, string};
use serde_json::json;
use vllm_rs_model_files::{DType, Format, ModelFiles, TokenizerSource};

fn open(writer: &GgufWriter) -> Result<ModelFiles, String> {
    open_bytes(&writer.bytes())
}

fn open_bytes(bytes: &[u8]) -> Result<ModelFiles, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, bytes).unwrap();
    ModelFiles::open(&path).map_err(|error| {
        let text = error.to_string();
        assert!(
            text.starts_with(&path.display().to_string()),
            "an error names its file: {text}"
        );
        text[path.display().to_string().len() + 2..].to_owned()
    })
}

fn refusal(writer: &GgufWriter) -> String {
    open(writer).unwrap_err()
}

#[test]
fn metadata_becomes_a_configuration() {
    let model = open(&llama()).unwrap();
    assert_eq!(model.format(), Format::Gguf);
    let expected = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "_name_or_path": "Tiny",
        "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "head_dim": 16, "intermediate_size": 64, "vocab_size": 4, "max_position_embeddings": 64,
        "rms_norm_eps": f64::from(1e-5f32), "rope_theta": 10000.0, "tie_word_embeddings": true,
        "attention_bias": false, "mlp_bias": false, "hidden_act": "silu", "torch_dtype": "bfloat16",
        "eos_token_id": 3,
    });
    assert_eq!(json!(model.config()), expected);
    assert_eq!(json!(model.generation_config()), json!({"eos_token_id": 3}));
}

#[test]
fn tensors_carry_hf_names_and_row_major_shapes() {
    let model = open(&llama()).unwrap();
    let names = [
        "model.embed_tokens.weight",
        "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.k_proj.weight",
        "model.norm.weight",
    ];
    assert_eq!(model.tensor_names(), names);
    let embedding = model.tensor("model.embed_tokens.weight").unwrap();
    assert_eq!((embedding.dtype, embedding.shape), (DType::Q8_0, &[4, 32][..]));
    assert_eq!(embedding.bytes.len(), 4 * 34);
    assert_eq!(embedding.interleaved_heads, None);
    assert_eq!(model.total_bytes(), 4 * 34 + 4 * (32 * 32 + 16 * 32 + 32));
}

#[test]
fn rotary_rows_come_back_in_the_models_order() {
    let model = open(&llama()).unwrap();
    let name = "model.layers.0.self_attn.k_proj.weight";
    assert_eq!(model.tensor(name).unwrap().interleaved_heads, Some(1));
    let mut out = vec![0.0; 16 * 32];
    model.read_f32(name, &mut out).unwrap();
    let first_of_row: Vec<f32> = out.chunks(32).map(|row| row[0] / 32.0).collect();
    let expected = [0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15].map(|row| row as f32);
    assert_eq!(first_of_row, expected);
}

#[test]
fn an_unknown_architecture_keeps_its_name() {
    let other = GgufWriter::new()
        .string("general.architecture", "zebra")
        .u32("zebra.block_count", 1)
        .u32("zebra.context_length", 8)
        .u32("zebra.embedding_length", 8)
        .u32("zebra.attention.head_count", 2)
        .u32("zebra.vocab_size", 7);
    assert_eq!(open(&other).unwrap().config()["architectures"], json!(["zebra"]));
}

#[test]
fn the_tokenizer_is_handed_on_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = llama().write(folder.path());
    let TokenizerSource::Gguf(tokenizer) = TokenizerSource::open(&path).unwrap() else {
        panic!("not GGUF")
    };
    assert_eq!(tokenizer.tokens, ["a", "b", "c", "<end>"]);
    assert_eq!(
        (tokenizer.model.as_str(), tokenizer.pre.as_deref()),
        ("gpt2", Some("smollm"))
    );
    assert_eq!(
        (tokenizer.eos_token_id, tokenizer.add_bos_token),
        (Some(3), Some(false))
    );
    assert_eq!(tokenizer.token_types, [1, 1, 1, 3]);
    assert_eq!(tokenizer.merges, ["a b"]);
    assert_eq!(tokenizer.chat_template.as_deref(), Some("{{ messages }}"));
}

#[test]
fn a_folder_with_one_gguf_file_stands_for_it() {
    let folder = tempfile::tempdir().unwrap();
    llama().write(folder.path());
    assert_eq!(ModelFiles::open(folder.path()).unwrap().format(), Format::Gguf);
    std::fs::copy(folder.path().join("model.gguf"), folder.path().join("other.gguf")).unwrap();
    let text = ModelFiles::open(folder.path()).unwrap_err().to_string();
    assert!(
        text.contains("several GGUF files (model.gguf, other.gguf)"),
        "{text}"
    );
}

#[test]
fn every_truncation_is_an_error_and_never_a_panic() {
    let bytes = llama().bytes();
    for length in 0..bytes.len() {
        let error = open_bytes(&bytes[..length]).unwrap_err();
        assert!(!error.is_empty());
    }
    assert_eq!(
        open_bytes(b"").unwrap_err(),
        "truncated: magic at byte 0 needs 4 bytes, 0 are left"
    );
    assert!(
        open_bytes(&bytes[..bytes.len() - 1])
            .unwrap_err()
            .contains("end beyond the file's")
    );
}

#[test]
fn absurd_headers_are_refused_by_field_value_and_limit() {
    assert!(
        open_bytes(b"PK\x03\x04xxxx")
            .unwrap_err()
            .contains("not a GGUF file")
    );
    let mut old = llama();
    old.version = 1;
    assert_eq!(refusal(&old), "GGUF version 1 is not supported (2 and 3 are)");
    old.version = 3u32.swap_bytes();
    assert!(refusal(&old).ends_with("the file is big-endian"));
    let counts = [
        &b"GGUF"[..],
        &3u32.to_le_bytes(),
        &u64::MAX.to_le_bytes(),
        &0u64.to_le_bytes(),
    ]
    .concat();
    assert_eq!(
        open_bytes(&counts).unwrap_err(),
        "tensor count at byte 8 is 18446744073709551615, the limit is 0"
    );
    let array = llama_metadata().array("x", 0, 1 << 60, &[1, 2, 3]);
    assert!(refusal(&array).contains("length of metadata value x"));
    let nested = [&9u32.to_le_bytes()[..], &1u64.to_le_bytes()].concat().repeat(9);
    assert!(refusal(&llama_metadata().array("x", 9, 1, &nested)).contains("nesting of metadata value x"));
    assert!(refusal(&llama_metadata().u32("llama.block_count", 2)).contains("appears twice"));
    let aligned = llama_metadata().u32("general.alignment", 0);
    assert!(refusal(&aligned).contains("general.alignment: 0 is not a power of two"));
}

#[test]
fn lying_tensors_are_refused_by_name() {
    let cases = [
        (vec![u64::MAX, 2], F32, 0, "makes its size zero or too large"),
        (vec![0], F32, 0, "makes its size zero or too large"),
        (vec![33], common::Q8_0, 0, "no whole number of Q8_0 blocks of 32"),
        (vec![4], F32, 3, "offset 3 is not a multiple of the alignment 32"),
        (vec![4], F32, 1 << 40, "end beyond the file's"),
        (vec![4], F32, u64::MAX - 31, "beyond"),
        (vec![1, 1, 1, 1, 1], F32, 0, "dimension count of tensor \"bad\""),
        (vec![4], 31, 0, "unknown type 31"),
        (vec![4], F32, 0, "its data overlaps that of tensor"),
    ];
    for (dimensions, kind, offset, expected) in cases {
        let text = refusal(&llama().record("bad", &dimensions, kind, offset));
        assert!(text.contains(expected), "{dimensions:?} {kind} {offset}: {text}");
        assert!(text.contains("bad") || text.contains("token_embd"), "{text}");
    }
    let twice = llama().f32_tensor("output_norm.weight", &[32]);
    assert_eq!(refusal(&twice), "tensor \"output_norm.weight\" appears twice");
}

#[test]
fn impossible_metadata_is_refused_by_key() {
    let without = GgufWriter::new().string("general.architecture", "llama");
    assert_eq!(
        refusal(&without),
        "metadata key llama.embedding_length is missing"
    );
    assert_eq!(
        refusal(&GgufWriter::new()),
        "metadata key general.architecture is missing"
    );
    let texts = GgufWriter::new().u32("general.architecture", 3);
    let text = refusal(&texts);
    assert_eq!(
        text,
        "metadata key general.architecture: expected a string, found an unsigned number"
    );
    let id = llama_metadata().u32("tokenizer.ggml.bos_token_id", 4);
    assert!(refusal(&id).contains("token id 4 is outside the vocabulary of 4"));
    let rows = llama_metadata().f32_tensor("blk.0.attn_q.weight", &[32, 30]);
    assert!(refusal(&rows).contains("its 30 rows are no multiple of 2 × 2 heads"));
}

#[test]
fn requests_that_do_not_fit_name_the_tensor() {
    let model = open(&llama()).unwrap();
    let text = model
        .tensor("model.layers.0.self_attn.q_proj.wieght")
        .unwrap_err()
        .to_string();
    assert!(
        text.ends_with("did you mean model.layers.0.self_attn.q_proj.weight?"),
        "{text}"
    );
    let text = model
        .read_f32("model.norm.weight", &mut [0.0; 31])
        .unwrap_err()
        .to_string();
    assert_eq!(
        text,
        "tensor model.norm.weight has 32 elements, the output buffer has 31"
    );
    let text = model
        .tensor_of_shape("model.norm.weight", &[64])
        .unwrap_err()
        .to_string();
    assert!(text.contains("tensor model.norm.weight has shape [32]") && text.contains("expected [64]"));
}

#[test]
fn strings_are_bounded_and_utf8() {
    let long = [
        &b"GGUF"[..],
        &3u32.to_le_bytes(),
        &0u64.to_le_bytes(),
        &1u64.to_le_bytes(),
    ]
    .concat();
    let long = [&long[..], &(1u64 << 50).to_le_bytes(), &[b'x'; 64]].concat();
    assert!(
        open_bytes(&long)
            .unwrap_err()
            .contains("length of metadata key at byte 24 is 1125899906842624")
    );
    let mut bytes = llama().bytes();
    let place = bytes.windows(4).position(|window| window == b"Tiny").unwrap();
    bytes[place] = 0xff;
    assert!(
        open_bytes(&bytes)
            .unwrap_err()
            .contains("metadata value general.name")
    );
    assert_eq!(string("é").len(), 10);
}
