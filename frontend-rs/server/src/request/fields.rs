//! A JSON object whose fields are taken out one by one.
//!
//! Each field is read with the type it must have, so that an error can name the field, what it must be and what
//! it was. What nobody took is what the server ignored, and the client is told.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::parse::{self, List};
use crate::error::ApiError;

/// The fields of one JSON object that have not been taken yet.
#[derive(Debug)]
pub struct Fields {
    map: Map<String, Value>,
    /// Lists that were read straight into numbers or texts.
    lists: BTreeMap<String, List>,
    /// Path of the object inside the body, with a trailing dot; empty at the top.
    prefix: String,
}

/// What a value is, for error messages; never the value itself, which may be a prompt.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a number with a fraction",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A value as text short enough for an error message.
pub fn brief(value: &Value) -> String {
    match value {
        Value::Bool(_) | Value::Number(_) | Value::Null => value.to_string(),
        Value::String(text) if text.len() <= 40 => format!("{text:?}"),
        other => kind_of(other).to_owned(),
    }
}

pub(super) fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let float = value.as_f64()?;
        // 2^53: beyond it a float no longer names one integer.
        (float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0).then_some(float as i64)
    })
}

impl Fields {
    /// Reads the top object of a request body.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let parse::Parsed { map, lists } = parse::parse(body)?;
        Ok(Self {
            map,
            lists,
            prefix: String::new(),
        })
    }

    #[cfg(test)]
    pub fn from_body(value: &Value) -> Result<Self, ApiError> {
        Self::parse(value.to_string().as_bytes())
    }

    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn wrong(&self, name: &str, expected: &str, given: &Value) -> ApiError {
        let path = self.path(name);
        let message = format!("{path} must be {expected}, but is {}", brief(given));
        ApiError::invalid(path, message)
    }

    /// Takes a field; `null` counts as absent.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.map.shift_remove(name).filter(|value| !value.is_null())
    }

    /// Takes a nested object.
    pub fn object(&mut self, name: &str) -> Result<Option<Fields>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Fields {
                map,
                lists: BTreeMap::new(),
                prefix: format!("{}.", self.path(name)),
            })),
            Some(other) => Err(self.wrong(name, "an object", &other)),
        }
    }

    /// Takes an object whose content is not ours to judge.
    pub fn raw_object(&mut self, name: &str) -> Result<Option<Map<String, Value>>, ApiError> {
        Ok(self.object(name)?.map(|fields| fields.map))
    }

    pub fn boolean(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.wrong(name, "true or false", &other)),
        }
    }

    pub fn string(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, "a string", &other)),
        }
    }

    /// Takes an integer in `low..=high`.
    pub fn integer(&mut self, name: &str, low: i64, high: i64) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let Some(number) = integer(&value) else {
            return Err(self.wrong(name, "an integer", &value));
        };
        if (low..=high).contains(&number) {
            return Ok(Some(number));
        }
        let expected = if high == i64::MAX {
            format!("at least {low}")
        } else {
            format!("between {low} and {high}")
        };
        Err(self.wrong(name, &expected, &value))
    }

    /// Takes a number in `low..=high`, or `low < number` when `open_low`: above it in the engine's float32, too.
    pub fn number(
        &mut self,
        name: &str,
        low: f64,
        high: f64,
        open_low: bool,
    ) -> Result<Option<f64>, ApiError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let number = match value.as_f64() {
            Some(number) if value.is_number() && number.is_finite() => number,
            _ => return Err(self.wrong(name, "a number", &value)),
        };
        let above_low = if open_low {
            number - low >= f64::from(f32::MIN_POSITIVE)
        } else {
            number >= low
        };
        if above_low && number <= high {
            return Ok(Some(number));
        }
        let bound = if open_low {
            format!("above {low}")
        } else {
            format!("at least {low}")
        };
        let expected = if high == f64::INFINITY {
            bound
        } else {
            format!("{bound} and at most {high}")
        };
        Err(self.wrong(name, &expected, &value))
    }

    /// Takes a string or a list of strings as a list.
    pub fn strings(&mut self, name: &str) -> Result<Vec<String>, ApiError> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(vec![text]),
            Some(Value::Array(items)) => items
                .into_iter()
                .map(|item| match item {
                    Value::String(text) => Ok(text),
                    other => Err(self.wrong(name, "a string or a list of strings", &other)),
                })
                .collect(),
            Some(other) => Err(self.wrong(name, "a string or a list of strings", &other)),
        }
    }

    /// Takes a field that is a list, if it is one.
    pub fn list(&mut self, name: &str) -> Option<List> {
        self.lists.remove(name)
    }

    /// Takes a list of token ids (`0 ..= 2^31 - 1`; the vocabulary is checked later).
    pub fn token_ids(&mut self, name: &str) -> Result<Option<Vec<u32>>, ApiError> {
        let path = self.path(name);
        let holds = |what: &str| {
            let message = format!("{path} must hold token ids (integers from 0), but holds {what}");
            Err(ApiError::invalid(&path, message))
        };
        match self.list(name) {
            None => {}
            Some(List::Empty) => return Ok(Some(Vec::new())),
            Some(List::Ids(ids)) => return Ok(Some(ids)),
            Some(List::IdLists(_)) => return holds("a list"),
            Some(List::Texts(_)) => return holds("a string"),
            Some(List::Bad(what)) => return holds(&what),
        }
        match self.take(name) {
            None => Ok(None),
            Some(other) => Err(self.wrong(name, "a list of token ids", &other)),
        }
    }

    /// Refuses a known field that is not implemented, unless its value asks for nothing.
    pub fn refuse(&mut self, name: &str, asks_for_nothing: impl Fn(&Value) -> bool) -> Result<(), ApiError> {
        match self.take(name) {
            Some(value) if !asks_for_nothing(&value) => Err(ApiError::unsupported(self.path(name))),
            _ => Ok(()),
        }
    }

    /// Ends the reading: the names nobody took, in the order they were sent.
    pub fn ignored(self) -> Vec<String> {
        let Self { map, lists, prefix } = self;
        map.into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, _)| name)
            .chain(lists.into_keys())
            .map(|name| format!("{prefix}{name}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[expect(
        clippy::needless_pass_by_value,
        reason = "a literal reads better without a reference"
    )]
    fn fields(value: Value) -> Fields {
        Fields::from_body(&value).expect("an object")
    }

    #[test]
    fn errors_name_the_path_the_expectation_and_the_value() {
        let mut body = fields(json!({"stream_options": {"include_usage": "yes"}, "top_p": 3, "n": 1.5}));
        let mut options = body.object("stream_options").expect("object").expect("present");
        assert_eq!(
            options
                .boolean("include_usage")
                .expect_err("a string")
                .to_string(),
            "stream_options.include_usage must be true or false, but is \"yes\""
        );
        assert_eq!(
            body.number("top_p", 0.0, 1.0, true)
                .expect_err("too large")
                .to_string(),
            "top_p must be above 0 and at most 1, but is 3"
        );
        assert_eq!(
            body.integer("n", 1, 8).expect_err("a fraction").to_string(),
            "n must be an integer, but is 1.5"
        );
    }

    #[test]
    fn null_is_absent_and_leftovers_are_reported() {
        let mut body = fields(json!({"a": null, "b": 1, "foo": [], "bar": null}));
        assert_eq!(body.integer("a", 0, 9).expect("absent"), None);
        assert_eq!(body.integer("b", 0, 9).expect("in range"), Some(1));
        assert_eq!(body.ignored(), vec!["foo".to_owned()]);
    }

    #[test]
    fn whole_floats_are_integers() {
        assert_eq!(
            fields(json!({"n": 2.0})).integer("n", 1, 8).expect("whole"),
            Some(2)
        );
        assert!(fields(json!({"n": 1e300})).integer("n", 1, i64::MAX).is_err());
    }

    #[test]
    fn token_ids_are_bounded() {
        assert_eq!(
            fields(json!({"tokens": [0, 5]}))
                .token_ids("tokens")
                .expect("ids"),
            Some(vec![0, 5])
        );
        for bad in [
            json!([-1]),
            json!([4_294_967_296_u64]),
            json!([3_000_000_000_u32]),
            json!(["1"]),
            json!([null]),
        ] {
            assert!(fields(json!({"tokens": bad})).token_ids("tokens").is_err());
        }
    }
}
