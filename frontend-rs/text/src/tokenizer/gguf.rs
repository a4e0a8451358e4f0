//! A tokenizer from the metadata of a GGUF file.

use std::collections::HashSet;

use tokenizers::decoders::DecoderWrapper;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as DecoderSequence;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::Replace;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::processors::template::{SpecialToken, TemplateProcessing};
use tokenizers::{AddedToken, Tokenizer as HfTokenizer};
use vllm_rs_model_files::GgufTokenizer;

use super::pieces::byte_level_alphabet;
use super::pre_tokenizers::pre_tokenizer;
use super::spm_merges::merges_from_scores;
use crate::error::TokenizerError;

const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

/// Builds the tokenizer a GGUF file describes.
pub(crate) fn build(source: &GgufTokenizer) -> Result<HfTokenizer, TokenizerError> {
    check_shape(source)?;
    let mut tokenizer = match source.model.as_str() {
        "gpt2" => byte_level(source)?,
        "llama" => sentencepiece(source)?,
        other => {
            return Err(TokenizerError::UnsupportedModel {
                model: other.to_owned(),
                supported: "gpt2, llama",
            });
        }
    };
    add_special_tokens(&mut tokenizer, source);
    set_bos_eos(&mut tokenizer, source)?;
    Ok(tokenizer)
}

/// The parallel lists must be parallel, and ids must lie inside them.
fn check_shape(source: &GgufTokenizer) -> Result<(), TokenizerError> {
    let count = source.tokens.len();
    if count == 0 {
        return Err(TokenizerError::BadVocabulary(
            "tokenizer.ggml.tokens is empty".to_owned(),
        ));
    }
    for (name, length) in [
        ("scores", source.scores.len()),
        ("token_type", source.token_types.len()),
    ] {
        if length != 0 && length != count {
            return Err(TokenizerError::BadVocabulary(format!(
                "tokenizer.ggml.{name} has {length} entries for {count} tokens"
            )));
        }
    }
    let ids = [
        ("bos", source.bos_token_id),
        ("eos", source.eos_token_id),
        ("eot", source.eot_token_id),
        ("unknown", source.unk_token_id),
        ("padding", source.pad_token_id),
    ];
    for (name, id) in ids {
        if let Some(id) = id.filter(|&id| id as usize >= count) {
            return Err(TokenizerError::BadVocabulary(format!(
                "tokenizer.ggml.{name}_token_id is {id}, but there are {count} tokens"
            )));
        }
    }
    Ok(())
}

fn token_type(source: &GgufTokenizer, id: usize) -> i32 {
    source.token_types.get(id).copied().unwrap_or(1)
}

/// Byte-level BPE: texts are spelled in the byte alphabet, merges are listed.
fn byte_level(source: &GgufTokenizer) -> Result<HfTokenizer, TokenizerError> {
    let pre = pre_tokenizer(source.pre.as_deref())?;
    let char_of_byte = inverse_alphabet();
    let alphabet: HashSet<char> = char_of_byte.iter().copied().collect();
    let spell = |id: usize, token: &String| -> String {
        // Special tokens are matched in plain text; ordinary ones only after byte spelling.
        let plain = matches!(token_type(source, id), CONTROL | USER_DEFINED | UNKNOWN);
        if plain || token.chars().all(|c| alphabet.contains(&c)) {
            return token.clone();
        }
        token.bytes().map(|byte| char_of_byte[byte as usize]).collect()
    };
    let vocab: Vocab = source
        .tokens
        .iter()
        .enumerate()
        .map(|(id, token)| (spell(id, token), id as u32))
        .collect();
    let model = BPE::builder()
        .vocab_and_merges(vocab, split_merges(&source.merges)?)
        .ignore_merges(pre.ignore_merges)
        .build()
        .map_err(|error| TokenizerError::BadVocabulary(error.to_string()))?;
    let mut tokenizer = HfTokenizer::new(model);
    tokenizer.with_pre_tokenizer(Some(pre.steps));
    tokenizer.with_decoder(Some(DecoderWrapper::ByteLevel(ByteLevel::new(true, true, true))));
    Ok(tokenizer)
}

/// `SentencePiece`: texts with `▁` for a space, scores instead of merges, byte tokens for the rest.
fn sentencepiece(source: &GgufTokenizer) -> Result<HfTokenizer, TokenizerError> {
    let merges = if source.merges.is_empty() {
        merges_from_scores(&source.tokens, &source.scores)
    } else {
        split_merges(&source.merges)?
    };
    let vocab: Vocab = source
        .tokens
        .iter()
        .enumerate()
        .map(|(id, token)| (token.clone(), id as u32))
        .collect();
    let model = BPE::builder()
        .vocab_and_merges(vocab, merges)
        .fuse_unk(true)
        .byte_fallback(true)
        .build()
        .map_err(|error| TokenizerError::BadVocabulary(error.to_string()))?;
    let space_first = source.add_space_prefix.unwrap_or(true);
    let scheme = if space_first {
        PrependScheme::First
    } else {
        PrependScheme::Never
    };
    let mut tokenizer = HfTokenizer::new(model);
    tokenizer.with_pre_tokenizer(Some(Metaspace::new('▁', scheme, false)));
    let replace = Replace::new("▁", " ").map_err(|error| TokenizerError::BadVocabulary(error.to_string()))?;
    let mut steps = vec![
        DecoderWrapper::Replace(replace),
        DecoderWrapper::ByteFallback(ByteFallback::new()),
        DecoderWrapper::Fuse(Fuse::new()),
    ];
    if space_first {
        steps.push(DecoderWrapper::Strip(Strip::new(' ', 1, 0)));
    }
    tokenizer.with_decoder(Some(DecoderWrapper::Sequence(DecoderSequence::new(steps))));
    Ok(tokenizer)
}

fn split_merges(merges: &[String]) -> Result<Vec<(String, String)>, TokenizerError> {
    let parse = |(rank, merge): (usize, &String)| {
        merge
            .split_once(' ')
            .map(|(left, right)| (left.to_owned(), right.to_owned()))
            .ok_or_else(|| {
                TokenizerError::BadVocabulary(format!("tokenizer.ggml.merges[{rank}] '{merge}' has no space"))
            })
    };
    merges.iter().enumerate().map(parse).collect()
}

/// Control tokens and the ones with a named role become special tokens; user-defined tokens are
/// matched whole in the text but are ordinary text otherwise.
fn add_special_tokens(tokenizer: &mut HfTokenizer, source: &GgufTokenizer) {
    let of_type = |wanted: i32| {
        source
            .tokens
            .iter()
            .enumerate()
            .filter(move |&(id, _)| token_type(source, id) == wanted)
            .map(move |(_, token)| AddedToken::from(token.clone(), wanted == CONTROL).normalized(false))
    };
    let named = [
        source.bos_token_id,
        source.eos_token_id,
        source.unk_token_id,
        source.pad_token_id,
    ];
    let named = named
        .iter()
        .flatten()
        .map(|&id| AddedToken::from(source.tokens[id as usize].clone(), true).normalized(false));
    let special: Vec<AddedToken> = of_type(CONTROL).chain(named).collect();
    tokenizer.add_special_tokens(&special);
    let user_defined: Vec<AddedToken> = of_type(USER_DEFINED).collect();
    tokenizer.add_tokens(&user_defined);
}

/// Puts the begin and end tokens around the text where the file asks for it. `SentencePiece` models
/// of the time before the flag existed expect a begin token.
fn set_bos_eos(tokenizer: &mut HfTokenizer, source: &GgufTokenizer) -> Result<(), TokenizerError> {
    let add_bos = source.add_bos_token.unwrap_or(source.model == "llama");
    let bos = source.bos_token_id.filter(|_| add_bos);
    let eos = source
        .eos_token_id
        .filter(|_| source.add_eos_token.unwrap_or(false));
    let name = |id: u32| source.tokens[id as usize].as_str();
    set_template(
        tokenizer,
        bos.map(|id| (name(id), id)),
        eos.map(|id| (name(id), id)),
    )
}

/// Makes encoding begin with `bos` and end with `eos`.
pub(crate) fn set_template(
    tokenizer: &mut HfTokenizer,
    bos: Option<(&str, u32)>,
    eos: Option<(&str, u32)>,
) -> Result<(), TokenizerError> {
    let bad = |message: String| TokenizerError::BadVocabulary(format!("begin and end tokens: {message}"));
    // Placeholder names, because a token's own text may hold spaces or `$`.
    let mut single: Vec<&str> = Vec::new();
    let mut special: Vec<SpecialToken> = Vec::new();
    for (slot, token) in [("bos", bos), ("eos", eos)] {
        if slot == "eos" {
            single.push("$A");
        }
        if let Some((text, id)) = token {
            single.push(slot);
            let entry = SpecialToken::new(slot.to_owned(), vec![id], vec![text.to_owned()]);
            special.push(entry.map_err(|error| bad(error.to_string()))?);
        }
    }
    let template = TemplateProcessing::builder()
        .try_single(single)
        .map_err(bad)?
        .special_tokens(special)
        .build()
        .map_err(|error| bad(error.to_string()))?;
    tokenizer.with_post_processor(Some(template));
    Ok(())
}

/// `table[byte]` is the character byte-level BPE writes for that byte.
fn inverse_alphabet() -> Vec<char> {
    let mut table = vec!['\0'; 256];
    for (code, byte) in byte_level_alphabet().into_iter().enumerate() {
        if let (Some(byte), Some(c)) = (byte, u32::try_from(code).ok().and_then(char::from_u32)) {
            table[byte as usize] = c;
        }
    }
    table
}
