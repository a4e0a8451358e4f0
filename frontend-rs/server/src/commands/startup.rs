//! Showing how a start-up comes along: a bar on a terminal, lines elsewhere.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};
use vllm_rs_engine_client::EngineHealth;

use crate::state::AppState;

/// Shows stages to people and to `/health`.
pub struct StartupDisplay {
    state: AppState,
    bar: Option<ProgressBar>,
    stage: String,
}

impl StartupDisplay {
    pub fn new(state: AppState) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            if let Ok(style) = ProgressStyle::with_template("{msg:18} {wide_bar} {pos}/{len}") {
                bar.set_style(style);
            }
            bar
        });
        Self {
            state,
            bar,
            stage: String::new(),
        }
    }

    /// Takes note of the engine's state.
    pub fn show(&mut self, health: &EngineHealth) {
        self.state.set_stage(health.to_string());
        let EngineHealth::Starting { stage, done, total } = health else {
            return;
        };
        if *stage != self.stage {
            stage.clone_into(&mut self.stage);
            tracing::info!(stage, "engine start-up");
        }
        if let Some(bar) = &self.bar {
            bar.set_message(stage.clone());
            bar.set_length((*total).max(1));
            bar.set_position(*done);
        }
    }
}

impl Drop for StartupDisplay {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
