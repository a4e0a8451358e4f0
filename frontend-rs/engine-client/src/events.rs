//! What a spawned engine tells its parent on stdout, one JSON object per line.

use serde::Deserialize;

/// A line from the engine process.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EngineEvent {
    /// A start-up stage begins.
    Stage {
        stage: String,
        #[serde(default)]
        elapsed_s: f64,
    },
    /// How far a stage has come.
    Progress { stage: String, done: u64, total: u64 },
    /// The memory budget, as a table for people.
    Memory { table: serde_json::Value },
    /// Why the engine is about to exit.
    Error {
        kind: String,
        message: String,
        #[serde(default)]
        hint: Option<String>,
    },
    /// Of a later version.
    #[serde(other)]
    Unknown,
}

impl EngineEvent {
    /// Reads a line; `None` if it is something else, such as a stray print.
    pub fn parse(line: &str) -> Option<Self> {
        if line.starts_with('{') {
            serde_json::from_str(line).ok()
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_and_noise_is_not() {
        let stage = EngineEvent::parse(r#"{"event":"stage","stage":"load_model","elapsed_s":0.31}"#);
        assert_eq!(
            stage,
            Some(EngineEvent::Stage {
                stage: "load_model".into(),
                elapsed_s: 0.31
            })
        );
        let error = EngineEvent::parse(
            r#"{"event":"error","kind":"ModelError","message":"no config.json","extra":1}"#,
        );
        assert!(matches!(error, Some(EngineEvent::Error { hint: None, .. })));
        assert_eq!(
            EngineEvent::parse(r#"{"event":"weather"}"#),
            Some(EngineEvent::Unknown)
        );
        assert_eq!(EngineEvent::parse("Traceback (most recent call last):"), None);
        assert_eq!(EngineEvent::parse(r#"{"event":"stage"}"#), None);
    }
}
