//! The router: routes, their order of layers, and answers for everything that is no route.

use std::any::Any;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::auth;
use crate::error::ApiError;
use crate::observe::{X_REQUEST_ID, observe};
use crate::request::body::refuse;
use crate::routes::{chat, completions, detokenize, health, metrics, models, tokenize};
use crate::state::AppState;

fn cors(allowed_origins: &[String]) -> Option<CorsLayer> {
    if allowed_origins.is_empty() {
        return None;
    }
    let origin = if allowed_origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(
            allowed_origins
                .iter()
                .filter_map(|origin| HeaderValue::from_str(origin).ok()),
        )
    };
    let exposed: [HeaderName; 2] = [X_REQUEST_ID, header::RETRY_AFTER];
    Some(
        CorsLayer::new()
            .allow_origin(origin)
            .allow_methods([Method::GET, Method::POST, Method::OPTIONS])
            // Not `*`: browsers do not count `Authorization` under it.
            .allow_headers(AllowHeaders::mirror_request())
            .expose_headers(exposed),
    )
}

fn shown_path(request: &Request) -> String {
    request.uri().path().chars().take(200).collect()
}

async fn no_route(request: Request) -> Response {
    let (method, path) = (request.method().to_string(), shown_path(&request));
    refuse(ApiError::RouteNotFound { method, path }, request.into_body()).await
}

async fn wrong_method(request: Request) -> Response {
    let (method, path) = (request.method().to_string(), shown_path(&request));
    refuse(ApiError::MethodNotAllowed { method, path }, request.into_body()).await
}

fn panicked(_: Box<dyn Any + Send + 'static>) -> Response {
    // The panic hook has logged what and where; the client learns only that it was not its fault.
    ApiError::internal("the server failed while handling this request").into_response()
}

/// Builds the router over the state.
pub fn router(state: AppState, allowed_origins: &[String]) -> Router {
    let router = Router::new()
        .route("/v1/chat/completions", post(chat::chat_completions))
        .route("/v1/completions", post(completions::completions))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*name}", get(models::retrieve))
        .route("/tokenize", post(tokenize::tokenize))
        .route("/detokenize", post(detokenize::detokenize))
        .route("/live", get(health::live))
        .route("/ping", get(health::live).post(health::live))
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .route("/version", get(health::version))
        .route("/load", get(health::load))
        .route("/metrics", get(metrics::metrics))
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(state.clone(), auth::require_key))
        .layer(from_fn_with_state(state.clone(), observe));
    let router = match cors(allowed_origins) {
        Some(layer) => router.layer(layer),
        None => router,
    };
    router.with_state(state)
}
