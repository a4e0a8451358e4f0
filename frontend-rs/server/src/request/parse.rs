//! From the bytes of a body to its fields, in memory that stays in proportion to the bytes.
//!
//! A JSON tree takes up to a hundred times its text. So lists of token ids, which may be long, are read straight into
//! numbers, and everything else is counted while it is read: above the limit nothing more is built.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::fields::{brief, integer};
use crate::error::ApiError;

/// Most JSON values in one body, lists of token ids aside. 4096 messages with their roles and texts are 12289.
pub const MAX_VALUES: usize = 65_536;

/// Fields that may hold long lists of token ids.
const ID_FIELDS: [&str; 4] = ["prompt", "tokens", "stop_token_ids", "allowed_token_ids"];

/// A list field, by what its items are.
#[derive(Debug, Clone, PartialEq)]
pub enum List {
    Empty,
    Ids(Vec<u32>),
    IdLists(Vec<Vec<u32>>),
    Texts(Vec<String>),
    /// Holds something that does not belong there; this is how it is shown.
    Bad(String),
}

/// The top object of a body.
#[derive(Debug, Default)]
pub struct Parsed {
    pub map: Map<String, Value>,
    pub lists: BTreeMap<String, List>,
}

/// Counts the values that are still allowed.
struct Budget {
    left: Cell<usize>,
    exceeded: Cell<bool>,
}

impl Budget {
    fn spend<E: Error>(&self) -> Result<(), E> {
        let Some(left) = self.left.get().checked_sub(1) else {
            self.exceeded.set(true);
            return Err(E::custom("too many values"));
        };
        self.left.set(left);
        Ok(())
    }
}

/// Reads the top object of a body. `serde_json` bounds the nesting at 128 levels.
pub fn parse(bytes: &[u8]) -> Result<Parsed, ApiError> {
    let budget = Budget {
        left: Cell::new(MAX_VALUES),
        exceeded: Cell::new(false),
    };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed = reader
        .deserialize_map(Top(&budget))
        .and_then(|parsed| reader.end().map(|()| parsed));
    parsed.map_err(|error| {
        if budget.exceeded.get() {
            ApiError::BodyTooComplex {
                limit_values: MAX_VALUES,
            }
        } else {
            ApiError::MalformedJson {
                detail: error.to_string(),
            }
        }
    })
}

struct Top<'a>(&'a Budget);

impl<'de> Visitor<'de> for Top<'_> {
    type Value = Parsed;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object at the top of the body")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Parsed, A::Error> {
        let mut parsed = Parsed::default();
        while let Some(name) = access.next_key::<String>()? {
            self.0.spend()?;
            // Of a name that stands twice, the last counts.
            parsed.lists.remove(&name);
            if !ID_FIELDS.contains(&name.as_str()) {
                let value = access.next_value_seed(Tree(self.0))?;
                parsed.map.insert(name, value);
                continue;
            }
            parsed.map.shift_remove(&name);
            match access.next_value_seed(IdField(self.0))? {
                Item::List(list) => {
                    parsed.lists.insert(name, list);
                }
                Item::Value(value) => {
                    parsed.map.insert(name, value);
                }
            }
        }
        Ok(parsed)
    }
}

/// Builds a tree, value by value.
struct Tree<'a>(&'a Budget);

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

/// The visits of single values, which every visitor here answers alike.
macro_rules! scalars {
    ($wrap:expr) => {
        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a JSON value")
        }

        fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
            Ok($wrap(Value::Bool(flag)))
        }

        fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
            Ok($wrap(Value::from(number)))
        }

        fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
            Ok($wrap(Value::from(number)))
        }

        fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
            Ok($wrap(Value::from(number)))
        }

        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            Ok($wrap(Value::from(text)))
        }

        fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
            Ok($wrap(Value::from(text)))
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($wrap(Value::Null))
        }
    };
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    scalars!(std::convert::identity);

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(Tree(self.0))? {
            self.0.spend()?;
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            self.0.spend()?;
            let value = access.next_value_seed(Tree(self.0))?;
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

/// What a field for token ids, or an item of it, turned out to be.
enum Item {
    List(List),
    Value(Value),
}

struct IdField<'a>(&'a Budget);

impl<'de> DeserializeSeed<'de> for IdField<'_> {
    type Value = Item;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Item, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for IdField<'_> {
    type Value = Item;

    scalars!(Item::Value);

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Item, A::Error> {
        let mut list = List::Empty;
        while let Some(item) = access.next_element_seed(IdField(self.0))? {
            if !matches!(item, Item::Value(Value::Number(_))) {
                self.0.spend()?;
            }
            list.push(item);
            if matches!(list, List::Bad(_)) {
                while access.next_element::<IgnoredAny>()?.is_some() {}
                break;
            }
        }
        Ok(Item::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<Item, A::Error> {
        Tree(self.0).visit_map(access).map(Item::Value)
    }
}

impl List {
    /// Adds an item; one of another kind than those before spoils the list.
    fn push(&mut self, item: Item) {
        let spoilt = match (&mut *self, item) {
            (Self::Empty, Item::Value(Value::String(text))) => {
                *self = Self::Texts(vec![text]);
                None
            }
            (Self::Texts(texts), Item::Value(Value::String(text))) => {
                texts.push(text);
                None
            }
            (Self::Empty, Item::List(Self::Ids(ids))) => {
                *self = Self::IdLists(vec![ids]);
                None
            }
            (Self::Empty, Item::List(Self::Empty)) => {
                *self = Self::IdLists(vec![Vec::new()]);
                None
            }
            (Self::IdLists(lists), Item::List(Self::Ids(ids))) => {
                lists.push(ids);
                None
            }
            (Self::IdLists(lists), Item::List(Self::Empty)) => {
                lists.push(Vec::new());
                None
            }
            (_, Item::List(Self::Bad(what))) => Some(what),
            (_, Item::List(_)) => Some("a list".to_owned()),
            (list, Item::Value(value)) => match token_id(&value) {
                Some(id) => list.push_id(id),
                None => Some(brief(&value)),
            },
        };
        if let Some(what) = spoilt {
            *self = Self::Bad(what);
        }
    }

    /// Adds a token id; gives what does not belong here.
    fn push_id(&mut self, id: u32) -> Option<String> {
        match self {
            Self::Empty => *self = Self::Ids(vec![id]),
            Self::Ids(ids) => ids.push(id),
            _ => return Some(id.to_string()),
        }
        None
    }
}

fn token_id(value: &Value) -> Option<u32> {
    let id = integer(value)?;
    u32::try_from(i32::try_from(id).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn list(prompt: &str) -> Option<List> {
        let body = format!("{{\"prompt\": {prompt}}}");
        parse(body.as_bytes()).expect("JSON").lists.remove("prompt")
    }

    #[test]
    fn lists_are_read_by_what_they_hold() {
        assert_eq!(list("[]"), Some(List::Empty));
        assert_eq!(list("[1, 2.0]"), Some(List::Ids(vec![1, 2])));
        assert_eq!(list("[[1], []]"), Some(List::IdLists(vec![vec![1], vec![]])));
        assert_eq!(list("[\"a\"]"), Some(List::Texts(vec!["a".to_owned()])));
        for (mixed, shown) in [
            ("[1, \"a\", 2]", "\"a\""),
            ("[\"a\", 1]", "1"),
            ("[null]", "null"),
            ("[[1], [[2]]]", "a list"),
            ("[-1]", "-1"),
            ("[[true]]", "true"),
        ] {
            assert_eq!(list(mixed), Some(List::Bad(shown.to_owned())), "{mixed}");
        }
    }

    #[test]
    fn other_fields_become_what_serde_json_makes_of_them() {
        let body =
            json!({"a": [1, -2, 0.5, null, true, "x", {"b": []}], "prompt": "text", "tokens": {"x": 1}});
        let parsed = parse(body.to_string().as_bytes()).expect("JSON");
        assert_eq!(Value::Object(parsed.map), body);
        let twice = parse(b"{\"prompt\": [1], \"prompt\": \"a\"}").expect("JSON");
        assert!(twice.lists.is_empty());
        assert_eq!(twice.map["prompt"], "a");
    }

    #[test]
    fn many_values_are_refused_and_many_ids_are_not() {
        let many = |item: &str| format!("[{}{item}]", format!("{item},").repeat(MAX_VALUES));
        for field in ["messages", "prompt"] {
            let body = format!("{{\"{field}\": {}}}", many("[]"));
            let error = parse(body.as_bytes()).expect_err("too many");
            assert_eq!(
                error,
                ApiError::BodyTooComplex {
                    limit_values: MAX_VALUES
                }
            );
        }
        assert_eq!(
            list(&many("7")).map(|ids| matches!(ids, List::Ids(ids) if ids.len() == MAX_VALUES + 1)),
            Some(true)
        );
    }
}
