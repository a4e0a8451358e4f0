"""Files stay short enough to be read in one go."""

import statistics
import subprocess
from pathlib import Path

HARD_LIMIT_LINES = 700
MEDIAN_LIMIT_LINES = 200
SUFFIXES = {".rs", ".py", ".pyi", ".cpp", ".hpp"}
GENERATED = {"frontend-rs/flags/src/generated.rs", "engine/vllm_rs/config_sections.py"}


def source_lengths(root: Path) -> dict[str, int]:
    """Tracked source files and their lines, without the generated ones."""
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True
    )
    names = listing.stdout.split() if listing.returncode == 0 else []
    names = names or [str(path.relative_to(root)) for path in root.rglob("*") if "target" not in path.parts]
    return {
        name: len((root / name).read_text(encoding="utf-8").splitlines())
        for name in names
        if Path(name).suffix in SUFFIXES and name not in GENERATED and (root / name).exists()
    }


def test_no_source_file_is_longer_than_the_limit(repo_root: Path):
    lengths = source_lengths(repo_root)
    assert lengths
    assert not {name: lines for name, lines in lengths.items() if lines > HARD_LIMIT_LINES}


def test_the_median_source_file_fits_a_few_screens(repo_root: Path):
    assert statistics.median(source_lengths(repo_root).values()) < MEDIAN_LIMIT_LINES
