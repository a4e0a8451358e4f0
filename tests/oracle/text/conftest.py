"""Lets the tests here import the generators that made the fixtures."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
