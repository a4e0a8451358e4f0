//! Tiny valid model files, made on the spot.
#![allow(clippy::unwrap_used, reason = "a test may stop at once")]
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

use std::path::{Path, PathBuf};

use serde_json::json;

/// Writes GGUF files field by field, so that a test can get any field wrong.
#[derive(Clone)]
pub struct GgufWriter {
    pub version: u32,
    metadata: Vec<Vec<u8>>,
    tensors: Vec<(String, Vec<u64>, u32, u64)>,
    data: Vec<u8>,
}

pub const F32: u32 = 0;
pub const Q8_0: u32 = 8;
const ALIGNMENT: usize = 32;

impl GgufWriter {
    pub fn new() -> Self {
        Self {
            version: 3,
            metadata: Vec::new(),
            tensors: Vec::new(),
            data: Vec::new(),
        }
    }

    fn entry(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.metadata
            .push([&string(key)[..], &kind.to_le_bytes(), value].concat());
        self
    }

    pub fn u32(self, key: &str, value: u32) -> Self {
        self.entry(key, 4, &value.to_le_bytes())
    }

    pub fn f32(self, key: &str, value: f32) -> Self {
        self.entry(key, 6, &value.to_le_bytes())
    }

    pub fn bool(self, key: &str, value: bool) -> Self {
        self.entry(key, 7, &[u8::from(value)])
    }

    pub fn string(self, key: &str, value: &str) -> Self {
        self.entry(key, 8, &string(value))
    }

    pub fn strings(self, key: &str, values: &[&str]) -> Self {
        let items: Vec<u8> = values.iter().flat_map(|value| string(value)).collect();
        self.array(key, 8, values.len() as u64, &items)
    }

    pub fn i32s(self, key: &str, values: &[i32]) -> Self {
        let items: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.array(key, 5, values.len() as u64, &items)
    }

    pub fn array(self, key: &str, kind: u32, count: u64, items: &[u8]) -> Self {
        self.entry(
            key,
            9,
            &[&kind.to_le_bytes()[..], &count.to_le_bytes(), items].concat(),
        )
    }

    /// `dimensions` in the file's order: fastest first.
    pub fn tensor(mut self, name: &str, dimensions: &[u64], kind: u32, bytes: &[u8]) -> Self {
        self.data.resize(self.data.len().next_multiple_of(ALIGNMENT), 0);
        let offset = self.data.len() as u64;
        self.data.extend_from_slice(bytes);
        self.tensors
            .push((name.to_owned(), dimensions.to_vec(), kind, offset));
        self
    }

    /// A record whose data is not there.
    pub fn record(mut self, name: &str, dimensions: &[u64], kind: u32, offset: u64) -> Self {
        self.tensors
            .push((name.to_owned(), dimensions.to_vec(), kind, offset));
        self
    }

    pub fn f32_tensor(self, name: &str, dimensions: &[u64]) -> Self {
        let count: u64 = dimensions.iter().product();
        let bytes: Vec<u8> = (0..count)
            .flat_map(|value| (value as f32).to_le_bytes())
            .collect();
        self.tensor(name, dimensions, F32, &bytes)
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.metadata.len() as u64).to_le_bytes());
        out.extend(self.metadata.concat());
        for (name, dimensions, kind, offset) in &self.tensors {
            out.extend(string(name));
            out.extend((dimensions.len() as u32).to_le_bytes());
            out.extend(dimensions.iter().flat_map(|dimension| dimension.to_le_bytes()));
            out.extend(kind.to_le_bytes());
            out.extend(offset.to_le_bytes());
        }
        out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
        out.extend(&self.data);
        out
    }

    pub fn write(&self, folder: &Path) -> PathBuf {
        let path = folder.join("model.gguf");
        std::fs::write(&path, self.bytes()).unwrap();
        path
    }
}

pub fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// Metadata of a llama with 1 layer, hidden 32, 2 heads, 1 key/value head, 4 tokens.
pub fn llama_metadata() -> GgufWriter {
    GgufWriter::new()
        .string("general.architecture", "llama")
        .string("general.name", "Tiny")
        .u32("llama.block_count", 1)
        .u32("llama.context_length", 64)
        .u32("llama.embedding_length", 32)
        .u32("llama.feed_forward_length", 64)
        .u32("llama.attention.head_count", 2)
        .u32("llama.attention.head_count_kv", 1)
        .f32("llama.attention.layer_norm_rms_epsilon", 1e-5)
        .f32("llama.rope.freq_base", 10_000.0)
        .string("tokenizer.ggml.model", "gpt2")
        .string("tokenizer.ggml.pre", "smollm")
        .strings("tokenizer.ggml.tokens", &["a", "b", "c", "<end>"])
        .i32s("tokenizer.ggml.token_type", &[1, 1, 1, 3])
        .strings("tokenizer.ggml.merges", &["a b"])
        .u32("tokenizer.ggml.eos_token_id", 3)
        .bool("tokenizer.ggml.add_bos_token", false)
        .string("tokenizer.chat_template", "{{ messages }}")
}

/// A whole tiny llama.
pub fn llama() -> GgufWriter {
    llama_metadata()
        .tensor("token_embd.weight", &[32, 4], Q8_0, &[0x11; 4 * 34])
        .f32_tensor("blk.0.attn_q.weight", &[32, 32])
        .f32_tensor("blk.0.attn_k.weight", &[32, 16])
        .f32_tensor("output_norm.weight", &[32])
}

/// A safetensors file from names, types, shapes and bytes, laid out in the given order.
pub fn safetensors(tensors: &[(&str, &str, &[usize], Vec<u8>)]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let start = data.len();
        data.extend(bytes);
        header.insert(
            (*name).to_owned(),
            json!({"dtype": dtype, "shape": shape, "data_offsets": [start, data.len()]}),
        );
    }
    let header = serde_json::to_vec(&header).unwrap();
    [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()
}

pub fn config_json() -> serde_json::Value {
    json!({"architectures": ["LlamaForCausalLM"], "hidden_size": 4, "num_hidden_layers": 1})
}

pub fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
