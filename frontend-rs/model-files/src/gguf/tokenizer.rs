//! The `tokenizer.*` metadata.

use super::GgufError;
use super::header::GgufHeader;
use super::value::Array;
use crate::tokenizer_source::GgufTokenizer;

const TOKENS: &str = "tokenizer.ggml.tokens";

/// The number of tokens in the embedded vocabulary.
pub(super) fn token_count(header: &GgufHeader) -> Result<Option<u64>, GgufError> {
    Ok(header.array(TOKENS)?.map(|tokens| tokens.len() as u64))
}

/// The special token ids that the file names, by their HF configuration names.
pub(super) fn special_ids(header: &GgufHeader) -> Result<Vec<(&'static str, u32)>, GgufError> {
    let keys = [
        ("bos_token_id", "tokenizer.ggml.bos_token_id"),
        ("eos_token_id", "tokenizer.ggml.eos_token_id"),
        ("eot_token_id", "tokenizer.ggml.eot_token_id"),
        ("unk_token_id", "tokenizer.ggml.unknown_token_id"),
        ("pad_token_id", "tokenizer.ggml.padding_token_id"),
    ];
    let vocabulary = token_count(header)?;
    let mut ids = Vec::new();
    for (name, key) in keys {
        let Some(id) = header.unsigned(key)? else { continue };
        if vocabulary.is_some_and(|count| id >= count) || id > u64::from(u32::MAX) {
            let problem = format!(
                "token id {id} is outside the vocabulary of {}",
                vocabulary.unwrap_or(0)
            );
            return Err(GgufError::BadValue {
                key: key.to_owned(),
                problem,
            });
        }
        ids.push((name, id as u32));
    }
    Ok(ids)
}

/// The tokenizer inside the file.
pub(crate) fn tokenizer(header: &GgufHeader) -> Result<GgufTokenizer, GgufError> {
    let model_key = "tokenizer.ggml.model";
    let model = header.string(model_key)?;
    let model = model.ok_or_else(|| GgufError::MissingKey {
        key: model_key.to_owned(),
    })?;
    let tokens = strings(header, TOKENS)?;
    if tokens.is_empty() {
        return Err(GgufError::MissingKey {
            key: TOKENS.to_owned(),
        });
    }
    let scores = floats(header, "tokenizer.ggml.scores")?;
    let token_types = integers(header, "tokenizer.ggml.token_type")?;
    same_length("tokenizer.ggml.scores", scores.len(), tokens.len())?;
    same_length("tokenizer.ggml.token_type", token_types.len(), tokens.len())?;
    let ids = special_ids(header)?;
    let id = |name: &str| ids.iter().find(|(known, _)| *known == name).map(|(_, id)| *id);
    Ok(GgufTokenizer {
        model: model.to_owned(),
        pre: header.string("tokenizer.ggml.pre")?.map(str::to_owned),
        tokens,
        scores,
        token_types,
        merges: strings(header, "tokenizer.ggml.merges")?,
        bos_token_id: id("bos_token_id"),
        eos_token_id: id("eos_token_id"),
        eot_token_id: id("eot_token_id"),
        unk_token_id: id("unk_token_id"),
        pad_token_id: id("pad_token_id"),
        add_bos_token: header.boolean("tokenizer.ggml.add_bos_token")?,
        add_eos_token: header.boolean("tokenizer.ggml.add_eos_token")?,
        add_space_prefix: header.boolean("tokenizer.ggml.add_space_prefix")?,
        chat_template: header.string("tokenizer.chat_template")?.map(str::to_owned),
    })
}

fn same_length(key: &str, found: usize, tokens: usize) -> Result<(), GgufError> {
    if found == 0 || found == tokens {
        return Ok(());
    }
    let problem = format!("has {found} entries, the vocabulary has {tokens}");
    Err(GgufError::BadValue {
        key: key.to_owned(),
        problem,
    })
}

fn wrong(key: &str, wanted: &str) -> GgufError {
    GgufError::BadValue {
        key: key.to_owned(),
        problem: format!("is not an array of {wanted}"),
    }
}

fn strings(header: &GgufHeader, key: &str) -> Result<Vec<String>, GgufError> {
    match header.array(key)? {
        None => Ok(Vec::new()),
        Some(Array::Strings(items)) => Ok(items.clone()),
        Some(_) => Err(wrong(key, "strings")),
    }
}

fn floats(header: &GgufHeader, key: &str) -> Result<Vec<f32>, GgufError> {
    match header.array(key)? {
        None => Ok(Vec::new()),
        Some(Array::Floats(items)) => Ok(items.iter().map(|&item| item as f32).collect()),
        Some(_) => Err(wrong(key, "floats")),
    }
}

fn integers(header: &GgufHeader, key: &str) -> Result<Vec<i32>, GgufError> {
    let small = |fits: bool| {
        if fits {
            Ok(())
        } else {
            Err(wrong(key, "32-bit numbers"))
        }
    };
    match header.array(key)? {
        None => Ok(Vec::new()),
        Some(Array::Signed(items)) => {
            small(items.iter().all(|&item| i32::try_from(item).is_ok()))?;
            Ok(items.iter().map(|&item| item as i32).collect())
        }
        Some(Array::Unsigned(items)) => {
            small(items.iter().all(|&item| i32::try_from(item).is_ok()))?;
            Ok(items.iter().map(|&item| item as i32).collect())
        }
        Some(_) => Err(wrong(key, "numbers")),
    }
}
