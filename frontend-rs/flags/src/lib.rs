//! The flags of `vllm-rs serve`, from the one table `flags.toml`.
//!
//! A command line goes through [`prepare`] (vLLM's spellings, flags refused by name), then clap ([`ServeArgs`]), then
//! [`ServeArgs::resolve`] into a plain [`Config`], and [`Config::validate`] checks the rules that need several fields.
//! The engine is told [`Config::engine_json`].

mod error;
#[expect(
    clippy::doc_markdown,
    reason = "help texts are shown in a terminal, not rendered"
)]
mod generated;
mod parse;
mod prepare;
mod secret;
mod validate;

pub use error::FlagError;
pub use generated::*;
pub use parse::Auto;
pub use prepare::prepare;
pub use secret::Secret;

/// A flag of vLLM that we know and do not have.
#[derive(Clone, Copy, Debug)]
pub struct RefusedFlag {
    /// Long name without dashes.
    pub name: &'static str,
    /// Values that ask for what happens anyway; they are taken and ignored.
    pub accepts: &'static [&'static str],
    /// Whether the flag takes no value.
    pub switch: bool,
    /// What to use instead.
    pub instead: &'static str,
}

/// An environment variable of vLLM that sets one of our flags in another unit.
#[derive(Clone, Copy, Debug)]
pub struct ScaledEnv {
    /// The variable.
    pub name: &'static str,
    /// The flag it sets.
    pub flag: &'static str,
    /// The flag's own twin, which wins.
    pub own_env: &'static str,
    /// How many of the flag's units one of the variable's is.
    pub factor: u64,
    /// The variable's unit, for messages.
    pub unit: &'static str,
}

impl Config {
    /// What the engine process is told: every section but the frontend's, as one JSON object.
    pub fn engine_json(&self) -> serde_json::Value {
        let mut sections = match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(sections)) => sections,
            // Sections are structs of strings, numbers and lists: they always serialise to an object.
            _ => serde_json::Map::new(),
        };
        sections.retain(|name, _| ENGINE_SECTIONS.contains(&name.as_str()));
        serde_json::Value::Object(sections)
    }
}

#[cfg(test)]
mod tests;
