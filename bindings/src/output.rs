//! `OutputProcessor`.

use pyo3::prelude::*;
use vllm_rs_text as text;

use crate::tokenizer::Tokenizer;

#[pyclass(module = "vllm_rs._rust")]
pub(crate) struct OutputProcessor {
    inner: text::OutputProcessor,
}

#[pymethods]
impl OutputProcessor {
    #[new]
    #[pyo3(signature = (
        tokenizer, prompt_token_ids, stop, include_stop_str_in_output=false, skip_special_tokens=true,
        spaces_between_special_tokens=true, min_tokens=0
    ))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn new(
        tokenizer: PyRef<'_, Tokenizer>,
        prompt_token_ids: Vec<u32>,
        stop: Vec<String>,
        include_stop_str_in_output: bool,
        skip_special_tokens: bool,
        spaces_between_special_tokens: bool,
        min_tokens: usize,
    ) -> Self {
        let options = text::OutputOptions {
            stop,
            include_stop_str_in_output,
            skip_special_tokens,
            spaces_between_special_tokens,
            min_tokens,
        };
        Self {
            inner: text::OutputProcessor::new(&tokenizer.inner, &prompt_token_ids, options),
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn push(&mut self, token_ids: Vec<u32>) -> (String, Option<String>) {
        let delta = self.inner.push(&token_ids);
        let stop = delta.stop.and_then(|index| self.inner.stop_string(index));
        (delta.text, stop.map(str::to_owned))
    }

    fn finish(&mut self) -> String {
        self.inner.finish().text
    }

    #[getter]
    fn text(&self) -> &str {
        self.inner.text()
    }
}
