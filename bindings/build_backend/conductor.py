"""PEP 517 backend: CMake builds csrc/, cargo the server binary, maturin the rest, into one wheel."""

import io
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from typing import Any

import maturin
from build_id import write_build_info

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "engine" / "vllm_rs"
SCRIPTS = ROOT / "build" / "wheel.data" / "scripts"
SCRIPTS.mkdir(parents=True, exist_ok=True)  # maturin's metadata hook refuses a missing data directory

Settings = dict[str, Any] | None


def _check_platform() -> None:
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        raise SystemExit(f"vllm-rs builds on Linux x86-64 only, this is {sys.platform} {platform.machine()}")
    if sys.version_info < (3, 11):  # noqa: UP036 (pip checks this itself, other front ends may not)
        raise SystemExit(f"vllm-rs needs Python 3.11 or newer, this is {platform.python_version()}")


def _check_tools() -> None:
    """One line per missing tool, before anything is built."""
    if shutil.which("cargo") is None:
        raise SystemExit("cargo not found: install Rust from https://rustup.rs, then open a new shell")
    compiler = os.environ.get("CXX", "c++").split()[0]
    if shutil.which(compiler) is None and shutil.which("g++") is None:
        raise SystemExit("no C++ compiler found: install g++ 12 or newer (Debian: apt-get install g++)")
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not header.exists():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise SystemExit(
            f"{header} not found: install the Python headers (Debian: apt-get install python{version}-dev)"
        )


def _run(*command: str | Path, env: dict[str, str] | None = None) -> None:
    print("+", *command, flush=True)
    done = subprocess.run(
        [str(part) for part in command], cwd=ROOT, env={**os.environ, **(env or {})}, check=False
    )
    if done.returncode:
        raise SystemExit(f"{command[0]} failed with status {done.returncode}; its output is above")


def _build_csrc() -> None:
    """The C++ kernels into engine/vllm_rs/_cpu*.so, with the tools of this environment."""
    import pybind11

    tree = ROOT / "build" / "csrc"
    # Isolated builds give ninja and pybind11 new paths each time; the CMake cache remembers the dead ones.
    _run(
        *("cmake", "-S", "csrc", "-B", tree, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"),
        f"-DVLLM_RS_WERROR={os.environ.get('VLLM_RS_WERROR', 'OFF')}",
        f"-DCMAKE_MAKE_PROGRAM={shutil.which('ninja')}",
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-DPython3_EXECUTABLE={sys.executable}",
        f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
    )
    _run("cmake", "--build", tree)
    for stale in PACKAGE.glob("_cpu*.so"):
        stale.unlink()
    _run("cmake", "--install", tree, "--prefix", ROOT / "engine", "--strip")
    if not list(PACKAGE.glob("_cpu*.so")):
        raise SystemExit("csrc built, but its install step left no _cpu module in engine/vllm_rs")


def _profile() -> str:
    """The cargo profile: VLLM_RS_CARGO_PROFILE, release unless `make dev` says otherwise."""
    return os.environ.get("VLLM_RS_CARGO_PROFILE", "release")


def _build_server() -> None:
    """The binary into the wheel's scripts."""
    profile = _profile()
    _run(
        *("cargo", "build", "--profile", profile, "--locked", "--package", "vllm-rs", "--bin", "vllm-rs"),
        env={"PYO3_PYTHON": sys.executable},
    )
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    staged = SCRIPTS.parent / "vllm-rs.new"
    shutil.copy2(target / ("debug" if profile == "dev" else profile) / "vllm-rs", staged)
    staged.replace(SCRIPTS / "vllm-rs")


def _prepare(editable: bool) -> None:
    _check_platform()
    _check_tools()
    os.environ["VLLM_RS_BUILD_ID"] = write_build_info(ROOT, PACKAGE / "_build_info.json", editable)
    os.environ.setdefault("MATURIN_PEP517_ARGS", f"--profile {_profile()}")
    _build_csrc()
    _build_server()


def build_wheel(directory: str, settings: Settings = None, metadata: str | None = None) -> str:
    """One wheel: the binary, `_rust`, `_cpu` and the Python package."""
    _prepare(editable=False)
    return str(maturin.build_wheel(directory, settings, metadata))


def build_editable(directory: str, settings: Settings = None, metadata: str | None = None) -> str:
    """As `build_wheel`, with the Python package used from the working tree."""
    _prepare(editable=True)
    return str(maturin.build_editable(directory, settings, metadata))


def build_sdist(directory: str, settings: Settings = None) -> str:
    """Put back the root manifest: maturin drops the workspace members that bindings/ does not need."""
    name = str(maturin.build_sdist(directory, settings))
    path = Path(directory) / name
    items = []
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member)
            data = file.read() if file else None
            if member.name.count("/") == 1 and member.name.endswith("/Cargo.toml"):
                data = (ROOT / "Cargo.toml").read_bytes()
                member.size = len(data)
            items.append((member, data))
    with tarfile.open(path, "w:gz") as archive:
        for member, data in items:
            archive.addfile(member, io.BytesIO(data) if data is not None else None)
    return name


def prepare_metadata_for_build_wheel(directory: str, settings: Settings = None) -> str:
    """Metadata comes from Cargo.toml and pyproject.toml through maturin."""
    _check_platform()
    _check_tools()
    return str(maturin.prepare_metadata_for_build_wheel(directory, settings))


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def get_requires_for_build_wheel(settings: Settings = None) -> list[str]:
    """Maturin's own hook would download a Rust toolchain when cargo is missing; ours says what to install."""
    _check_platform()
    _check_tools()
    return []


get_requires_for_build_editable = get_requires_for_build_wheel


def get_requires_for_build_sdist(settings: Settings = None) -> list[str]:
    """An sdist needs cargo for its metadata, and nothing else."""
    return get_requires_for_build_wheel(settings)
