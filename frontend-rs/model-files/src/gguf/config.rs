//! GGUF metadata → the content of a Hugging Face `config.json`.

use serde_json::{Map, Value as Json, json};

use super::GgufError;
use super::header::GgufHeader;
use super::names::HfTensor;
use super::rope;
use super::tokenizer;
use crate::dtype::DType;

/// Bounds that no model comes near; they keep an absurd file from becoming an absurd allocation.
const LAYERS_LIMIT: u64 = 10_000;
const WIDTH_LIMIT: u64 = 1 << 24;
const LENGTH_LIMIT: u64 = 1 << 40;

/// `general.architecture` → the class name that Hugging Face configurations use.
const ARCHITECTURES: &[(&str, &str)] = &[
    ("llama", "LlamaForCausalLM"),
    ("qwen2", "Qwen2ForCausalLM"),
    ("qwen2moe", "Qwen2MoeForCausalLM"),
    ("qwen3", "Qwen3ForCausalLM"),
    ("qwen3moe", "Qwen3MoeForCausalLM"),
    ("gemma", "GemmaForCausalLM"),
    ("gemma2", "Gemma2ForCausalLM"),
    ("gemma3", "Gemma3ForCausalLM"),
    ("phi2", "PhiForCausalLM"),
    ("phi3", "Phi3ForCausalLM"),
    ("falcon", "FalconForCausalLM"),
    ("gpt2", "GPT2LMHeadModel"),
    ("gptneox", "GPTNeoXForCausalLM"),
    ("starcoder2", "Starcoder2ForCausalLM"),
    ("stablelm", "StableLmForCausalLM"),
    ("olmo", "OlmoForCausalLM"),
    ("olmo2", "Olmo2ForCausalLM"),
    ("command-r", "CohereForCausalLM"),
    ("bert", "BertModel"),
    ("mamba", "MambaForCausalLM"),
];

/// Metadata keys under the architecture's own prefix.
pub(super) struct ArchitectureKeys<'a> {
    pub(super) header: &'a GgufHeader,
    pub(super) architecture: &'a str,
}

impl ArchitectureKeys<'_> {
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    /// A number from 1 to `limit`.
    fn count(&self, name: &str, limit: u64) -> Result<Option<u64>, GgufError> {
        let key = self.key(name);
        match self.header.unsigned(&key)? {
            Some(value) if value == 0 || value > limit => Err(GgufError::BadValue {
                key,
                problem: format!("{value} is not from 1 to {limit}"),
            }),
            value => Ok(value),
        }
    }

    fn required(&self, name: &str, limit: u64) -> Result<u64, GgufError> {
        self.count(name, limit)?
            .ok_or_else(|| GgufError::MissingKey { key: self.key(name) })
    }

    /// A number that some files give per layer; lists are accepted where all layers agree.
    fn count_or_equal_list(&self, name: &str, limit: u64) -> Result<Option<u64>, GgufError> {
        let key = self.key(name);
        match self.header.array(&key) {
            Ok(Some(array)) => array
                .equal_unsigned()
                .filter(|value| (1..=limit).contains(value))
                .map(Some)
                .ok_or_else(|| GgufError::BadValue {
                    key,
                    problem: "differs from layer to layer, which is not supported".to_owned(),
                }),
            Ok(None) => Ok(None),
            Err(_) => self.count(name, limit),
        }
    }

    pub(super) fn float(&self, name: &str) -> Result<Option<f64>, GgufError> {
        self.header.float(&self.key(name))
    }
}

/// The configuration of the model in `header`; `tensors` are its tensors under their HF names.
pub(crate) fn hf_config(
    header: &GgufHeader,
    tensors: &[HfTensor],
    file: &[u8],
) -> Result<Map<String, Json>, GgufError> {
    let architecture = header
        .string("general.architecture")?
        .ok_or_else(|| GgufError::MissingKey {
            key: "general.architecture".to_owned(),
        })?;
    let keys = ArchitectureKeys { header, architecture };
    let mut config = Map::new();
    let experts = keys.count("expert_count", WIDTH_LIMIT).ok().flatten();
    config.insert(
        "architectures".to_owned(),
        json!([class_name(architecture, experts)]),
    );
    config.insert("model_type".to_owned(), json!(architecture));
    if let Some(name) = header.string("general.name")? {
        config.insert("_name_or_path".to_owned(), json!(name));
    }
    if let Some(experts) = experts {
        config.insert("num_local_experts".to_owned(), json!(experts));
    }
    insert_sizes(&mut config, &keys, tensors)?;
    rope::insert_rope(&mut config, &keys, file)?;
    insert_facts(&mut config, tensors);
    for (name, id) in tokenizer::special_ids(header)? {
        config.insert(name.to_owned(), json!(id));
    }
    Ok(config)
}

/// What a `generation_config.json` would say: the token ids that end a text.
pub(crate) fn hf_generation_config(header: &GgufHeader) -> Result<Map<String, Json>, GgufError> {
    let mut config = Map::new();
    let mut ends: Vec<u32> = Vec::new();
    for (name, id) in tokenizer::special_ids(header)? {
        match name {
            "eos_token_id" => ends.insert(0, id),
            "eot_token_id" => ends.push(id),
            _ => {
                config.insert(name.to_owned(), json!(id));
            }
        }
    }
    ends.dedup();
    match ends.as_slice() {
        [] => {}
        [one] => {
            config.insert("eos_token_id".to_owned(), json!(one));
        }
        several => {
            config.insert("eos_token_id".to_owned(), json!(several));
        }
    }
    Ok(config)
}

/// An unknown architecture keeps its own name, so that the registry can refuse it by that name.
fn class_name(architecture: &str, experts: Option<u64>) -> &str {
    if architecture == "llama" && experts.is_some() {
        return "MixtralForCausalLM";
    }
    ARCHITECTURES
        .iter()
        .find(|(name, _)| *name == architecture)
        .map_or(architecture, |(_, class)| *class)
}

fn insert_sizes(
    config: &mut Map<String, Json>,
    keys: &ArchitectureKeys<'_>,
    tensors: &[HfTensor],
) -> Result<(), GgufError> {
    let hidden_size = keys.required("embedding_length", WIDTH_LIMIT)?;
    let heads = keys
        .count_or_equal_list("attention.head_count", WIDTH_LIMIT)?
        .ok_or_else(|| GgufError::MissingKey {
            key: keys.key("attention.head_count"),
        })?;
    let kv_heads = keys
        .count_or_equal_list("attention.head_count_kv", WIDTH_LIMIT)?
        .unwrap_or(heads);
    if heads % kv_heads != 0 {
        let problem = format!("{kv_heads} key/value heads do not divide {heads} heads");
        return Err(GgufError::BadValue {
            key: keys.key("attention.head_count_kv"),
            problem,
        });
    }
    let head_dim = match keys.count("attention.key_length", WIDTH_LIMIT)? {
        Some(length) => length,
        None if hidden_size % heads == 0 => hidden_size / heads,
        None => {
            let problem = format!("{heads} heads do not divide the embedding length {hidden_size}");
            return Err(GgufError::BadValue {
                key: keys.key("attention.head_count"),
                problem,
            });
        }
    };
    let embedding_rows = tensors
        .iter()
        .find(|tensor| tensor.name == "model.embed_tokens.weight");
    let vocab_size = match keys.count("vocab_size", WIDTH_LIMIT)? {
        Some(size) => size,
        None => match (embedding_rows, tokenizer::token_count(keys.header)?) {
            (Some(embedding), _) => embedding.shape[0] as u64,
            (None, Some(tokens)) => tokens,
            (None, None) => {
                return Err(GgufError::MissingKey {
                    key: keys.key("vocab_size"),
                });
            }
        },
    };
    let rms_eps = keys.float("attention.layer_norm_rms_epsilon")?;
    let sizes = [
        ("hidden_size", Some(hidden_size)),
        (
            "num_hidden_layers",
            Some(keys.required("block_count", LAYERS_LIMIT)?),
        ),
        ("num_attention_heads", Some(heads)),
        ("num_key_value_heads", Some(kv_heads)),
        ("head_dim", Some(head_dim)),
        (
            "intermediate_size",
            keys.count_or_equal_list("feed_forward_length", WIDTH_LIMIT)?,
        ),
        ("vocab_size", Some(vocab_size)),
        (
            "max_position_embeddings",
            Some(keys.required("context_length", LENGTH_LIMIT)?),
        ),
        (
            "sliding_window",
            keys.count("attention.sliding_window", LENGTH_LIMIT)?,
        ),
    ];
    for (name, size) in sizes {
        if let Some(size) = size {
            config.insert(name.to_owned(), json!(size));
        }
    }
    if let Some(eps) = rms_eps {
        config.insert("rms_norm_eps".to_owned(), json!(eps));
    }
    if let Some(eps) = keys.float("attention.layer_norm_epsilon")? {
        config.insert("layer_norm_eps".to_owned(), json!(eps));
    }
    Ok(())
}

/// What only the tensors tell.
fn insert_facts(config: &mut Map<String, Json>, tensors: &[HfTensor]) {
    let has = |name: &str| tensors.iter().any(|tensor| tensor.name == name);
    let dtype = tensors
        .iter()
        .find(|tensor| tensor.shape.len() > 1)
        .map(|tensor| tensor.dtype);
    let torch_dtype = match dtype {
        Some(DType::F32) => "float32",
        Some(DType::F16) => "float16",
        // Quantised files are made from bf16 models as a rule, and their scales carry less than bf16.
        _ => "bfloat16",
    };
    config.insert("tie_word_embeddings".to_owned(), json!(!has("lm_head.weight")));
    config.insert(
        "attention_bias".to_owned(),
        json!(has("model.layers.0.self_attn.q_proj.bias")),
    );
    config.insert(
        "mlp_bias".to_owned(),
        json!(has("model.layers.0.mlp.down_proj.bias")),
    );
    config.insert("hidden_act".to_owned(), json!("silu"));
    config.insert("torch_dtype".to_owned(), json!(torch_dtype));
}
