//! How text is cut before byte-level BPE, by the name a GGUF file gives in `tokenizer.ggml.pre`.
//!
//! A vocabulary's merges were learned on text cut in one particular way; cutting differently gives
//! other tokens. The patterns are part of each model's published tokenizer.

use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;

use crate::error::TokenizerError;

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const CJK_RUN: &str = r"[一-龥ࠀ-一가-퟿]+";
const DEEPSEEK_MARKS: &str = r"\s?[!-/:-~！-／：-～‘-‟\x{3000}-。]+";
const DEEPSEEK3_WORDS: &str = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/// Names, the patterns applied one after the other, and whether a whole word that is in the
/// vocabulary is taken as it is, without going through the merges.
struct Entry {
    names: &'static [&'static str],
    splits: &'static [&'static str],
    ignore_merges: bool,
}

const fn entry(names: &'static [&'static str], splits: &'static [&'static str]) -> Entry {
    Entry {
        names,
        splits,
        ignore_merges: false,
    }
}

const TABLE: &[Entry] = &[
    entry(
        &[
            "default",
            "gpt-2",
            "gpt2",
            "mpt",
            "olmo",
            "jais",
            "phi-2",
            "granite-docling",
            "trillion",
        ],
        &[GPT2],
    ),
    // One digit at a time, then as GPT-2.
    entry(
        &[
            "smollm",
            "starcoder",
            "refact",
            "command-r",
            "codeshell",
            "exaone",
            "minerva-7b",
        ],
        &[r"\p{N}", GPT2],
    ),
    Entry {
        names: &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
        ],
        splits: &[LLAMA3],
        ignore_merges: true,
    },
    entry(
        &["dbrx", "smaug-bpe", "chatglm-bpe", "glm4", "jina-v5-nano"],
        &[LLAMA3],
    ),
    entry(
        &[
            "qwen2",
            "stablelm2",
            "hunyuan",
            "deepseek-r1-qwen",
            "megrez",
            "kormo",
            "f2llmv2",
        ],
        &[QWEN2],
    ),
    entry(&["qwen35"], &[QWEN35]),
    Entry {
        names: &["tekken"],
        splits: &[TEKKEN],
        ignore_merges: true,
    },
    entry(&["gpt-4o", "llama4", "kanana2", "minimax-m2"], &[GPT4O]),
    entry(&["falcon"], &[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"]),
    entry(
        &["deepseek-llm"],
        &[
            r"[\r\n]",
            r"\s?[\p{Lu}\p{Ll}\p{Lt}]+",
            DEEPSEEK_MARKS,
            r"\s+$",
            CJK_RUN,
            r"\p{N}+",
        ],
    ),
    entry(
        &["deepseek-coder"],
        &[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK_RUN, r"\p{N}"],
    ),
    entry(
        &["deepseek-v3", "hunyuan-dense"],
        &[r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3_WORDS],
    ),
];

/// The chosen way of cutting text.
pub(crate) struct PreTokenizer {
    /// Ready to be put into a tokenizer; ends with the byte-level step.
    pub(crate) steps: PreTokenizerWrapper,
    /// See [`Entry::ignore_merges`].
    pub(crate) ignore_merges: bool,
}

/// Finds the pre-tokenizer of this name; a file that gives none is treated as GPT-2.
pub(crate) fn pre_tokenizer(name: Option<&str>) -> Result<PreTokenizer, TokenizerError> {
    let name = name.unwrap_or("default");
    let Some(found) = TABLE.iter().find(|entry| entry.names.contains(&name)) else {
        let mut known: Vec<&str> = TABLE.iter().flat_map(|entry| entry.names).copied().collect();
        known.sort_unstable();
        return Err(TokenizerError::UnknownPreTokenizer {
            name: name.to_owned(),
            known: known.join(", "),
        });
    };
    let mut steps = Vec::with_capacity(found.splits.len() + 1);
    for pattern in found.splits {
        let pattern = SplitPattern::Regex((*pattern).to_owned());
        let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
            .map_err(|error| TokenizerError::BadVocabulary(format!("pre-tokenizer '{name}': {error}")))?;
        steps.push(PreTokenizerWrapper::Split(split));
    }
    steps.push(PreTokenizerWrapper::ByteLevel(ByteLevel::new(false, true, false)));
    let steps = PreTokenizerWrapper::Sequence(Sequence::new(steps));
    Ok(PreTokenizer {
        steps,
        ignore_merges: found.ignore_merges,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles_and_every_name_is_listed_once() {
        let mut names: Vec<&str> = TABLE.iter().flat_map(|entry| entry.names).copied().collect();
        for name in &names {
            assert!(pre_tokenizer(Some(name)).is_ok(), "{name}");
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = pre_tokenizer(Some("klingon"))
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default();
        assert!(error.contains("'klingon'") && error.contains("llama-bpe") && error.contains("smollm"));
    }
}
