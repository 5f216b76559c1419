"""The compiled kernels: they compute what PyTorch does, and where they can't be had PyTorch computes alone."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st

from readahead_serving.kernels import build
from readahead_serving.kernels.build import Level, supported_levels
from readahead_serving.kernels.opening import open_kernels
from readahead_serving.model.linear import choose_forms
from readahead_serving.model.operations import KernelOperations, TorchOperations
from tests.serving.kernel_levels import LEVELS, kernels_of

DTYPES = [torch.float32, torch.bfloat16]
DTYPE_NAMES = ["float32", "bfloat16"]


def assert_near(result: torch.Tensor, expected: torch.Tensor) -> None:
    exact = result.dtype is torch.float32
    assert result.dtype is expected.dtype
    torch.testing.assert_close(result, expected, rtol=1e-5 if exact else 0.016, atol=1e-5 if exact else 0.016)


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(LEVELS),
    st.sampled_from([*range(1, 40), 191, 192, 193, 400]),
    st.integers(1, 6),
    st.integers(1, 6),
    st.booleans(),
)
def test_linear_layers_give_any_number_of_rows_what_pytorch_gives(
    level: Level, rows: int, outputs: int, inputs: int, has_bias: bool
) -> None:
    torch.manual_seed(rows)
    weight = torch.randn(32 * outputs, 32 * inputs).bfloat16()
    bias = torch.randn(32 * outputs).bfloat16() if has_bias else None
    x = torch.randn(rows, 32 * inputs).bfloat16()
    layer = choose_forms(torch.bfloat16, "bf16", kernels_of(level)).layers(weight, bias)
    exact = F.linear(x.float(), weight.float(), None if bias is None else bias.float())
    torch.testing.assert_close(layer(x).float(), exact, rtol=0.01, atol=0.02)


@pytest.mark.parametrize("level", LEVELS)
def test_a_row_is_the_same_to_the_bit_whatever_rows_are_beside_it(level: Level) -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(96, 576).bfloat16(), torch.randn(40, 576).bfloat16()
    layer = choose_forms(torch.bfloat16, "bf16", kernels_of(level)).layers(weight, None)
    together = layer(x)
    for rows in (1, 2, 3, 5, 8, 12, 13, 16, 28, 39):
        assert torch.equal(layer(x[:rows]), together[:rows]), rows


@pytest.mark.parametrize("level", LEVELS)
def test_a_weight_that_does_not_fit_the_kernel_is_multiplied_by_pytorch(level: Level) -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(97, 40).bfloat16(), torch.randn(5, 40).bfloat16()
    layer = choose_forms(torch.bfloat16, "bf16", kernels_of(level)).layers(weight, None)
    torch.testing.assert_close(layer(x).float(), F.linear(x.float(), weight.float()), rtol=0.01, atol=0.1)


@pytest.mark.parametrize("dtype", DTYPES, ids=DTYPE_NAMES)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rows", [1, 7, 700])
def test_small_operations_equal_pytorchs(level: Level, rows: int, dtype: torch.dtype) -> None:
    torch.manual_seed(rows)
    ours, theirs = KernelOperations(kernels_of(level)), TorchOperations()
    hidden, delta, weight = torch.randn(rows, 96) * 30, torch.randn(rows, 96).to(dtype), torch.randn(96)
    mine, other = hidden.clone(), hidden.clone()
    for added in (None, delta):
        expected = theirs.add_and_normalize(other, added, weight, 1e-5, dtype)
        assert_near(ours.add_and_normalize(mine, added, weight, 1e-5, dtype), expected)
        assert torch.equal(mine, other)
    x = torch.randn(rows, 192).to(dtype) * 40  # sigmoids of both ends
    assert_near(ours.gate(x), theirs.gate(x.float()).to(dtype))
    heads = torch.randn(rows, 7, 32).to(dtype)  # the last two are values, which do not turn
    factors = torch.randn(rows, 1, 32).to(dtype), torch.randn(rows, 1, 32).to(dtype)
    turned, kept = theirs.rotate(heads[:, :5].float(), (factors[0].float(), factors[1].float())), heads[:, 5:].clone()
    assert_near(ours.rotate(heads[:, :5], factors), turned.to(dtype))
    assert torch.equal(heads[:, 5:], kept)


@pytest.mark.parametrize("level", LEVELS)
def test_any_number_of_threads_gives_the_same_result_every_time(level: Level) -> None:
    torch.manual_seed(0)
    kernels, before = kernels_of(level), torch.get_num_threads()
    packed, x = kernels.pack(torch.randn(384, 192).bfloat16()), torch.randn(200, 192).bfloat16()
    try:
        torch.set_num_threads(1)
        product, gated = kernels.multiply(x, packed, None), kernels.gate(kernels.multiply(x, packed, None))
        for threads in (2, 5, 3) * 100:
            torch.set_num_threads(threads)
            assert torch.equal(kernels.multiply(x, packed, None), product)
            assert torch.equal(kernels.gate(product), gated)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_no_number_stays_none(level: Level) -> None:
    operations = KernelOperations(kernels_of(level))
    hidden = torch.ones(1, 32)
    hidden[0, 3] = torch.nan
    out = operations.add_and_normalize(hidden, None, torch.ones(32), 1e-5, torch.bfloat16)
    assert torch.isnan(out).all()


def test_without_a_compiler_pytorch_computes_alone_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    opened = open_kernels("auto", tmp_path)
    assert opened.kernels is None
    assert opened.state == "off: there is no C++ compiler (g++) on this machine"


def test_a_processor_without_avx2_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "supported_levels", list)
    assert open_kernels("auto", tmp_path).state == "off: this processor lacks AVX2 and FMA on x86-64 Linux"
    assert open_kernels("avx512", tmp_path).state == "off: this processor lacks what kernels=avx512 means"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with freshly built kernels."""
    if not supported_levels():
        pytest.skip("this processor runs no kernels")
    folder = tmp_path_factory.mktemp("kernels")
    assert open_kernels("avx2", folder).state == "avx2"
    return folder


def test_kernels_are_built_once(built: Path) -> None:
    (library,) = built.iterdir()
    made = library.stat().st_mtime_ns
    assert open_kernels("avx2", built).state == "avx2"
    assert [path.stat().st_mtime_ns for path in built.iterdir()] == [made]


def test_a_library_that_was_cut_short_is_built_again(built: Path, tmp_path: Path) -> None:
    (library,) = built.iterdir()
    damaged = tmp_path / library.name
    damaged.write_bytes(library.read_bytes()[:5000])
    assert open_kernels("avx2", tmp_path).state == "avx2"
    assert damaged.read_bytes() == library.read_bytes()


def digest_name(name: str, data: bytes) -> str:
    return f"{name.rpartition('-')[0]}-{hashlib.sha256(data).hexdigest()[:16]}.so"


def test_odd_things_under_a_librarys_name_do_not_stop_the_engine(built: Path, tmp_path: Path) -> None:
    (library,) = built.iterdir()
    key = library.name.rpartition("-")[0]
    (tmp_path / f"{key}-0-folder.so").mkdir()
    (tmp_path / f"{key}-0-link.so").symlink_to(tmp_path / "nothing")
    cut = library.read_bytes()[:5000]
    (tmp_path / digest_name(library.name, cut)).write_bytes(cut)
    (tmp_path / digest_name(library.name, b"no library")).write_bytes(b"no library")
    assert open_kernels("avx2", tmp_path).state == "avx2"
    assert (tmp_path / library.name).read_bytes() == library.read_bytes(), "built anew beside them"
    assert open_kernels("avx2", tmp_path).state == "avx2"


def test_a_library_without_our_functions_is_told(built: Path, tmp_path: Path) -> None:
    (library,) = built.iterdir()
    source, foreign = tmp_path / "foreign.cpp", tmp_path / "foreign.so"
    source.write_text('extern "C" int attend() { return 1; }', encoding="utf-8")
    subprocess.run(["g++", "-shared", "-fPIC", str(source), "-o", str(foreign)], check=True)
    (tmp_path / digest_name(library.name, foreign.read_bytes())).write_bytes(foreign.read_bytes())
    opened = open_kernels("avx2", tmp_path)
    assert opened.kernels is None
    assert "can't be loaded" in opened.state and "attend_" in opened.state


def test_a_compiler_that_is_none_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not supported_levels():
        pytest.skip("this processor runs no kernels")
    compiler = tmp_path / "g++"
    compiler.write_bytes(b"\x00 no program")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    opened = open_kernels("auto", tmp_path)
    assert opened.kernels is None
    assert opened.state == f"off: {compiler} can't be run: Exec format error"


def test_kernels_that_compute_something_else_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not supported_levels():
        pytest.skip("this processor runs no kernels")
    sources = tmp_path / "sources"
    shutil.copytree(build._SOURCES, sources)
    panels = sources / "panels.hpp"
    text = panels.read_text(encoding="utf-8")
    wrong = text.replace("Vec{} : load(bias", "Vec{} : -load(bias")
    assert wrong != text
    panels.write_text(wrong, encoding="utf-8")
    monkeypatch.setattr(build, "_SOURCES", sources)
    opened = open_kernels("avx2", tmp_path / "libraries")
    assert opened.kernels is None
    assert opened.state == "off: the avx2 kernels do not compute what PyTorch does"


def test_a_source_that_does_not_compile_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not supported_levels():
        pytest.skip("this processor runs no kernels")
    (tmp_path / "broken.cpp").write_text("int x = ;", encoding="utf-8")
    monkeypatch.setattr(build, "_SOURCES", tmp_path)
    state = open_kernels("avx2", tmp_path / "libraries").state
    assert state.startswith("off: ")
    assert "expected primary-expression" in state
    assert list((tmp_path / "libraries").iterdir()) == []
