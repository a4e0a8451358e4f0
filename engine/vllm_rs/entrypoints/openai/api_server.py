"""`python -m vllm_rs.entrypoints.openai.api_server --model M ...` is `vllm-rs serve --model M ...`."""

import sys

from vllm_rs.entrypoints.binary import run


def main() -> None:
    """Replace this process by the server."""
    run(["serve", *sys.argv[1:]])


if __name__ == "__main__":
    main()
