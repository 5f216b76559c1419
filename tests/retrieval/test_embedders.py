"""The contract of `Embedder`, held against both implementations, and what the one over HTTP does with a bad server."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from readahead_retrieval.embedders.http import HttpEmbedder, Patience
from readahead_retrieval.embedders.local import LocalEmbedder
from readahead_retrieval.embedding import Embedder
from readahead_retrieval.errors import EmbedderRefused, EmbedderUnavailable

QUICK = Patience(timeout_s=20, attempts=3, backoff_s=0.001)


@asynccontextmanager
async def serving(
    answer: Callable[[Request], Any], window: int | None = 256, revision: Callable[[], str | None] = lambda: None
) -> AsyncIterator[str]:
    """A server with these embeddings on a free port; gives its base URL."""
    app = FastAPI()
    app.post("/v1/embeddings")(answer)

    @app.get("/v1/models")
    async def models() -> dict[str, object]:
        entry = {"id": "m", "object": "model", "max_model_len": window, "revision": revision()}
        return {"object": "list", "data": [entry]}

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    task = asyncio.create_task(server.serve())
    async with asyncio.timeout(20):
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        await task


def vectors(rows: list[np.ndarray[Any, np.dtype[np.float32]]], encoding: str = "base64") -> dict[str, object]:
    def encoded(row: np.ndarray[Any, np.dtype[np.float32]]) -> object:
        return base64.b64encode(row.astype("<f4").tobytes()).decode() if encoding == "base64" else row.tolist()

    data = [{"object": "embedding", "index": i, "embedding": encoded(row)} for i, row in enumerate(rows)]
    return {"object": "list", "data": data[::-1]}  # a client must not rely on the order


@pytest.fixture(params=["local", "http base64", "http floats"])
async def embedder(request: pytest.FixtureRequest, minilm: LocalEmbedder) -> AsyncIterator[Embedder]:
    if request.param == "local":
        yield minilm
        return

    async def embeddings(http: Request) -> dict[str, object]:
        body = await http.json()
        rows = await minilm.embed(body["input"], "passage")
        return vectors(list(rows), body["encoding_format"] if request.param == "http base64" else "float")

    async with serving(embeddings) as url:
        connected = await HttpEmbedder.connect(url, "m", patience=QUICK)
        yield connected
        await connected.close()


async def test_rows_are_unit_vectors_in_the_order_of_the_texts(embedder: Embedder) -> None:
    texts = ["a cat sat on the mat", "quarterly revenue grew", "a kitten sits on a rug"]
    rows = await embedder.embed(texts, "passage")
    assert rows.shape == (3, embedder.dimension) == (3, 384)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert rows[0] @ rows[2] > rows[0] @ rows[1]


async def test_a_text_has_the_same_row_alone_and_in_company(embedder: Embedder) -> None:
    texts = [f"text number {n} " + "with more words " * (n % 7) for n in range(70)]
    together = await embedder.embed(texts, "passage")
    alone = await embedder.embed([texts[66]], "passage")
    assert together[66] @ alone[0] == pytest.approx(1.0, abs=1e-4)


async def test_the_window_and_an_identity_are_known(embedder: Embedder) -> None:
    assert embedder.max_tokens == 256
    assert embedder.model_id
    assert (await embedder.embed([], "passage")).shape == (0, 384)


def one_row(_: Request) -> dict[str, object]:
    return vectors([np.ones(4, dtype=np.float32)])


async def test_other_weights_under_the_same_name_are_refused_and_have_another_identity() -> None:
    weights = "aaaa"

    def embeddings(_: Request) -> dict[str, object]:
        return one_row(_) | {"revision": weights}

    async with serving(embeddings, revision=lambda: weights) as url:
        embedder = await HttpEmbedder.connect(url, "m", patience=QUICK)
        assert embedder.model_id == "m@aaaa"
        assert (await embedder.embed(["x"], "query")).shape == (1, 4)
        weights = "bbbb"
        with pytest.raises(EmbedderRefused, match="bbbb"):
            await embedder.embed(["x"], "query")
        await embedder.close()
        again = await HttpEmbedder.connect(url, "m", patience=QUICK)
        assert again.model_id == "m@bbbb"
        await again.close()


async def test_a_server_that_tells_no_window_is_given_a_short_one() -> None:
    async with serving(one_row, window=None) as url:
        embedder = await HttpEmbedder.connect(url, "m", patience=QUICK)
        assert (embedder.max_tokens, embedder.dimension) == (256, 4)
        await embedder.close()


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_server_is_asked_again_after_the_time_it_names(status: int) -> None:
    asked = 0

    async def busy_twice(request: Request) -> Any:
        nonlocal asked
        asked += 1
        if asked <= 2:
            return JSONResponse({"error": {"message": "busy"}}, status, {"Retry-After": "0"})
        return one_row(request)

    async with serving(busy_twice) as url:
        # A back-off of its own that no test would wait for: the server's word counts.
        embedder = HttpEmbedder(url, "m", dimension=4, patience=Patience(20, attempts=3, backoff_s=1000))
        rows = await embedder.embed(["x"], "query")
        await embedder.close()
    assert asked == 3
    assert rows[0] == pytest.approx(0.5)


async def test_a_server_that_stays_busy_is_unavailable_after_so_many_tries() -> None:
    asked = 0

    async def busy(_: Request) -> Any:
        nonlocal asked
        asked += 1
        return JSONResponse({"error": {"message": "busy"}}, 503)

    async with serving(busy) as url:
        embedder = HttpEmbedder(url, "m", dimension=4, patience=QUICK)
        with pytest.raises(EmbedderUnavailable):
            await embedder.embed(["x"], "query")
        await embedder.close()
    assert asked == QUICK.attempts


async def test_no_server_at_all_is_unavailable() -> None:
    with pytest.raises(EmbedderUnavailable):
        await HttpEmbedder.connect("http://127.0.0.1:9/v1", "m", patience=QUICK)


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: JSONResponse({"error": {"message": "no such model"}}, 404),
        lambda _: JSONResponse({"error": {"message": "wrong key"}}, 401),
        lambda _: Response("<html>hello</html>"),
        lambda _: {"data": []},
        lambda _: {"data": [{"index": 0, "embedding": "not base64!"}]},
        lambda _: vectors([np.ones(5, dtype=np.float32)]),
    ],
    ids=["unknown model", "wrong key", "not json", "no rows", "broken base64", "another dimension"],
)
async def test_an_answer_that_asking_again_would_not_mend_is_a_refusal(answer: Callable[[Request], Any]) -> None:
    async def embeddings(request: Request) -> Any:
        return answer(request)

    async with serving(embeddings) as url:
        embedder = HttpEmbedder(url, "m", dimension=4, patience=QUICK)
        with pytest.raises(EmbedderRefused):
            await embedder.embed(["x"], "query")
        await embedder.close()


async def test_the_key_is_sent_as_a_bearer_token() -> None:
    seen: list[str | None] = []

    async def embeddings(request: Request) -> Any:
        seen.append(request.headers.get("authorization"))
        return one_row(request)

    async with serving(embeddings) as url:
        embedder = HttpEmbedder(url, "m", "sk-secret", dimension=4, patience=QUICK)
        await embedder.embed(["x"], "query")
        await embedder.close()
    assert seen == ["Bearer sk-secret"]
