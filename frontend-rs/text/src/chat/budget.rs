//! How much text a template may make: no value above one limit, and all it ever makes below another.
//!
//! Most filters make about as much as they are given; what they made is counted afterwards. Those that
//! can make much of little (`indent`, `replace`, `join`, ...) are asked beforehand.

use std::borrow::Cow;
use std::fmt::{self, Write};

use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, filters};

pub(super) const CONCAT: &str = "guarded_concat";
pub(super) const GUARDED: &str = "guarded";
pub(super) const UNFOLDED: &str = "unfolded";

/// What one item of a list is taken to weigh.
const ITEM_BYTES: usize = 32;

/// The limits of a rendering.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    /// For one value.
    pub(super) value_bytes: usize,
    /// For all values together, dropped ones included.
    pub(super) made_bytes: usize,
}

/// What a rendering has made so far.
struct Made(usize);

/// Why a rendering was stopped.
#[derive(Debug)]
pub(super) struct TooMuchText {
    pub(super) limit_bytes: usize,
}

impl fmt::Display for TooMuchText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {} bytes of text", self.limit_bytes)
    }
}

impl std::error::Error for TooMuchText {}

fn too_much(limit_bytes: usize) -> Error {
    Error::new(ErrorKind::InvalidOperation, "too much text").with_source(TooMuchText { limit_bytes })
}

/// Counts what is written, and fails beyond a limit.
struct Counter {
    bytes: usize,
    limit_bytes: usize,
}

impl Write for Counter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > self.limit_bytes {
            return Err(fmt::Error);
        }
        Ok(())
    }
}

impl Budget {
    /// Refuses a value of that size.
    pub(super) fn fits(self, bytes: usize) -> Result<(), Error> {
        if bytes > self.value_bytes {
            return Err(too_much(self.value_bytes));
        }
        Ok(())
    }

    /// Notes that a value of that size was or will be made.
    pub(super) fn charge(self, state: &mut State, bytes: usize) -> Result<(), Error> {
        self.fits(bytes)?;
        let made = state.get_or_insert_extension(Made(0));
        made.0 = made.0.saturating_add(bytes);
        if made.0 > self.made_bytes {
            return Err(too_much(self.made_bytes));
        }
        Ok(())
    }

    /// Bytes of a value as text, found out without making that text.
    pub(super) fn measure(self, value: &Value) -> Result<usize, Error> {
        match value.as_str() {
            Some(text) => Ok(text.len()),
            None => self.count(format_args!("{value}")),
        }
    }

    fn count(self, text: fmt::Arguments<'_>) -> Result<usize, Error> {
        let mut counter = Counter {
            bytes: 0,
            limit_bytes: self.value_bytes,
        };
        match counter.write_fmt(text) {
            Ok(()) => Ok(counter.bytes),
            Err(_) => Err(too_much(self.value_bytes)),
        }
    }

    fn text(self, value: &Value) -> Result<Cow<'_, str>, Error> {
        self.fits(self.measure(value)?)?;
        Ok(match value.as_str() {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(value.to_string()),
        })
    }

    /// Notes what a filter or method made.
    pub(super) fn charge_value(self, state: &mut State, value: &Value) -> Result<(), Error> {
        match value.as_str() {
            Some(text) => self.charge(state, text.len()),
            None => self.charge(state, items_bytes(value)),
        }
    }

    /// Asked before a filter, or a method of the same name with its receiver as the first argument.
    pub(super) fn before(self, name: &str, args: &[Value]) -> Result<(), Error> {
        let Some(value) = args.first() else { return Ok(()) };
        match name {
            "replace" => match args {
                [_, from, to, ..] => self.before_replace(value, from, to),
                _ => Ok(()),
            },
            "indent" => {
                let text = self.text(value)?;
                let width = args[1..].iter().map(largest_integer).max().unwrap_or(0);
                let lines = text.matches('\n').count() + 1;
                self.fits(width.saturating_mul(lines).saturating_add(text.len()))
            }
            "join" => {
                let separator = args.get(1).filter(|separator| !separator.is_kwargs());
                let kwargs = args.iter().skip(1).find(|arg| arg.is_kwargs());
                let named = kwargs.and_then(|kwargs| kwargs.get_attr("d").ok());
                let mut separator_bytes = 0;
                for separator in separator.into_iter().chain(&named) {
                    separator_bytes += self.measure(separator)?;
                }
                self.before_join(value, separator_bytes)
            }
            "format" => self.before_format(value, &args[1..]),
            "pprint" => self.count(format_args!("{value:#?}")).map(|_| ()),
            "sum" => {
                // Text is added to text only if the caller starts with text.
                let start = args.get(2).cloned();
                let kwargs = args.iter().skip(1).find(|arg| arg.is_kwargs());
                let named = kwargs.and_then(|kwargs| kwargs.get_attr("start").ok());
                let is_plain = |start: Value| {
                    start.is_number() || start.is_none() || start.is_undefined() || start.is_kwargs()
                };
                if start.into_iter().chain(named).all(is_plain) {
                    return Ok(());
                }
                Err(Error::new(
                    ErrorKind::InvalidOperation,
                    "sum: only numbers can be added up",
                ))
            }
            "batch" | "slice" => {
                let count = args.get(1).map_or(0, largest_integer);
                self.fits(count.saturating_mul(ITEM_BYTES))?;
                self.fits(items_bytes(value))
            }
            "string" | "upper" | "lower" | "title" | "capitalize" | "trim" | "escape" | "e" => {
                self.measure(value).and_then(|bytes| self.fits(bytes))
            }
            _ => self.fits(items_bytes(value)),
        }
    }

    fn before_replace(self, value: &Value, from: &Value, to: &Value) -> Result<(), Error> {
        let (text, from, to_bytes) = (self.text(value)?, self.text(from)?, self.measure(to)?);
        let found = text.matches(&*from).count();
        let kept = text.len() - found * from.len();
        self.fits(found.saturating_mul(to_bytes).saturating_add(kept))
    }

    fn before_join(self, items: &Value, separator_bytes: usize) -> Result<(), Error> {
        let mut bytes = 0_usize;
        // What cannot be gone through is for the filter to refuse.
        for item in items.try_iter().into_iter().flatten() {
            bytes = bytes
                .saturating_add(self.measure(&item)?)
                .saturating_add(separator_bytes);
            self.fits(bytes)?;
        }
        Ok(())
    }

    /// No placeholder makes more than the largest argument and the largest width that is written out.
    fn before_format(self, format: &Value, args: &[Value]) -> Result<(), Error> {
        let format = self.text(format)?;
        let mut largest = 0;
        for arg in args {
            largest = largest.max(self.measure(arg)?);
        }
        let number = |digits: &str| {
            digits
                .parse()
                .unwrap_or(if digits.is_empty() { 0 } else { usize::MAX })
        };
        let width: usize = format
            .split(|c: char| !c.is_ascii_digit())
            .map(number)
            .max()
            .unwrap_or(0);
        // A width may also be an argument.
        let given = if format.contains('*') || format.contains(":{") {
            args.iter().map(largest_integer).max().unwrap_or(0)
        } else {
            0
        };
        let placeholders = format.matches(['%', '{']).count();
        let each = largest.saturating_add(width).saturating_add(given);
        self.fits(placeholders.saturating_mul(each).saturating_add(format.len()))
    }

    /// Puts the filters that may make text or lists under the budget, and adds those of the guard.
    pub(super) fn install(self, environment: &mut Environment<'static>) {
        environment.add_filter(CONCAT, move |state: &mut State, left: &Value, right: &Value| {
            let bytes = self.measure(left)?.saturating_add(self.measure(right)?);
            self.charge(state, bytes)?;
            let mut text = String::with_capacity(bytes);
            // Writing to a string cannot fail.
            let _ = write!(text, "{left}{right}");
            Ok::<Value, Error>(Value::from(text))
        });
        environment.add_filter(GUARDED, move |state: &mut State, value: Value| {
            match value.as_str() {
                Some(text) => self.charge(state, text.len())?,
                // Sums and products of lists refer to their operands.
                None => self.fits(items_bytes(&value))?,
            }
            Ok::<Value, Error>(value)
        });
        environment.add_filter(UNFOLDED, |value: Value| value);
        for (name, filter) in builtin_filters() {
            environment.add_filter(name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
                let args = args.into_values();
                self.before(name, &args)?;
                let value = filter.call(state, &args)?;
                self.charge_value(state, &value)?;
                Ok::<Value, Error>(value)
            });
        }
    }
}

fn builtin_filters() -> Vec<(&'static str, Value)> {
    macro_rules! table {
        ($($name:ident),*) => { vec![$((stringify!($name), Value::from_function(filters::$name))),*] };
    }
    let mut table = table![
        batch, chain, dictsort, escape, format, groupby, indent, items, join, lines, list, lower, map,
        pprint, reject, rejectattr, replace, reverse, select, selectattr, slice, sort, split, string, sum,
        title, trim, unique, upper, zip
    ];
    table.push(("e", Value::from_function(filters::escape)));
    table
}

/// What the items of a list weigh; nothing for what is no list or does not know its length.
fn items_bytes(value: &Value) -> usize {
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
            value.len().unwrap_or(0).saturating_mul(ITEM_BYTES)
        }
        _ => 0,
    }
}

/// The largest integer that a value is or, for keyword arguments, holds.
fn largest_integer(value: &Value) -> usize {
    if value.is_kwargs() {
        let keys = value.try_iter().into_iter().flatten();
        let values = keys.filter_map(|key| value.get_item(&key).ok());
        return values.map(|value| largest_integer(&value)).max().unwrap_or(0);
    }
    value.as_usize().unwrap_or(0)
}
