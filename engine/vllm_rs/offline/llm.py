"""LLM: generate and chat over many prompts at once, in this process or with the engine in its own."""

import dataclasses
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias

from vllm_rs._rust import Tokenizer
from vllm_rs.errors import RequestError
from vllm_rs.offline.llm_engine import EnginePlace, LLMEngine, Prompt, resolve_config
from vllm_rs.offline.outputs import RequestOutput
from vllm_rs.offline.progress import ProgressBar
from vllm_rs.offline.sampling_params import RequestOutputKind, SamplingParams

Message: TypeAlias = dict[str, Any]
"""{"role": ..., "content": ...}, as in the chat completions API."""


class LLM:
    """A model loaded for offline use. Keywords are vLLM's; those this engine lacks are refused by name.

    `engine="process"` runs the engine core in a process of its own, as the server does.
    """

    def __init__(self, model: str = "smollm2", *, engine: EnginePlace = "inproc", **keywords: Any) -> None:
        self.llm_engine = LLMEngine(resolve_config({"model": model, **keywords}), engine)
        self._ids = itertools.count()

    def get_tokenizer(self) -> Tokenizer:
        """The tokenizer in use."""
        return self.llm_engine.tokenizer

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
        priority: Sequence[int] | None = None,
    ) -> list[RequestOutput]:
        """Complete every prompt; results come in the order of the prompts.

        One SamplingParams serves all prompts, or there is one for each. `use_tqdm` shows a progress bar on a
        terminal.
        """
        batch = as_prompts(prompts)
        params = per_prompt("sampling_params", sampling_params, len(batch))
        priorities = per_prompt("priority", priority, len(batch), default=0)
        return self._run(batch, params, priorities, show_progress=use_tqdm)

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
        chat_template: str | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        tools: Sequence[dict[str, Any]] | None = None,
        chat_template_kwargs: dict[str, Any] | None = None,
    ) -> list[RequestOutput]:
        """Answer one conversation, or each of a list of conversations."""
        conversations: Any = [messages] if messages and isinstance(messages[0], dict) else messages
        prompts: list[Prompt] = []
        for conversation in conversations:
            text = self.get_tokenizer().apply_chat_template(
                json.dumps(list(conversation), ensure_ascii=False),
                tools_json=None if tools is None else json.dumps(list(tools), ensure_ascii=False),
                chat_template=chat_template,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=continue_final_message,
                kwargs_json=None if chat_template_kwargs is None else json.dumps(chat_template_kwargs),
            )
            prompts.append(self.get_tokenizer().encode(text, add_special_tokens=False))
        params = per_prompt("sampling_params", sampling_params, len(prompts))
        return self._run(prompts, params, [0] * len(prompts), show_progress=use_tqdm)

    def _run(
        self,
        prompts: list[Prompt],
        params: list[SamplingParams],
        priorities: list[int],
        *,
        show_progress: bool,
    ) -> list[RequestOutput]:
        engine = self.llm_engine
        scheduler = engine.config.scheduler
        most_at_once = min(scheduler.max_num_queued_reqs, 4 * scheduler.max_num_seqs)
        order = sorted(range(len(prompts)), key=priorities.__getitem__)
        ids = {index: str(next(self._ids)) for index in order}
        done: dict[str, RequestOutput] = {}
        submitted: list[str] = []
        bar = ProgressBar(len(prompts), enabled=show_progress)
        try:
            while len(done) < len(prompts):
                for index in order[len(submitted) : len(done) + most_at_once]:
                    final = dataclasses.replace(params[index], output_kind=RequestOutputKind.FINAL_ONLY)
                    engine.add_request(ids[index], prompts[index], final, priority=priorities[index])
                    submitted.append(ids[index])
                for output in engine.step():
                    done[output.request_id] = output
                    produced = sum(len(choice.token_ids) for choice in output.outputs)
                    bar.finished(len(output.prompt_token_ids), produced)
        except BaseException:
            for request_id in submitted:
                engine.abort_request(request_id)
            raise
        finally:
            bar.close()
        return [done[ids[index]] for index in range(len(prompts))]

    def shutdown(self) -> None:
        """Stop the engine and free its memory."""
        self.llm_engine.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()


def as_prompts(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """A list of prompts from one prompt (text or token ids) or several."""
    if isinstance(prompts, str | Mapping) or (prompts and isinstance(prompts[0], int)):
        return [prompts]  # type: ignore[list-item]  # the check above tells one prompt from a list of them
    return list(prompts)  # type: ignore[arg-type]  # as above


def per_prompt(name: str, given: Any, count: int, default: Any = None) -> list[Any]:
    """One value per prompt: broadcast a single one, check the length of a list."""
    if given is None:
        return [SamplingParams() if default is None else default] * count
    if isinstance(given, Iterable):
        values = list(given)
        if len(values) != count:
            raise RequestError(
                name, f"one value, or one per prompt ({count} prompts)", f"{len(values)} values"
            )
        return values
    return [given] * count
