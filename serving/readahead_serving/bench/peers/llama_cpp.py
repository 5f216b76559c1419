"""llama.cpp's own server, built from the sources that `llama-cpp-python` is published with."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from readahead_serving.bench.hardware import cpu_flags, describe_hardware
from readahead_serving.bench.own_server import Launch, free_port
from readahead_serving.bench.peers.workshop import Workshop
from readahead_serving.errors import PeerAbsent
from readahead_serving.model.metadata import load_config

_VERSION = "0.3.36"
_SOURCE = f"llama_cpp_python-{_VERSION}"
_SWITCHES = {
    "GGML_SSE42": "sse4_2",
    "GGML_AVX": "avx",
    "GGML_AVX2": "avx2",
    "GGML_FMA": "fma",
    "GGML_F16C": "f16c",
    "GGML_BMI2": "bmi2",
    "GGML_AVX512": "avx512f",
    "GGML_AVX512_VBMI": "avx512vbmi",
    "GGML_AVX512_VNNI": "avx512_vnni",
    "GGML_AVX512_BF16": "avx512_bf16",
}
"""Build switches by the processor's flag. Its AMX code faults on virtual machines and is left out, as is "native"."""
_FIXED = {
    "CMAKE_BUILD_TYPE": "Release",
    "BUILD_SHARED_LIBS": "OFF",
    "GGML_NATIVE": "OFF",
    "LLAMA_BUILD_EXAMPLES": "OFF",
    "LLAMA_BUILD_TESTS": "OFF",
    "LLAMA_BUILD_UI": "OFF",
    "LLAMA_USE_PREBUILT_UI": "OFF",
    "LLAMA_OPENSSL": "OFF",
}
_SLOTS = 16
"""Requests at a time, each with a whole window of its own."""


class LlamaCpp:
    """A `Peer`: the GGUF file as it is, weights repacked, continuous batching over 16 slots, prompt cache on."""

    name = "llama.cpp"

    async def prepare(self, workshop: Workshop, model: Path) -> Launch:
        switches = [f"-D{name}={value}" for name, value in build_switches(cpu_flags()).items()]

        async def build() -> None:
            workshop.tell(f"building llama.cpp ({_SOURCE}), which takes minutes")
            cmake = str(workshop.commands / "cmake")
            ninja = workshop.commands / "ninja"
            source = await _unpack(workshop)
            await workshop.run(
                cmake, "-S", str(source), "-B", "build", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", *switches
            )
            await workshop.run(cmake, "--build", "build", "--target", "llama-server", "-j", _cores())

        await workshop.make_environment(["cmake>=3.28,<5", "ninja>=1.11,<2"])
        await workshop.make_once("build", [_SOURCE, *switches], build)
        port = free_port()
        window = load_config(model).max_positions
        return Launch(
            command=(
                *(str(workshop.folder / "build" / "bin" / "llama-server"), "--model", str(model), "--offline"),
                *("--host", "127.0.0.1", "--port", str(port), "--threads", _cores(), "--jinja", "--no-webui"),
                *("--parallel", str(_SLOTS), "--ctx-size", str(_SLOTS * window), "--no-kv-unified"),
            ),
            address=f"http://127.0.0.1:{port}",
            ready_path="/health",
            log=workshop.folder / "server.log",
        )


def build_switches(flags: Collection[str]) -> dict[str, str]:
    """What of the processor the build may use.

    Raises:
        PeerAbsent: The processor tells no flags.
    """
    if not flags:
        raise PeerAbsent("The processor's flags can't be read here, so no fair build can be chosen.")
    return _FIXED | {name: "ON" if flag in flags else "OFF" for name, flag in _SWITCHES.items()}


async def _unpack(workshop: Workshop) -> Path:
    await workshop.pip("download", "--no-deps", "--no-binary", ":all:", f"llama-cpp-python=={_VERSION}")
    await workshop.run("tar", "-xzf", f"{_SOURCE}.tar.gz")
    return workshop.folder / _SOURCE / "vendor" / "llama.cpp"


def _cores() -> str:
    return str(describe_hardware()["cores"])
