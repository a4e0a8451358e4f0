//! `Tokenizer`.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use serde_json::{Map, Value};
use vllm_rs_text as text;

use crate::errors::{self, ChatTemplateError};

#[pyclass(module = "vllm_rs._rust", frozen)]
pub(crate) struct Tokenizer {
    pub(crate) inner: text::Tokenizer,
    /// The model's own template, compiled when first asked for.
    own_template: OnceLock<Result<text::ChatTemplate, Arc<text::ChatTemplateError>>>,
}

#[pymethods]
impl Tokenizer {
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let inner = py
            .detach(|| text::Tokenizer::open(&path))
            .map_err(errors::tokenizer)?;
        Ok(Self {
            inner,
            own_template: OnceLock::new(),
        })
    }

    #[getter]
    fn vocab_size(&self) -> usize {
        self.inner.vocab_size()
    }

    #[getter]
    fn bos_token_id(&self) -> Option<u32> {
        self.inner.bos_token_id()
    }

    #[getter]
    fn eos_token_ids(&self) -> Vec<u32> {
        self.inner.eos_token_ids().to_vec()
    }

    #[pyo3(signature = (text, add_special_tokens=true))]
    fn encode(&self, py: Python<'_>, text: &str, add_special_tokens: bool) -> PyResult<Vec<u32>> {
        py.detach(|| self.inner.encode(text, add_special_tokens))
            .map_err(errors::tokenizer)
    }

    #[pyo3(signature = (texts, add_special_tokens=true))]
    fn encode_batch(
        &self,
        py: Python<'_>,
        texts: Vec<String>,
        add_special_tokens: bool,
    ) -> PyResult<Vec<Vec<u32>>> {
        py.detach(|| self.inner.encode_batch(texts, add_special_tokens))
            .map_err(errors::tokenizer)
    }

    #[pyo3(signature = (token_ids, skip_special_tokens=true))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn decode(&self, py: Python<'_>, token_ids: Vec<u32>, skip_special_tokens: bool) -> PyResult<String> {
        py.detach(|| self.inner.decode(&token_ids, skip_special_tokens))
            .map_err(errors::tokenizer)
    }

    fn token_text(&self, token_id: u32) -> String {
        self.inner.token_text(token_id).token
    }

    fn id_to_token(&self, token_id: u32) -> Option<String> {
        self.inner.id_to_token(token_id)
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    #[pyo3(signature = (
        messages_json, *, tools_json=None, chat_template=None, add_generation_prompt=true,
        continue_final_message=false, kwargs_json=None
    ))]
    #[expect(
        clippy::too_many_arguments,
        reason = "the keyword arguments of transformers' method"
    )]
    fn apply_chat_template(
        &self,
        py: Python<'_>,
        messages_json: &str,
        tools_json: Option<&str>,
        chat_template: Option<&str>,
        add_generation_prompt: bool,
        continue_final_message: bool,
        kwargs_json: Option<&str>,
    ) -> PyResult<String> {
        let messages: Value = parse("messages_json", messages_json)?;
        let tools: Option<Value> = tools_json.map(|text| parse("tools_json", text)).transpose()?;
        let kwargs: Option<Map<String, Value>> =
            kwargs_json.map(|text| parse("kwargs_json", text)).transpose()?;
        let request = text::ChatRequest {
            messages: &messages,
            tools: tools.as_ref(),
            documents: None,
            add_generation_prompt,
            continue_final_message,
            kwargs: kwargs.as_ref(),
        };
        py.detach(|| {
            self.template(chat_template)
                .and_then(|template| Ok(template.render(&request)?))
        })
        .map_err(errors::chat_template)
    }
}

impl Tokenizer {
    /// The template given with the call, or the model's own.
    fn template(&self, given: Option<&str>) -> Result<text::ChatTemplate, Arc<text::ChatTemplateError>> {
        let compile = |given: Option<&str>| {
            text::ChatTemplate::for_tokenizer(&self.inner, given, text::TemplateLimits::default())
        };
        match given {
            Some(given) => Ok(compile(Some(&text::resolve_template_argument(given)?))?),
            None => self.own_template.get_or_init(|| Ok(compile(None)?)).clone(),
        }
    }
}

fn parse<T: serde::de::DeserializeOwned>(argument: &str, text: &str) -> PyResult<T> {
    serde_json::from_str(text)
        .map_err(|error| ChatTemplateError::new_err(format!("{argument} is not valid JSON: {error}")))
}
