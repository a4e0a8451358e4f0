"""`python -m vllm_rs ...` is `vllm-rs ...`."""

import sys

from vllm_rs.entrypoints.binary import run

run(sys.argv[1:])
