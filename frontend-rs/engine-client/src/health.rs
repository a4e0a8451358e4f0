//! What can be said of an engine at any moment.

use std::fmt;

/// The state of an engine, as its client knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineHealth {
    /// On its way up; `total` is 0 where a stage has no progress to count.
    Starting {
        stage: String,
        done: u64,
        total: u64,
    },
    Ready,
    /// Connected, but something is wrong; a good message makes it ready again.
    Unhealthy {
        reason: String,
    },
    /// It died; attempt `attempt` to bring it back is under way.
    Restarting {
        attempt: u32,
        reason: String,
    },
    /// It died and stays dead.
    Dead {
        reason: String,
    },
}

impl EngineHealth {
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready)
    }

    pub(crate) fn starting(stage: &str) -> Self {
        Self::Starting {
            stage: stage.to_owned(),
            done: 0,
            total: 0,
        }
    }
}

impl fmt::Display for EngineHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting { stage, total: 0, .. } => write!(f, "starting ({stage})"),
            Self::Starting { stage, done, total } => write!(f, "starting ({stage}, {done} of {total})"),
            Self::Ready => f.write_str("ready"),
            Self::Unhealthy { reason } => write!(f, "unhealthy: {reason}"),
            Self::Restarting { attempt, reason } => write!(f, "restarting (attempt {attempt}): {reason}"),
            Self::Dead { reason } => write!(f, "dead: {reason}"),
        }
    }
}
