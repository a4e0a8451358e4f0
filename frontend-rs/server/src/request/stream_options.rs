//! `stream` and `stream_options`, which chat and completions share.

use super::fields::Fields;
use crate::error::ApiError;

/// How the answer is delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamOptions {
    pub stream: bool,
    /// One last chunk with the token counts and no choices.
    pub include_usage: bool,
    /// The counts so far in every chunk.
    pub continuous_usage: bool,
}

impl StreamOptions {
    /// `force_usage` is `--enable-force-include-usage`.
    pub fn parse(body: &mut Fields, force_usage: bool) -> Result<Self, ApiError> {
        let stream = body.boolean("stream")?.unwrap_or(false);
        let Some(mut options) = body.object("stream_options")? else {
            return Ok(Self {
                stream,
                include_usage: stream && force_usage,
                continuous_usage: false,
            });
        };
        if !stream {
            return Err(ApiError::invalid(
                "stream_options",
                "stream_options needs stream = true",
            ));
        }
        let include_usage = options.boolean("include_usage")?.unwrap_or(true) || force_usage;
        let continuous_usage = options.boolean("continuous_usage_stats")?.unwrap_or(false) && include_usage;
        Ok(Self {
            stream,
            include_usage,
            continuous_usage,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[expect(
        clippy::needless_pass_by_value,
        reason = "a literal reads better without a reference"
    )]
    fn parse(body: serde_json::Value) -> Result<StreamOptions, ApiError> {
        StreamOptions::parse(&mut Fields::from_body(&body)?, false)
    }

    #[test]
    fn options_need_a_stream() {
        let error = parse(json!({"stream_options": {"include_usage": true}})).expect_err("no stream");
        assert_eq!(error.param(), Some("stream_options"));
        let options =
            parse(json!({"stream": true, "stream_options": {"include_usage": true}})).expect("valid");
        assert!(options.include_usage && !options.continuous_usage);
    }
}
