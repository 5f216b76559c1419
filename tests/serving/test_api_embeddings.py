"""Embeddings through OpenAI's SDK, from a real sentence-transformers model."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from openai import AsyncOpenAI

from readahead_serving.api.models import Models
from readahead_serving.embedding_process import EmbeddingProcess
from readahead_serving.embeddings import EmbeddingModel
from readahead_serving.errors import EngineUnavailable, GenerationFailed, ModelLoadError
from tests.serving import unruly_worker
from tests.serving.generation import until
from tests.serving.llm_server import LlmServer

MODEL = "all-minilm-l6-v2"
TEXTS = ["A cat sleeps on the sofa.", "다음 회의는 월요일입니다.", "word " * 100]


@pytest.fixture
async def client(llm_server: LlmServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=llm_server.base_url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
async def model(minilm_path: Path) -> AsyncIterator[EmbeddingModel]:
    model = await EmbeddingModel.start(MODEL, minilm_path, threads=1, dtype="float32", stall_s=60)
    yield model
    await model.close()


async def vectors(client: AsyncOpenAI, texts: list[str]) -> np.ndarray:
    done = await client.embeddings.create(model=MODEL, input=texts)
    return np.array([one.embedding for one in done.data], dtype=np.float32)


async def test_base64_and_floats_are_the_same_numbers(client: AsyncOpenAI) -> None:
    default = await client.embeddings.create(model=MODEL, input=TEXTS)
    floats = await client.embeddings.create(model=MODEL, input=TEXTS, encoding_format="float")
    assert [one.embedding for one in default.data] == [one.embedding for one in floats.data]
    assert [one.index for one in default.data] == [0, 1, 2]
    assert default.usage.prompt_tokens == floats.usage.prompt_tokens > 100


async def test_vectors_are_those_of_sentence_transformers(client: AsyncOpenAI, minilm_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    reference = SentenceTransformer(str(minilm_path), device="cpu", local_files_only=True)
    expected = reference.encode(TEXTS, normalize_embeddings=True)
    assert np.allclose(await vectors(client, TEXTS), expected, atol=1e-4)


async def test_a_vector_does_not_depend_on_its_neighbours(client: AsyncOpenAI) -> None:
    together = await vectors(client, TEXTS)
    alone = np.concatenate([await vectors(client, [text]) for text in TEXTS])
    assert np.allclose(together, alone, atol=1e-5)


async def test_token_ids_embed_as_their_text(client: AsyncOpenAI, minilm_path: Path) -> None:
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(minilm_path / "tokenizer.json"))
    tokenizer.no_padding()
    ids = tokenizer.encode(TEXTS[0], add_special_tokens=False).ids
    one = await client.embeddings.create(model=MODEL, input=ids)
    many = await client.embeddings.create(model=MODEL, input=[ids, ids])
    text = await client.embeddings.create(model=MODEL, input=TEXTS[0])
    assert np.allclose(one.data[0].embedding, text.data[0].embedding, atol=1e-5)
    assert len(many.data) == 2
    assert one.usage == text.usage


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"input": "word " * 300}, "input", "context_length_exceeded"),
        ({"input": ""}, "input", "invalid_value"),
        ({"input": []}, "input", "invalid_value"),
        ({"input": [10**6]}, "input", "invalid_value"),
        ({"input": ["x"] * 2049}, "input", "invalid_value"),
        ({"input": "x", "dimensions": 64}, "dimensions", "unsupported_value"),
        ({"input": "x", "encoding_format": "int8"}, "encoding_format", "invalid_value"),
        ({"input": "x", "model": "smollm2-135m-instruct"}, "model", "model_not_found"),
    ],
)
async def test_what_cannot_be_embedded_is_refused_by_name(
    fields: dict[str, object], param: str, code: str, llm_server: LlmServer
) -> None:
    async with httpx.AsyncClient(base_url=llm_server.address) as http:
        response = await http.post("/v1/embeddings", json={"model": MODEL} | fields)
    assert response.status_code == (404 if param == "model" else 400)
    error = response.json()["error"]
    assert (error["param"], error["code"]) == (param, code)


async def test_the_models_own_dimension_is_accepted(client: AsyncOpenAI) -> None:
    done = await client.embeddings.create(model=MODEL, input="x", dimensions=384)
    assert len(done.data[0].embedding) == 384


async def test_one_question_overtakes_a_thousand_chunks(model: EmbeddingModel) -> None:
    chunk, question = [model.tokenize([text])[0] for text in ("word " * 200, "What?")]
    many = asyncio.create_task(model.embed([chunk] * 200))
    first = asyncio.create_task(model.embed([question]))
    done, _ = await asyncio.wait({many, first}, return_when=asyncio.FIRST_COMPLETED)
    assert done == {first}
    many.cancel()
    await asyncio.gather(many, return_exceptions=True)


async def test_texts_of_a_caller_that_left_are_not_computed(model: EmbeddingModel) -> None:
    chunk = model.tokenize(["word " * 200])[0]
    left = asyncio.create_task(model.embed([chunk] * 2000))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    # 2000 chunks take a minute; the batch under way and this one take well under the timeout
    rows = await asyncio.wait_for(model.embed([chunk]), 30)
    assert len(rows[0]) == 4 * model.dimension


async def test_a_killed_process_fails_its_batch_and_is_replaced(model: EmbeddingModel) -> None:
    chunk = model.tokenize(["word " * 200])[0]
    before = model.pid
    assert before is not None
    caught = asyncio.create_task(model.embed([chunk] * 500))
    await asyncio.sleep(0)
    os.kill(before, signal.SIGKILL)
    with pytest.raises(EngineUnavailable):
        await caught
    for _ in range(600):
        if model.is_ready() and model.pid != before:
            break
        await asyncio.sleep(0.1)
    assert len(await model.embed([chunk])) == 1


@pytest.fixture
async def unruly(minilm_path: Path) -> AsyncIterator[EmbeddingModel]:
    """Over a process that misbehaves as the first token says, in which a batch may take two seconds."""
    import tokenizers

    process = EmbeddingProcess(
        minilm_path, threads=1, dtype="float32", stall_s=2.0, module="tests.serving.unruly_worker"
    )
    await process.loaded()
    model = EmbeddingModel("unruly", process, tokenizers.Tokenizer.from_file(str(minilm_path / "tokenizer.json")))
    yield model
    await model.close()


@pytest.mark.parametrize("manner", [unruly_worker.HANG, unruly_worker.NONSENSE, unruly_worker.TOO_SHORT])
async def test_a_process_that_hangs_or_talks_nonsense_is_replaced(unruly: EmbeddingModel, manner: int) -> None:
    models = Models(embedding=unruly)
    await until(unruly.is_ready, "the worker is ready")
    before = unruly.pid
    caught = asyncio.create_task(unruly.embed([[manner]]))
    await until(lambda: not unruly.is_ready(), "the worker is not ready")
    assert "unruly" in (models.unready_reason() or "")
    with pytest.raises(EngineUnavailable, match="restarted") as raised:
        await caught
    assert raised.value.retry_after_s >= 1
    await until(unruly.is_ready, "the worker is ready")
    assert unruly.pid != before
    assert models.unready_reason() is None
    assert len(await unruly.embed([[unruly_worker.WELL]])) == 1


async def test_the_batches_after_one_that_cannot_be_sent_are_computed(unruly: EmbeddingModel) -> None:
    await until(unruly.is_ready, "the worker is ready")
    with pytest.raises(GenerationFailed):
        await unruly.embed([[2**70]])  # more than MessagePack can write
    assert len(await unruly.embed([[unruly_worker.WELL]])) == 1


async def test_a_folder_that_holds_no_model_is_a_load_error(tmp_path: Path, minilm_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"tokenizer\.json"):
        await EmbeddingModel.start("none", tmp_path, threads=1, dtype="float32", stall_s=60)
    (tmp_path / "tokenizer.json").write_bytes((minilm_path / "tokenizer.json").read_bytes())
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelLoadError, match="can't be loaded"):
        await EmbeddingModel.start("none", tmp_path, threads=1, dtype="float32", stall_s=60)
