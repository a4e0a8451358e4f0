"""Lets the tests here import their numpy references."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
