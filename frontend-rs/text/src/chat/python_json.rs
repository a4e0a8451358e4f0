//! The `tojson` filter with the meaning of Python's `json.dumps`, which templates were written for.

use std::fmt::Write;

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

use super::budget::Budget;

/// Deeper values are refused; Python would stop at about a thousand.
const MAX_DEPTH: usize = 200;

struct Style {
    ensure_ascii: bool,
    /// What one level of indentation is made of; none means everything on one line.
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
    budget: Budget,
}

// The template engine hands keyword arguments over by value.
#[allow(clippy::needless_pass_by_value)]
/// `value | tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)`
pub(super) fn tojson(
    value: &Value,
    ensure_ascii: Option<bool>,
    indent: Option<Value>,
    kwargs: Kwargs,
    budget: Budget,
) -> Result<Value, Error> {
    let ensure_ascii = match ensure_ascii {
        Some(given) => given,
        None => kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
    };
    let indent = match indent {
        Some(given) => Some(given),
        None => kwargs.get::<Option<Value>>("indent")?,
    };
    let indent = match indent {
        None => None,
        Some(value) if value.is_none() || value.is_undefined() => None,
        Some(value) => Some(match value.as_str() {
            Some(text) => text.to_owned(),
            None => " ".repeat(usize::try_from(i64::try_from(value)?.clamp(0, 64)).unwrap_or(0)),
        }),
    };
    let mut separators = (
        if indent.is_some() { "," } else { ", " }.to_owned(),
        ": ".to_owned(),
    );
    if let Some(given) = kwargs
        .get::<Option<Value>>("separators")?
        .filter(|value| !value.is_none())
    {
        let given: Vec<String> = given.try_iter()?.map(|item| item.to_string()).collect();
        let [item, key] = <[String; 2]>::try_from(given)
            .map_err(|_| Error::new(ErrorKind::InvalidOperation, "tojson: separators must be a pair"))?;
        separators = (item, key);
    }
    let sort_keys = kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    let style = Style {
        ensure_ascii,
        indent,
        item_separator: separators.0,
        key_separator: separators.1,
        sort_keys,
        budget,
    };
    let mut text = String::new();
    style.write(&mut text, value, 0)?;
    Ok(Value::from(text))
}

impl Style {
    fn write(&self, text: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(Error::new(
                ErrorKind::BadSerialization,
                "tojson: nested too deeply",
            ));
        }
        // A list may hold one long text many times.
        self.budget.fits(text.len())?;
        match value.kind() {
            ValueKind::None => text.push_str("null"),
            ValueKind::Bool => text.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => text.push_str(&number(value)),
            ValueKind::String => self.write_string(text, value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.write_items(text, ['[', ']'], depth, items.len(), |style, text, index| {
                    style.write(text, &items[index], depth + 1)
                })?;
            }
            ValueKind::Map => self.write_map(text, value, depth)?,
            kind => {
                let message = format!("tojson: a value of type {kind} is not JSON serializable");
                return Err(Error::new(ErrorKind::BadSerialization, message));
            }
        }
        Ok(())
    }

    fn write_map(&self, text: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        let mut entries: Vec<(String, Value)> = Vec::new();
        for key in value.try_iter()? {
            let item = value.get_item(&key)?;
            entries.push((key_text(&key)?, item));
        }
        if self.sort_keys {
            entries.sort_by(|a, b| a.0.cmp(&b.0));
        }
        self.write_items(text, ['{', '}'], depth, entries.len(), |style, text, index| {
            let (key, item) = &entries[index];
            style.write_string(text, key);
            text.push_str(&style.key_separator);
            style.write(text, item, depth + 1)
        })
    }

    fn write_items(
        &self,
        text: &mut String,
        brackets: [char; 2],
        depth: usize,
        count: usize,
        mut item: impl FnMut(&Self, &mut String, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        text.push(brackets[0]);
        for index in 0..count {
            if index > 0 {
                text.push_str(&self.item_separator);
            }
            self.new_line(text, depth + 1);
            item(self, text, index)?;
        }
        if count > 0 {
            self.new_line(text, depth);
        }
        text.push(brackets[1]);
        Ok(())
    }

    fn new_line(&self, text: &mut String, depth: usize) {
        if let Some(indent) = &self.indent {
            text.push('\n');
            text.extend(std::iter::repeat_n(indent.as_str(), depth));
        }
    }

    fn write_string(&self, text: &mut String, string: &str) {
        text.push('"');
        for c in string.chars() {
            match c {
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                '\u{8}' => text.push_str("\\b"),
                '\u{c}' => text.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && c > '~') => {
                    let mut units = [0; 2];
                    for unit in c.encode_utf16(&mut units) {
                        // Writing to a string cannot fail.
                        let _ = write!(text, "\\u{unit:04x}");
                    }
                }
                c => text.push(c),
            }
        }
        text.push('"');
    }
}

fn key_text(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_owned()),
        ValueKind::Number => Ok(number(key)),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.to_owned()),
        ValueKind::None => Ok("null".to_owned()),
        kind => Err(Error::new(
            ErrorKind::BadSerialization,
            format!("tojson: {kind} is not a key"),
        )),
    }
}

fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    match f64::try_from(value.clone()) {
        Ok(float) => python_float(float),
        Err(_) => value.to_string(),
    }
}

/// A float as Python writes it: the shortest digits that read back the same, with an exponent from
/// 1e16 up and below 1e-4.
pub(super) fn python_float(float: f64) -> String {
    if float.is_nan() {
        return "NaN".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{float}");
        return if plain.contains('.') {
            plain
        } else {
            format!("{plain}.0")
        };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::python_float;

    #[test]
    fn floats_are_written_as_python_writes_them() {
        let cases = [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e16, "1e+16"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (1e15, "1000000000000000.0"),
            (0.0001, "0.0001"),
            (0.000_012_5, "1.25e-05"),
            (1e-7, "1e-07"),
            (1e300, "1e+300"),
        ];
        for (float, expected) in cases {
            assert_eq!(python_float(float), expected);
        }
    }
}
