//! A tokenizer from a Hugging Face folder: `tokenizer.json`, adjusted by `tokenizer_config.json`.

use std::path::Path;

use serde_json::Value;
use tokenizers::{AddedToken, Tokenizer as HfTokenizer};

use super::gguf::set_template;
use crate::error::TokenizerError;

/// The roles a special token can have, in the order templates know them.
pub(crate) const ROLES: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];

/// Reads `tokenizer_json` and applies what `config` says on top.
pub(crate) fn build(tokenizer_json: &Path, config: &Value) -> Result<HfTokenizer, TokenizerError> {
    let bad = |message: String| TokenizerError::BadTokenizerJson {
        path: tokenizer_json.into(),
        message,
    };
    let mut tokenizer = HfTokenizer::from_file(tokenizer_json).map_err(|error| bad(error.to_string()))?;
    // Stored settings of a training run; a request's length is nobody's business here.
    tokenizer
        .with_truncation(None)
        .map_err(|error| bad(error.to_string()))?;
    tokenizer.with_padding(None);
    add_missing_tokens(&mut tokenizer, config);
    apply_bos_eos(&mut tokenizer, config)?;
    Ok(tokenizer)
}

/// The text of a token that a config gives as a string or as `{"content": ...}`.
pub(crate) fn token_content(value: &Value) -> Option<&str> {
    value
        .as_str()
        .or_else(|| value.get("content").and_then(Value::as_str))
}

fn added_token(value: &Value, special: bool) -> Option<AddedToken> {
    let flag = |name: &str, default: bool| value.get(name).and_then(Value::as_bool).unwrap_or(default);
    let special = flag("special", special);
    let token = AddedToken::from(token_content(value)?.to_owned(), special)
        .lstrip(flag("lstrip", false))
        .rstrip(flag("rstrip", false))
        .single_word(flag("single_word", false))
        .normalized(flag("normalized", !special));
    Some(token)
}

/// Adds tokens that only `tokenizer_config.json` declares.
fn add_missing_tokens(tokenizer: &mut HfTokenizer, config: &Value) {
    let known = tokenizer.get_added_vocabulary().get_vocab().clone();
    let mut declared: Vec<(u64, AddedToken)> = Vec::new();
    if let Some(decoder) = config.get("added_tokens_decoder").and_then(Value::as_object) {
        let parse = |(id, value): (&String, &Value)| Some((id.parse().ok()?, added_token(value, false)?));
        declared.extend(decoder.iter().filter_map(parse));
        declared.sort_by_key(|&(id, _)| id);
    }
    let mut missing: Vec<AddedToken> = declared.into_iter().map(|(_, token)| token).collect();
    missing.extend(
        ROLES
            .iter()
            .filter_map(|role| added_token(config.get(role)?, true)),
    );
    missing.retain(|token| !known.contains_key(&token.content));
    if !missing.is_empty() {
        tokenizer.add_tokens(&missing);
    }
}

/// `add_bos_token` / `add_eos_token`, where present, replace the file's own post-processing.
fn apply_bos_eos(tokenizer: &mut HfTokenizer, config: &Value) -> Result<(), TokenizerError> {
    if config.get("add_bos_token").is_none() && config.get("add_eos_token").is_none() {
        return Ok(());
    }
    let wanted = |flag: &str, role: &str| -> Option<(String, u32)> {
        if !config.get(flag).and_then(Value::as_bool).unwrap_or(false) {
            return None;
        }
        let text = token_content(config.get(role)?)?;
        Some((text.to_owned(), tokenizer.token_to_id(text)?))
    };
    let bos = wanted("add_bos_token", "bos_token");
    let eos = wanted("add_eos_token", "eos_token");
    set_template(
        tokenizer,
        bos.as_ref().map(|(text, id)| (text.as_str(), *id)),
        eos.as_ref().map(|(text, id)| (text.as_str(), *id)),
    )
}
