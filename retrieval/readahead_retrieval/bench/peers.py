"""The pipelines that LangChain's and Haystack's own guides begin with, for comparison; the extra `bench-peers`."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class PeerMissing(Exception):
    """Its packages are not installed."""


def package(name: str) -> Any:
    """A peer's module.

    Raises:
        PeerMissing: It isn't installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise PeerMissing(f"pip install 'readahead[bench-peers]': {error}") from error


def langchain(files: list[Path], model: Path) -> dict[str, Any]:
    """PyPDFLoader, RecursiveCharacterTextSplitter (1000, 200), HuggingFaceEmbeddings, FAISS."""
    loaders = package("langchain_community.document_loaders")
    splitters = package("langchain_text_splitters")
    stores = package("langchain_community.vectorstores")
    embeddings = package("langchain_huggingface").HuggingFaceEmbeddings(
        model_name=str(model), model_kwargs={"device": "cpu"}
    )
    embeddings.embed_query("warm")
    begun = time.perf_counter()
    pages = [page for path in files for page in loaders.PyPDFLoader(str(path)).load()]
    read_s = time.perf_counter() - begun
    chunks = splitters.RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200).split_documents(pages)
    stores.FAISS.from_documents(chunks, embeddings)
    return {"seconds": time.perf_counter() - begun, "reading_s": read_s, "pages": len(pages), "chunks": len(chunks)}


def haystack(files: list[Path], model: Path) -> dict[str, Any]:
    """PyPDFToDocument, DocumentCleaner, DocumentSplitter (200 words), a sentence-transformers embedder, in memory."""
    converters = package("haystack.components.converters")
    preprocessors = package("haystack.components.preprocessors")
    embedders = package("haystack_integrations.components.embedders.sentence_transformers")
    stores = package("haystack.document_stores.in_memory")
    embedder = embedders.SentenceTransformersDocumentEmbedder(model=str(model), progress_bar=False)
    embedder.warm_up()
    begun = time.perf_counter()
    documents = converters.PyPDFToDocument().run(sources=list(files))["documents"]
    read_s = time.perf_counter() - begun
    cleaned = preprocessors.DocumentCleaner().run(documents=documents)["documents"]
    splitter = preprocessors.DocumentSplitter(split_by="word", split_length=200, split_overlap=0)
    splitter.warm_up()
    chunks = splitter.run(documents=cleaned)["documents"]
    store = stores.InMemoryDocumentStore()
    store.write_documents(embedder.run(documents=chunks)["documents"])
    return {"seconds": time.perf_counter() - begun, "reading_s": read_s, "chunks": len(chunks)}


PEERS: dict[str, Callable[[list[Path], Path], dict[str, Any]]] = {"langchain": langchain, "haystack": haystack}
