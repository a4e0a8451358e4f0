//! Rotary position settings: metadata keys, and Llama 3's scaling, which GGUF stores as a tensor.

use std::f64::consts::PI;

use serde_json::{Map, Value as Json, json};

use super::GgufError;
use super::config::ArchitectureKeys;
use crate::dtype::DType;

/// The tensor in which llama.cpp stores one divisor per rotary frequency.
pub(super) const FACTORS_TENSOR: &str = "rope_freqs.weight";

/// Llama 3 and its successors all use these; the file stores only their effect.
const LLAMA3_LOW_FREQ_FACTOR: f64 = 1.0;
const LLAMA3_HIGH_FREQ_FACTOR: f64 = 4.0;
const LLAMA3_ORIGINAL_LENGTH: f64 = 8192.0;
/// The stored factors are float32 computed in float32.
const FACTOR_TOLERANCE: f64 = 1e-3;

/// Adds `rope_theta` and, where the model scales its positions, `rope_scaling`.
pub(super) fn insert_rope(
    config: &mut Map<String, Json>,
    keys: &ArchitectureKeys<'_>,
    file: &[u8],
) -> Result<(), GgufError> {
    let theta = keys.float("rope.freq_base")?.unwrap_or(10_000.0);
    if theta <= 0.0 {
        let problem = format!("{theta} is not positive");
        return Err(GgufError::BadValue {
            key: keys.key("rope.freq_base"),
            problem,
        });
    }
    config.insert("rope_theta".to_owned(), json!(theta));
    if let Some(rotary) = keys.header.unsigned(&keys.key("rope.dimension_count"))? {
        insert_partial_rotary(config, rotary);
    }
    let scaling = match frequency_factors(keys, file)? {
        Some(factors) => Some(factor_scaling(&factors, theta)),
        None => metadata_scaling(keys)?,
    };
    if let Some(scaling) = scaling {
        config.insert("rope_scaling".to_owned(), scaling);
    }
    Ok(())
}

/// Some models rotate only the first dimensions of each head.
fn insert_partial_rotary(config: &mut Map<String, Json>, rotary: u64) {
    let head_dim = config.get("head_dim").and_then(Json::as_u64).unwrap_or(rotary);
    if rotary < head_dim {
        config.insert(
            "partial_rotary_factor".to_owned(),
            json!(rotary as f64 / head_dim as f64),
        );
    }
}

fn metadata_scaling(keys: &ArchitectureKeys<'_>) -> Result<Option<Json>, GgufError> {
    let type_key = keys.key("rope.scaling.type");
    let kind = keys.header.string(&type_key)?;
    let factor = match keys.float("rope.scaling.factor")? {
        Some(factor) => Some(factor),
        None => keys.float("rope.scale_linear")?,
    };
    let original = keys
        .header
        .unsigned(&keys.key("rope.scaling.original_context_length"))?;
    let kind = match (kind, factor) {
        (None | Some("none"), None) | (Some("none"), _) => return Ok(None),
        (None, Some(factor)) if (factor - 1.0).abs() < f64::EPSILON => return Ok(None),
        (None, Some(_)) => "linear",
        (Some(kind), _) => kind,
    };
    let factor = factor.ok_or_else(|| GgufError::MissingKey {
        key: keys.key("rope.scaling.factor"),
    })?;
    let mut scaling = Map::new();
    scaling.insert("rope_type".to_owned(), json!(kind));
    scaling.insert("factor".to_owned(), json!(factor));
    if let Some(original) = original {
        scaling.insert("original_max_position_embeddings".to_owned(), json!(original));
    }
    for (key, name) in [("yarn_beta_fast", "beta_fast"), ("yarn_beta_slow", "beta_slow")] {
        if let Some(value) = keys.float(&format!("rope.scaling.{key}"))? {
            scaling.insert(name.to_owned(), json!(value));
        }
    }
    Ok(Some(Json::Object(scaling)))
}

/// The divisors in the file, one per pair of rotary dimensions.
fn frequency_factors(keys: &ArchitectureKeys<'_>, file: &[u8]) -> Result<Option<Vec<f64>>, GgufError> {
    let Some(tensor) = keys
        .header
        .tensors
        .iter()
        .find(|tensor| tensor.name == FACTORS_TENSOR)
    else {
        return Ok(None);
    };
    let bad = |problem: String| GgufError::BadTensor {
        name: FACTORS_TENSOR.to_owned(),
        problem,
    };
    if tensor.dtype != DType::F32 || tensor.shape.len() != 1 {
        return Err(bad(format!(
            "expected a list of F32, found {} of shape {:?}",
            tensor.dtype, tensor.shape
        )));
    }
    let bytes = &file[tensor.range.clone()];
    let (words, _) = bytes.as_chunks::<4>();
    let factors: Vec<f64> = words
        .iter()
        .map(|word| f64::from(f32::from_le_bytes(*word)))
        .collect();
    if factors.iter().all(|factor| factor.is_finite() && *factor > 0.0) {
        return Ok(Some(factors));
    }
    Err(bad("a factor is not a positive number".to_owned()))
}

/// Names the scaling by its Llama 3 parameters if they give the stored factors; else hands the factors on.
fn factor_scaling(factors: &[f64], theta: f64) -> Json {
    let factor = factors.iter().copied().fold(1.0, f64::max);
    let expected = llama3_factors(factors.len(), theta, factor);
    let equal = factors
        .iter()
        .zip(&expected)
        .all(|(stored, expected)| (stored - expected).abs() <= FACTOR_TOLERANCE * expected);
    if !equal {
        return json!({"rope_type": "frequency_factors", "factors": factors});
    }
    // The largest factor is stored exactly: it is the parameter itself.
    json!({
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": LLAMA3_LOW_FREQ_FACTOR,
        "high_freq_factor": LLAMA3_HIGH_FREQ_FACTOR,
        "original_max_position_embeddings": LLAMA3_ORIGINAL_LENGTH as u64,
    })
}

/// The divisors that Llama 3's rule gives for `count` frequencies.
fn llama3_factors(count: usize, theta: f64, factor: f64) -> Vec<f64> {
    (0..count)
        .map(|index| {
            let wavelength = 2.0 * PI * theta.powf(index as f64 / count as f64);
            if wavelength < LLAMA3_ORIGINAL_LENGTH / LLAMA3_HIGH_FREQ_FACTOR {
                return 1.0;
            }
            if wavelength > LLAMA3_ORIGINAL_LENGTH / LLAMA3_LOW_FREQ_FACTOR {
                return factor;
            }
            let smooth = (LLAMA3_ORIGINAL_LENGTH / wavelength - LLAMA3_LOW_FREQ_FACTOR)
                / (LLAMA3_HIGH_FREQ_FACTOR - LLAMA3_LOW_FREQ_FACTOR);
            1.0 / ((1.0 - smooth) / factor + smooth)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama3_factors_are_recognised_and_others_handed_on() {
        let factors: Vec<f64> = llama3_factors(64, 500_000.0, 8.0)
            .iter()
            .map(|factor| f64::from(*factor as f32))
            .collect();
        let scaling = factor_scaling(&factors, 500_000.0);
        assert_eq!(scaling["rope_type"], "llama3");
        assert_eq!(scaling["factor"], 8.0);
        assert_eq!(
            factor_scaling(&[1.0, 3.0, 2.0], 10_000.0)["rope_type"],
            "frequency_factors"
        );
    }
}
