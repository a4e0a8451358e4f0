//! API keys: every route but the health probes is closed without one.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use subtle::{Choice, ConstantTimeEq};
use vllm_rs_flags::Secret;

use crate::error::ApiError;
use crate::request::body::refuse;
use crate::state::AppState;

/// What load balancers and orchestrators must reach without a key.
const OPEN_PATHS: [&str; 4] = ["/health", "/live", "/ready", "/ping"];

fn given_key(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

/// Whether one of the keys was given. Every key is compared in full, so time tells nothing about them.
fn has_key(headers: &HeaderMap, keys: &[Secret]) -> bool {
    let given = given_key(headers).unwrap_or_default().as_bytes();
    let found = keys.iter().fold(Choice::from(0), |found, key| {
        found | key.expose().as_bytes().ct_eq(given)
    });
    found.into()
}

/// Refuses requests without a valid key, when keys are set.
pub async fn require_key(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let open = OPEN_PATHS.contains(&request.uri().path()) || request.method() == Method::OPTIONS;
    if open || state.api_keys().is_empty() || has_key(request.headers(), state.api_keys()) {
        return next.run(request).await;
    }
    refuse(ApiError::Unauthorized, request.into_body()).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_a_whole_key_opens() {
        let keys = [Secret::new("alpha"), Secret::new("beta")];
        let check = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
            has_key(&headers, &keys)
        };
        assert!(check("Bearer alpha") && check("bearer beta"));
        for wrong in ["Bearer alph", "Bearer alphaa", "alpha", "Basic alpha", "Bearer "] {
            assert!(!check(wrong), "{wrong}");
        }
        assert!(!has_key(&HeaderMap::new(), &keys));
    }
}
