//! llama.cpp's tensor names → Hugging Face's.

use std::collections::HashSet;
use std::ops::Range;

use super::GgufError;
use super::header::GgufHeader;
use super::rope::FACTORS_TENSOR;
use crate::dtype::DType;

/// A tensor of the model under its HF name.
#[derive(Debug, Clone)]
pub(crate) struct HfTensor {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    /// Row-major.
    pub(crate) shape: Vec<usize>,
    /// Bytes from the start of the file.
    pub(crate) range: Range<usize>,
    /// Heads whose rows llama.cpp interleaved for its rotary kernel.
    pub(crate) interleaved_heads: Option<usize>,
}

const TOP: &[(&str, &str)] = &[
    ("token_embd", "model.embed_tokens"),
    ("output_norm", "model.norm"),
    ("output", "lm_head"),
];

const PER_LAYER: &[(&str, &str)] = &[
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// All tensors with their HF names, in file order. Names we do not know stay as they are; the rotary
/// factors are left out, because the configuration carries them.
pub(crate) fn hf_tensors(header: &GgufHeader) -> Result<Vec<HfTensor>, GgufError> {
    let heads = Heads::read(header)?;
    let mut seen = HashSet::new();
    let mut tensors = Vec::new();
    for tensor in header
        .tensors
        .iter()
        .filter(|tensor| tensor.name != FACTORS_TENSOR)
    {
        let name = hf_name(&tensor.name).unwrap_or_else(|| tensor.name.clone());
        if !seen.insert(name.clone()) {
            return Err(GgufError::Duplicate { what: "tensor", name });
        }
        let interleaved_heads = heads.interleaved(&tensor.name);
        if let Some(count) = interleaved_heads {
            check_rows(&tensor.name, tensor.shape[0], count)?;
        }
        tensors.push(HfTensor {
            name,
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
            range: tensor.range.clone(),
            interleaved_heads,
        });
    }
    Ok(tensors)
}

/// `blk.3.attn_q.weight` → `model.layers.3.self_attn.q_proj.weight`.
fn hf_name(name: &str) -> Option<String> {
    let (stem, suffix) = name.rsplit_once('.')?;
    let lookup = |table: &[(&str, &'static str)], key: &str| {
        table.iter().find(|(gguf, _)| *gguf == key).map(|(_, hf)| *hf)
    };
    if let Some(rest) = stem.strip_prefix("blk.") {
        let (layer, part) = rest.split_once('.')?;
        let layer: u32 = layer.parse().ok()?;
        return Some(format!(
            "model.layers.{layer}.{}.{suffix}",
            lookup(PER_LAYER, part)?
        ));
    }
    Some(format!("{}.{suffix}", lookup(TOP, stem)?))
}

/// How many heads the interleaved projections have; only the `llama` conversion interleaves.
struct Heads {
    query: Option<usize>,
    key: Option<usize>,
}

impl Heads {
    fn read(header: &GgufHeader) -> Result<Self, GgufError> {
        if header.string("general.architecture")? != Some("llama") {
            return Ok(Self {
                query: None,
                key: None,
            });
        }
        let count = |key: &str| -> Option<usize> {
            let value = match header.array(key) {
                Ok(array) => array?.equal_unsigned(),
                Err(_) => header.unsigned(key).ok().flatten(),
            };
            value
                .and_then(|value| usize::try_from(value).ok())
                .filter(|&value| value > 0)
        };
        let query = count("llama.attention.head_count");
        Ok(Self {
            query,
            key: count("llama.attention.head_count_kv").or(query),
        })
    }

    fn interleaved(&self, gguf_name: &str) -> Option<usize> {
        if gguf_name.contains(".attn_q.") {
            return self.query;
        }
        if gguf_name.contains(".attn_k.") {
            return self.key;
        }
        None
    }
}

fn check_rows(name: &str, rows: usize, heads: usize) -> Result<(), GgufError> {
    let pairs = heads.checked_mul(2);
    if pairs.is_some_and(|pairs| rows.is_multiple_of(pairs)) {
        return Ok(());
    }
    let problem = format!("its {rows} rows are no multiple of 2 × {heads} heads");
    Err(GgufError::BadTensor {
        name: name.to_owned(),
        problem,
    })
}

#[cfg(test)]
mod tests {
    use super::hf_name;

    #[test]
    fn names_follow_the_table_or_stay() {
        assert_eq!(
            hf_name("token_embd.weight").as_deref(),
            Some("model.embed_tokens.weight")
        );
        assert_eq!(hf_name("output.weight").as_deref(), Some("lm_head.weight"));
        let layer = hf_name("blk.12.attn_k.bias");
        assert_eq!(layer.as_deref(), Some("model.layers.12.self_attn.k_proj.bias"));
        assert_eq!(hf_name("blk.0.ffn_gate_exps.weight"), None);
        assert_eq!(hf_name("blk.x.attn_q.weight"), None);
    }
}
