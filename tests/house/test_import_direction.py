"""Who may import whom. Dependencies point down only; the two tables below are the rule."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

LEAVES = {"errors", "wire", "wire_codec", "wire_validate", "config", "config_sections", "env", "build_info"}

# Part of the Python package → what it may import from the rest of the package. `a.b` allows that module only.
PYTHON_MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "wire": {"errors"},
    "wire_codec": {"errors", "wire"},
    "wire_validate": {"errors", "wire"},
    "config_sections": set(),
    "config": {"errors", "config_sections"},
    "env": {"config"},
    "build_info": set(),
    "models": {"errors", "config", "wire", "_rust"},
    "kv": {"errors", "config", "env", "models.kv_spec"},
    "sched": {"errors", "config", "env", "wire", "kv"},
    "exec": {*LEAVES, "models", "sched.plan", "kv.host_memory", "_cpu", "_rust"},
    "core": {*LEAVES, "models.kv_spec", "kv", "sched", "exec", "_rust"},
    "offline": {*LEAVES, "core", "exec", "kv", "sched", "_rust"},
    "entrypoints": set(),
    "__init__": {"build_info", "config", "offline"},
    "__main__": {"entrypoints"},
}

# Only these files may import torch: the readable reference back end.
MAY_IMPORT_TORCH = ("exec/torch_", "exec/ops/torch_")
NEVER_IMPORTED = {
    "transformers",
    "pickle",
    "cloudpickle",
    "dill",
    "marshal",
    "shelve",
    "tokenizers",
    "safetensors",
}

# Rust crate → our crates it may depend on.
CRATE_MAY_DEPEND_ON: dict[str, set[str]] = {
    "vllm-rs-wire": set(),
    "vllm-rs-flags": set(),
    "vllm-rs-model-files": set(),
    "vllm-rs-model-hub": {"vllm-rs-model-files"},
    "vllm-rs-text": {"vllm-rs-model-files"},
    "vllm-rs-engine-client": {"vllm-rs-wire"},
    "vllm-rs": {
        "vllm-rs-wire",
        "vllm-rs-flags",
        "vllm-rs-model-files",
        "vllm-rs-model-hub",
        "vllm-rs-text",
        "vllm-rs-engine-client",
    },
    "vllm-rs-python": {"vllm-rs-wire", "vllm-rs-model-files", "vllm-rs-model-hub", "vllm-rs-text"},
}


def imported_modules(path: Path) -> Iterator[str]:
    """Absolute names of every module a file imports, at top level or inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            yield from (f"{module}.{alias.name}" for alias in node.names)


def part_of(path: Path, package: Path) -> str:
    """The part of the package a file belongs to: its folder, or its own name at the top."""
    parts = path.relative_to(package).parts
    return parts[0] if len(parts) > 1 else path.stem


def allowed(target: str, rules: set[str]) -> bool:
    """Whether `a.b.c` is covered by a rule `a`, `a.b` or `a.b.c`."""
    pieces = target.split(".")
    return any(".".join(pieces[:count]) in rules for count in range(1, len(pieces) + 1))


def test_python_imports_point_down(repo_root: Path):
    package = repo_root / "engine" / "vllm_rs"
    wrong = []
    for path in sorted(package.rglob("*.py")):
        part = part_of(path, package)
        assert part in PYTHON_MAY_IMPORT, f"{part} has no row in the table"
        for module in imported_modules(path):
            root, _, target = module.partition(".")
            if root != "vllm_rs" or target.split(".")[0] == part:
                continue
            if not allowed(target, PYTHON_MAY_IMPORT[part]):
                wrong.append(f"{path.relative_to(package)} imports {module}")
    assert not wrong


def test_only_the_reference_back_end_imports_torch(repo_root: Path):
    package = repo_root / "engine" / "vllm_rs"
    wrong = []
    for path in sorted(package.rglob("*.py")):
        name = str(path.relative_to(package))
        roots = {module.partition(".")[0] for module in imported_modules(path)}
        if "torch" in roots and not name.startswith(MAY_IMPORT_TORCH):
            wrong.append(f"{name} imports torch")
        wrong += [f"{name} imports {module}" for module in sorted(roots & NEVER_IMPORTED)]
    assert not wrong


def test_crates_depend_downwards(repo_root: Path):
    manifests = [*(repo_root / "frontend-rs").glob("*/Cargo.toml"), repo_root / "bindings" / "Cargo.toml"]
    seen = {}
    for path in manifests:
        manifest = tomllib.loads(path.read_text(encoding="utf-8"))
        dependencies = manifest.get("dependencies", {}) | manifest.get("build-dependencies", {})
        seen[manifest["package"]["name"]] = {name for name in dependencies if name.startswith("vllm-rs")}
    assert seen.keys() == CRATE_MAY_DEPEND_ON.keys()
    assert not {
        crate: extra for crate, found in seen.items() if (extra := found - CRATE_MAY_DEPEND_ON[crate])
    }
