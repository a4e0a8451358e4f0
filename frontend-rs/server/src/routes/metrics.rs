//! `GET /metrics`.

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use crate::metrics::process;
use crate::metrics::render::{CONTENT_TYPE, Exposition};
use crate::state::AppState;

pub async fn metrics(State(state): State<AppState>) -> impl IntoResponse {
    let mut exposition = Exposition::default();
    if let Some(serving) = state.serving() {
        serving.metrics.render(serving.engine.snapshot(), &mut exposition);
        exposition.gauge(
            "vllm_rs:requests_running",
            "Sequences started and not ended, as this server counts them.",
            "",
            serving.running() as f64,
        );
        exposition.gauge(
            "vllm_rs:requests_awaiting_first_token",
            "Sequences without a first token: what the queue limits bound.",
            "",
            serving.admission.waiting_requests() as f64,
        );
    }
    state.http().render(&mut exposition);
    process::render(&mut exposition, state.started_unix_s());
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], exposition.into_text())
}
