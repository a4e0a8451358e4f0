//! What happens around every request: its id, its metrics, its access-log line.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;

use crate::state::AppState;

pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const X_IGNORED_PARAMS: HeaderName = HeaderName::from_static("x-ignored-params");
const MAX_ID_CHARS: usize = 128;
/// Names listed in `X-Ignored-Params`; more are summed up.
const MAX_IGNORED_NAMES: usize = 32;
const MAX_IGNORED_NAME_CHARS: usize = 64;

/// The id of an HTTP request: the client's, when it is harmless, else a new one.
#[derive(Debug, Clone)]
pub struct RequestId(pub String);

/// Whether an id may go into logs and engine messages as it is.
pub fn is_plain_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    !id.is_empty() && id.len() <= MAX_ID_CHARS && id.bytes().all(plain)
}

fn request_id(request: &Request) -> String {
    let given = request
        .headers()
        .get(&X_REQUEST_ID)
        .and_then(|value| value.to_str().ok());
    match given {
        Some(id) if is_plain_id(id) => id.to_owned(),
        _ => uuid::Uuid::new_v4().simple().to_string(),
    }
}

/// What the access log and the metrics show for a client that went away before it had an answer.
const CLIENT_CLOSED_REQUEST: u16 = 499;

/// A request that is being answered. Dropped before that, its client has gone away.
struct Unanswered {
    state: AppState,
    path: Option<MatchedPath>,
    method: Method,
    id: String,
    started: Instant,
    status: u16,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        let handler = self.path.as_ref().map_or("none", MatchedPath::as_str);
        let elapsed = self.started.elapsed();
        self.state
            .http()
            .record(handler, self.method.as_str(), self.status, elapsed);
        tracing::debug!(
            target: "vllm_rs::access", request_id = %self.id, method = %self.method, handler, status = self.status,
            elapsed_ms = elapsed.as_secs_f64() * 1e3
        );
    }
}

/// Gives the request its id, and records how it was answered.
pub async fn observe(
    State(state): State<AppState>,
    path: Option<MatchedPath>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = request_id(&request);
    let mut record = Unanswered {
        state,
        path,
        method: request.method().clone(),
        id: id.clone(),
        started: Instant::now(),
        status: CLIENT_CLOSED_REQUEST,
    };
    request.extensions_mut().insert(RequestId(id.clone()));
    let mut response = next.run(request).await;
    record.status = response.status().as_u16();
    drop(record);
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(X_REQUEST_ID, value);
    }
    response
}

/// Tells the client which fields of its request had no effect.
pub fn report_ignored(response: &mut Response, ignored: &[String]) {
    if ignored.is_empty() {
        return;
    }
    let plain = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.');
    let mut names: Vec<String> = ignored
        .iter()
        .take(MAX_IGNORED_NAMES)
        .map(|name| {
            name.chars()
                .filter(plain)
                .take(MAX_IGNORED_NAME_CHARS)
                .collect::<String>()
        })
        .filter(|name| !name.is_empty())
        .collect();
    if ignored.len() > names.len() {
        names.push(format!("+{}", ignored.len() - names.len()));
    }
    if let Ok(value) = HeaderValue::from_str(&names.join(", ")) {
        response.headers_mut().insert(X_IGNORED_PARAMS, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse;

    #[test]
    fn ids_that_could_confuse_a_log_are_replaced() {
        assert!(is_plain_id("req-1.a_b:c"));
        for bad in ["", "a b", "a\nb", "é", &"x".repeat(129)] {
            assert!(!is_plain_id(bad));
        }
    }

    #[test]
    fn ignored_names_are_listed_and_bounded() {
        let mut response = "".into_response();
        let names: Vec<String> = (0..40).map(|index| format!("f{index}\r\n")).collect();
        report_ignored(&mut response, &names);
        let header = response.headers()[&X_IGNORED_PARAMS].to_str().expect("ascii");
        assert!(header.starts_with("f0, f1, "));
        assert!(header.ends_with("f31, +8"));
    }
}
