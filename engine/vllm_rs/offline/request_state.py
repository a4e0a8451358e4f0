"""From the engine's token outputs to the caller's RequestOutput: one state per request and completion."""

import numpy as np

from vllm_rs import wire
from vllm_rs._rust import OutputProcessor, Tokenizer
from vllm_rs.offline.outputs import CompletionOutput, Logprob, PositionLogprobs, RequestOutput
from vllm_rs.offline.sampling_params import RequestOutputKind, SamplingParams


class ChoiceState:
    """One completion: its text so far, and the engine request that feeds it."""

    def __init__(
        self, index: int, tokenizer: Tokenizer, prompt_token_ids: list[int], params: SamplingParams
    ) -> None:
        self.completion = CompletionOutput(index=index)
        self._tokenizer = tokenizer
        self._params = params
        self._processor: OutputProcessor | None = None
        if params.detokenize:
            self._processor = OutputProcessor(
                tokenizer,
                prompt_token_ids,
                params.stop_strings,
                params.include_stop_str_in_output,
                params.skip_special_tokens,
                params.spaces_between_special_tokens,
                params.min_tokens,
            )
        if params.logprobs is not None:
            self.completion.logprobs = []
            self.completion.cumulative_logprob = 0.0

    def apply(self, output: wire.EngineCoreOutput) -> bool:
        """Take one engine output in; True means a stop string ended the text while the engine still runs."""
        completion = self.completion
        completion.token_ids.extend(output.new_token_ids)
        if output.new_logprobs is not None:
            self._add_logprobs(output.new_logprobs)
        matched = self._detokenize(output)
        if matched is not None:
            completion.finish_reason, completion.stop_reason = "stop", matched
            return output.finish_reason is None
        if output.finish_reason is not None:
            completion.finish_reason = wire.FinishReason(output.finish_reason).name.lower()
            completion.stop_reason = output.stop_reason
        return False

    def _detokenize(self, output: wire.EngineCoreOutput) -> str | None:
        if self._processor is None:
            return None
        shown = output.new_token_ids
        ended_by_token = output.finish_reason == wire.FinishReason.STOP
        if ended_by_token and not self._params.include_stop_str_in_output:
            shown = shown[:-1]
        text, matched = self._processor.push(shown)
        if matched is None and output.finish_reason is not None:
            text += self._processor.finish()
        self.completion.text += text
        return matched

    def _add_logprobs(self, lists: wire.LogprobsLists) -> None:
        completion = self.completion
        assert completion.logprobs is not None, "the engine sends logprobs only to those who asked"
        rows = zip(lists.token_ids.tolist(), lists.logprobs.tolist(), lists.ranks.tolist(), strict=True)
        for token_ids, logprobs, rank in rows:
            completion.logprobs.append(position_logprobs(self._tokenizer, token_ids, logprobs, rank))
            completion.cumulative_logprob = (completion.cumulative_logprob or 0.0) + logprobs[0]


def position_logprobs(
    tokenizer: Tokenizer, token_ids: list[int], logprobs: list[float], rank: int
) -> PositionLogprobs:
    """Candidates of one position; column 0 is the token itself, then the top k in order of rank."""
    position = {token_ids[0]: Logprob(logprobs[0], rank, tokenizer.token_text(token_ids[0]))}
    for place, (token_id, logprob) in enumerate(zip(token_ids[1:], logprobs[1:], strict=True), start=1):
        position.setdefault(token_id, Logprob(logprob, place, tokenizer.token_text(token_id)))
    return position


class RequestState:
    """A request and its n completions; the engine sees each completion as a request of its own."""

    def __init__(
        self,
        request_id: str,
        prompt: str | None,
        prompt_token_ids: list[int],
        params: SamplingParams,
        tokenizer: Tokenizer,
    ) -> None:
        self.params = params
        self._tokenizer = tokenizer
        ids = [request_id] if params.n == 1 else [f"{index}_{request_id}" for index in range(params.n)]
        self.choices = {
            child_id: ChoiceState(index, tokenizer, prompt_token_ids, params)
            for index, child_id in enumerate(ids)
        }
        self._result = RequestOutput(
            request_id, prompt, prompt_token_ids, [choice.completion for choice in self.choices.values()]
        )
        self._sent_chars = [0] * params.n
        self._sent_tokens = [0] * params.n

    @property
    def unfinished_ids(self) -> list[str]:
        """Engine request ids that still produce tokens."""
        return [child for child, choice in self.choices.items() if not choice.completion.finished()]

    def apply(self, output: wire.EngineCoreOutput) -> bool:
        """Take one engine output in; True: abort its engine request, a stop string matched."""
        choice = self.choices[output.request_id]
        if choice.completion.finished():
            return False
        if output.prefill_stats is not None:
            self._result.num_cached_tokens = output.prefill_stats.num_cached_tokens
        if output.new_prompt_logprobs_tensors is not None and self._result.prompt_logprobs is None:
            self._result.prompt_logprobs = self._prompt_logprobs(output.new_prompt_logprobs_tensors)
        abort = choice.apply(output)
        self._result.finished = not self.unfinished_ids
        return abort

    def abort(self) -> RequestOutput | None:
        """End every completion that still runs; returns the last output."""
        for choice in self.choices.values():
            if not choice.completion.finished():
                choice.completion.finish_reason = "abort"
        self._result.finished = True
        return self.output()

    def _prompt_logprobs(self, tensors: wire.LogprobsTensors) -> list[PositionLogprobs | None]:
        columns = [np.asarray(tensor.array).tolist() for tensor in tensors[:3]]
        scored: list[PositionLogprobs | None] = [None]
        scored += [position_logprobs(self._tokenizer, *row) for row in zip(*columns, strict=True)]
        return scored

    def output(self) -> RequestOutput | None:
        """What the caller sees now, in the kind the request asked for; None while that is nothing."""
        result = self._result
        kind = self.params.output_kind
        if kind == RequestOutputKind.FINAL_ONLY and not result.finished:
            return None
        outputs = [
            self._visible(completion, delta=kind == RequestOutputKind.DELTA) for completion in result.outputs
        ]
        return RequestOutput(
            result.request_id,
            result.prompt,
            result.prompt_token_ids,
            outputs,
            result.finished,
            result.prompt_logprobs,
            result.num_cached_tokens,
        )

    def _visible(self, completion: CompletionOutput, *, delta: bool) -> CompletionOutput:
        first_char = self._sent_chars[completion.index] if delta else 0
        first_token = self._sent_tokens[completion.index] if delta else 0
        if delta:
            self._sent_chars[completion.index] = len(completion.text)
            self._sent_tokens[completion.index] = len(completion.token_ids)
        return CompletionOutput(
            completion.index,
            completion.text[first_char:],
            completion.token_ids[first_token:],
            completion.cumulative_logprob,
            None if completion.logprobs is None else completion.logprobs[first_token:],
            completion.finish_reason,
            completion.stop_reason,
        )
