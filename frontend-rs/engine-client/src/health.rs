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
    /// Connected, but silent for too long or not to be understood. A good message makes it ready again; if
    /// none comes, an engine that we own is killed and started again.
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

    /// Whether requests are taken. The one place that says so: they are also taken while an engine is
    /// unhealthy but connected, when probes already answer 503. Its next message may well be a good one,
    /// so clients wait rather than fail; if it is not, the end of the engine ends their streams too.
    pub fn admits_requests(&self) -> bool {
        matches!(self, Self::Ready | Self::Unhealthy { .. })
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
