//! Value parsers of the generated arguments. Messages say what is expected; clap adds the flag and the value given.

use crate::FlagError;

/// A value, or the word `auto` (and `-1`, as in vLLM), which means "not set".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auto {
    /// Let the program choose.
    Choose,
    /// The value given.
    Value(u64),
}

impl Auto {
    pub(crate) fn value(self) -> Option<u64> {
        match self {
            Self::Choose => None,
            Self::Value(value) => Some(value),
        }
    }
}

/// Lower bound of a float.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Low {
    From(f64),
    Above(f64),
}

fn in_range(value: Option<u64>, min: u64, max: u64) -> Result<u64, String> {
    value
        .filter(|value| (min..=max).contains(value))
        .ok_or_else(|| format!("expected an integer from {min} to {max}"))
}

pub(crate) fn int(text: &str, min: u64, max: u64) -> Result<u64, String> {
    in_range(text.trim().parse().ok(), min, max)
}

pub(crate) fn signed_int(text: &str, min: i64, max: i64) -> Result<i64, String> {
    let value: Option<i64> = text.trim().parse().ok();
    value
        .filter(|value| (min..=max).contains(value))
        .ok_or_else(|| format!("expected an integer from {min} to {max}"))
}

pub(crate) fn int_of(text: &str, choices: &[u64]) -> Result<u64, String> {
    text.trim()
        .parse()
        .ok()
        .filter(|value| choices.contains(value))
        .ok_or_else(|| {
            let list: Vec<String> = choices.iter().map(ToString::to_string).collect();
            format!("expected one of {}", list.join(", "))
        })
}

/// An integer that may end in k, m, g, t (powers of 1000) or K, M, G, T (powers of 1024), with decimals: `1.5k`, `4G`.
pub(crate) fn human_int(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let text = text.trim();
    let (digits, factor) = match text.char_indices().last() {
        Some((at, suffix)) if suffix.is_ascii_alphabetic() => (&text[..at], factor_of(suffix)),
        _ => (text, Some(1)),
    };
    in_range(factor.and_then(|factor| scale(digits, factor)), min, max)
        .map_err(|message| format!("{message} (4k = 4,000 and 4K = 4,096 are understood)"))
}

fn factor_of(suffix: char) -> Option<u64> {
    let power = match suffix.to_ascii_lowercase() {
        'k' => 1,
        'm' => 2,
        'g' => 3,
        't' => 4,
        _ => return None,
    };
    Some(if suffix.is_ascii_lowercase() {
        1000u64.pow(power)
    } else {
        1024u64.pow(power)
    })
}

/// `digits * factor` in exact integers; decimals are allowed when the product is whole or can be cut to whole.
fn scale(digits: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    if digits.contains('.') && (factor == 1 || fraction.is_empty()) {
        return None;
    }
    let unit = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let numerator = format!("{whole}{fraction}").parse::<u128>().ok()?;
    u64::try_from(numerator.checked_mul(u128::from(factor))? / unit).ok()
}

pub(crate) fn auto_or(text: &str, parse: impl Fn(&str) -> Result<u64, String>) -> Result<Auto, String> {
    if text.eq_ignore_ascii_case("auto") || text == "-1" {
        return Ok(Auto::Choose);
    }
    parse(text)
        .map(Auto::Value)
        .map_err(|message| format!("{message}, or auto"))
}

pub(crate) fn float(text: &str, low: Low, max: f64) -> Result<f64, String> {
    let value: Option<f64> = text.trim().parse().ok();
    let fits = |value: &f64| match low {
        Low::From(min) => (min..=max).contains(value),
        Low::Above(min) => *value > min && *value <= max,
    };
    value.filter(fits).ok_or_else(|| match low {
        Low::From(min) => format!("expected a number from {min} to {max}"),
        Low::Above(min) => format!("expected a number above {min}, at most {max}"),
    })
}

/// A bool with a positive and a negative spelling; clap has already made the later of the two win.
pub(crate) fn switch(on: Option<bool>, off: bool, default: bool) -> bool {
    if off { false } else { on.unwrap_or(default) }
}

/// A value that may be given as a positional argument or as a flag.
pub(crate) fn positional(
    flag: &str,
    positional: Option<String>,
    named: Option<String>,
    default: &str,
) -> Result<String, FlagError> {
    match (positional, named) {
        (Some(first), Some(second)) if first != second => Err(FlagError::Conflict(format!(
            "{flag} is given twice: {first:?} and --{flag} {second:?}"
        ))),
        (Some(value), _) | (None, Some(value)) if value.is_empty() => Err(FlagError::Invalid {
            flag: flag.to_owned(),
            expected: "a name or a path".to_owned(),
            given: value,
        }),
        (Some(value), _) | (None, Some(value)) => Ok(value),
        (None, None) => Ok(default.to_owned()),
    }
}

/// A repeatable flag; one value in brackets is a JSON list, as vLLM writes some of them.
pub(crate) fn list(flag: &str, values: Vec<String>) -> Result<Vec<String>, FlagError> {
    match values.as_slice() {
        [one] if one.starts_with('[') => serde_json::from_str(one).map_err(|_| FlagError::Invalid {
            flag: format!("--{flag}"),
            expected: "a value, or a JSON list of strings".to_owned(),
            given: one.clone(),
        }),
        _ => Ok(values),
    }
}
