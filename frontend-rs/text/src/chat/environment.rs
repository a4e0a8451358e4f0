//! The Jinja environment `transformers` gives to chat templates.

use std::fmt;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind, from_args};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, escape_formatter};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::budget::Budget;
use super::python_json::{python_float, tojson};
use super::strftime::{now_unix_s, strftime};

/// The message a template gave to `raise_exception`.
#[derive(Debug)]
pub(super) struct RefusedByTemplate(pub(super) String);

impl fmt::Display for RefusedByTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RefusedByTemplate {}

/// How templates are read.
pub(super) fn syntax() -> SyntaxConfig {
    // Only delimiters can be refused, and these are the usual ones.
    let mut syntax = SyntaxConfig::builder();
    syntax
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()
        .unwrap_or_default()
}

/// An environment without templates that stops after `steps` instructions, or beyond the budget.
pub(super) fn new(steps: u64, budget: Budget) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(syntax());
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(steps));
    environment.set_unknown_method_callback(move |state, value, method, args| {
        match (method, args) {
            ("join", [items, ..]) => budget.before("join", &[items.clone(), value.clone()])?,
            ("replace" | "format", _) => {
                let args: Vec<Value> = [value].into_iter().chain(args).cloned().collect();
                budget.before(method, &args)?;
            }
            _ => {}
        }
        let result = python_method(state, value, method, args)?;
        budget.charge_value(state, &result)?;
        Ok(result)
    });
    budget.install(&mut environment);
    environment.set_formatter(move |out, state, value| {
        // What is written may be captured in a variable.
        let bytes = budget.measure(value)?;
        budget.charge(state, bytes)?;
        write_value(out, state, value)
    });
    environment.add_filter(
        "tojson",
        move |state: &mut State,
              value: &Value,
              ensure_ascii: Option<bool>,
              indent: Option<Value>,
              kwargs: Kwargs| {
            let text = tojson(value, ensure_ascii, indent, kwargs, budget)?;
            budget.charge_value(state, &text)?;
            Ok::<Value, Error>(text)
        },
    );
    environment.add_filter("capitalize", move |state: &mut State, text: &str| {
        budget.charge(state, text.len())?;
        Ok::<String, Error>(capitalize(text))
    });
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", |format: &str| strftime(format, now_unix_s()));
    // In Jinja2 whatever has a length and can be indexed is a sequence, strings and maps included.
    environment.add_test("sequence", |value: &Value| {
        matches!(
            value.kind(),
            ValueKind::Seq | ValueKind::Map | ValueKind::String | ValueKind::Undefined
        )
    });
    environment.add_test("iterable", |value: &Value| {
        matches!(value.kind(), ValueKind::String) || value.try_iter().is_ok()
    });
    environment
}

/// Writes floats as Python does.
fn write_value(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    match f64::try_from(value.clone()) {
        Ok(float) if value.is_number() && !value.is_integer() && float.is_finite() => {
            out.write_str(&python_float(float)).map_err(Error::from)
        }
        _ => escape_formatter(out, state, value),
    }
}

fn raise_exception(message: &Value) -> Result<Value, Error> {
    let refused = RefusedByTemplate(message.to_string());
    Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(refused))
}

/// String methods of Python that the compatibility layer lacks; the rest goes to it.
fn python_method(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let Some(text) = value.as_str() else {
        return unknown_method_callback(state, value, method, args);
    };
    let result = match method {
        "removeprefix" | "removesuffix" => {
            let (affix,): (&str,) = from_args(args)?;
            let cut = if method == "removeprefix" {
                text.strip_prefix(affix)
            } else {
                text.strip_suffix(affix)
            };
            Value::from(cut.unwrap_or(text))
        }
        "title" | "capitalize" => {
            let () = from_args(args)?;
            Value::from(if method == "title" {
                title(text)
            } else {
                capitalize(text)
            })
        }
        "partition" | "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            let from_left = method == "partition";
            let found = if from_left {
                text.split_once(separator)
            } else {
                text.rsplit_once(separator)
            };
            let parts = match found {
                Some((before, after)) => [before, separator, after],
                None if from_left => [text, "", ""],
                None => ["", "", text],
            };
            parts.iter().map(|part| Value::from(*part)).collect()
        }
        _ => return unknown_method_callback(state, value, method, args),
    };
    Ok(result)
}

/// Appends `c` as the first letter of a word.
fn push_title_case(result: &mut String, c: char) {
    // Georgian has capitals, but no word begins with one.
    if ('ა'..='ჿ').contains(&c) {
        return result.push(c);
    }
    let mut upper = c.to_uppercase();
    result.extend(upper.next());
    result.extend(upper.flat_map(char::to_lowercase));
}

/// Python's `str.capitalize`.
fn capitalize(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut chars = text.chars();
    if let Some(first) = chars.next() {
        push_title_case(&mut result, first);
    }
    result.push_str(&chars.as_str().to_lowercase());
    result
}

/// Python's `str.title`: a letter is a capital unless a letter precedes it.
fn title(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut inside_word = false;
    for c in text.chars() {
        if inside_word {
            result.extend(c.to_lowercase());
        } else {
            push_title_case(&mut result, c);
        }
        inside_word = c.is_lowercase() || c.is_uppercase();
    }
    result
}

/// `{% generation %}` only marks the assistant's words for training; here it becomes a plain
/// block, with its whitespace control and its line kept.
pub(super) fn without_generation_tags(source: &str) -> String {
    let mut result = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        result.push_str(before);
        let end = tag.find("%}").map_or(tag.len(), |end| end + 2);
        let inner = tag[..end].trim_start_matches("{%").trim_end_matches("%}");
        let name = inner.trim_start_matches(['-', '+']).trim_end_matches(['-', '+']);
        match name.trim() {
            "generation" => result.push_str(&tag[..end].replace("generation", "if true")),
            "endgeneration" => result.push_str(&tag[..end].replace("endgeneration", "endif")),
            _ => result.push_str(&tag[..end]),
        }
        rest = &tag[end..];
    }
    result.push_str(rest);
    result
}
