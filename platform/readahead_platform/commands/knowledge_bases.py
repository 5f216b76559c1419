"""`readahead kb …`: knowledge bases and their documents."""

from __future__ import annotations

import shlex
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from readahead_platform.commands.output import AsJson, counted, examples, print_json, print_table
from readahead_platform.errors import CommandFailed

if TYPE_CHECKING:
    from readahead_platform.client import GatewayClient

app = typer.Typer(help="Knowledge bases and their documents.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Knowledge base.")]


@app.command(epilog=examples("kb create policy"))
def create(name: Name, as_json: AsJson = False) -> None:
    """Make an empty knowledge base."""
    if not name.strip():  # the API makes one up, for programs that name nothing
        raise CommandFailed("The name is empty: give the knowledge base one.", "invalid_name")
    with _client() as client:
        if _find(client, name) is not None:  # the API allows it, but here names are all there is to tell them apart
            raise CommandFailed(f"A knowledge base {name!r} exists already.", "already_exists")
        store = client.post("/v1/vector_stores", {"name": name})
    if as_json:
        print_json({"knowledge_base": _summary(store)})
    else:
        typer.echo(f"Made {store['name']}. Add documents with `readahead kb add {shlex.quote(store['name'])} FILE…`.")


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List knowledge bases."""
    with _client() as client:
        stores = client.entries("/v1/vector_stores", limit=1000, order="asc")
    if as_json:
        print_json({"knowledge_bases": [_summary(store) for store in stores]})
        return
    rows = [(s["name"], s["file_counts"]["total"], s["file_counts"]["completed"], s["id"]) for s in stores]
    print_table(("NAME", "DOCUMENTS", "SEARCHABLE", "ID"), rows)


@app.command(epilog=examples("kb delete policy"))
def delete(name: Name, as_json: AsJson = False) -> None:
    """Delete a knowledge base with its documents; uploaded files stay."""
    with _client() as client:
        gone = client.delete(f"/v1/vector_stores/{id_of(client, name)}")
    if as_json:
        print_json({"deleted": gone["id"]})
    else:
        typer.echo(f"Deleted {name}.")


@app.command(epilog=examples("kb add policy travel.pdf expenses.pdf", "kb add policy *.pdf --json"))
def add(
    name: Name,
    files: Annotated[list[Path], typer.Argument(help="PDF files.")],
    password: Annotated[str | None, typer.Option(help="Opens password-protected files.")] = None,
    keep_old: Annotated[bool, typer.Option(help="Keep older files of the same names beside these.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add documents and wait until they are searchable. A file that fails stops no other; exit code 1 then."""
    from readahead_platform.commands.add_documents import add_documents

    with _client() as client:
        documents = add_documents(client, id_of(client, name), files, password, replace=not keep_old, as_json=as_json)
    failed = [document for document in documents if document["state"] != "searchable"]
    if as_json:
        print_json({"documents": documents})
    else:
        _show_added(documents, name)
    if failed:
        raise typer.Exit(1)


@app.command(epilog=examples("kb remove policy travel.pdf"))
def remove(
    name: Name,
    document: Annotated[str, typer.Argument(help="The document's file name, or its id.")],
    as_json: AsJson = False,
) -> None:
    """Take a document out of a knowledge base; the uploaded file stays."""
    with _client() as client:
        base = f"/v1/vector_stores/{id_of(client, name)}/files"
        held = _document(client.entries(base, limit=10_000), document, name)
        client.delete(f"{base}/{held['id']}")
    if as_json:
        print_json({"removed": {"document": held["document"], "document_id": held["document_id"]}})
    else:
        typer.echo(f"Removed {held['document']} from {name}.")


@app.command(epilog=examples('kb search policy "price per kilometre" --top-k 3'))
def search(
    name: Name,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    top_k: Annotated[int, typer.Option(min=1, max=50, help="Passages to show.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Find passages without asking a model."""
    with _client() as client:
        body = {"query": query, "max_num_results": top_k}
        found = client.found(f"/v1/vector_stores/{id_of(client, name)}/search", body)
    results = [_result(item) for item in found]
    if as_json:
        print_json({"results": results})
        return
    for number, result in enumerate(results, start=1):
        typer.echo(f"[{number}] {result['document']}, {_pages(result)} (score {result['score']:.3f})")
        typer.echo(f"    {' '.join(result['text'].split())}\n")


@app.command(epilog=examples("kb status policy"))
def status(name: Name, as_json: AsJson = False) -> None:
    """Show how far each document has come."""
    from readahead_platform.commands.add_documents import document_summary

    with _client() as client:
        listed = client.entries(f"/v1/vector_stores/{id_of(client, name)}/files", limit=10_000, order="asc")
    documents = [document_summary(item) for item in listed]
    if as_json:
        print_json({"documents": documents})
        return
    rows = [(d["document"], _state(d), d["pages"], d["chunks"], d.get("error", {}).get("code", "")) for d in documents]
    print_table(("DOCUMENT", "STATE", "PAGES", "CHUNKS", "ERROR"), rows)
    for document in documents:
        _show_notes(document)
    if any(document["outdated"] for document in documents):
        typer.echo(f"Outdated documents were read by an older version: `readahead kb refresh {shlex.quote(name)}`.")


@app.command(epilog=examples("kb refresh policy", "kb refresh policy --all"))
def refresh(
    name: Name,
    everything: Annotated[
        bool, typer.Option("--all", help="Every document, as after installing an OCR engine.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read anew what an older version read, and wait; its old passages answer until the new ones stand.

    Exit code 1 where a document could not be read anew; it stays as it was.
    """
    from readahead_platform.commands.refresh_documents import refresh_documents

    with _client() as client:
        documents = refresh_documents(client, id_of(client, name), everything=everything, as_json=as_json)
    if as_json:
        print_json({"documents": documents})
    elif not documents:
        typer.echo(f"No document of {name} was read by an older version.")
    else:
        _show_refreshed(documents)
    if any(document["state"] != "searchable" for document in documents):
        raise typer.Exit(1)


@app.command(epilog=examples("kb pack policy --dry-run", "kb pack handbook --document handbook.pdf --pin"))
def pack(
    name: Name,
    document: Annotated[
        str | None, typer.Option(help="Only this one, by its name: questions that it answers read it.")
    ] = None,
    pin: Annotated[bool, typer.Option(help="Keep it in memory.")] = False,
    ttl: Annotated[float | None, typer.Option(min=1, help="Seconds after the last question to keep it.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Build nothing; tell whether it fits and its cost.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Have the model read the whole knowledge base once, so that `--route cag` answers without reading it again."""
    from readahead_platform.commands.build_pack import build_pack, show_estimate, show_pack

    with _client() as client:
        store = id_of(client, name)
        of_document = {}
        if document is not None:
            held = _document(client.entries(f"/v1/vector_stores/{store}/files", limit=10_000), document, name)
            of_document = {"document": held["document_id"]}
        if dry_run:
            told = client.post(f"/v1/vector_stores/{store}/pack", {**of_document, "dry_run": True})
            print_json({"estimate": told}) if as_json else show_estimate(told)
            return
        built = build_pack(client, store, name, {**of_document, "pin": pin, "ttl": ttl}, as_json=as_json)
    if as_json:
        print_json({"pack": built})
    else:
        show_pack(built, name)


def _client() -> Any:
    from readahead_platform.client import GatewayClient

    return GatewayClient.open()


def id_of(client: GatewayClient, name: str) -> str:
    """Of the knowledge base that the name, or the id, means."""
    found = _find(client, name)
    if found is None:
        raise CommandFailed(
            f"No knowledge base {name!r} was found; `readahead kb list` shows those there are, and "
            f"`readahead kb create {shlex.quote(name)}` makes it.",
            "not_found",
        )
    return str(found["id"])


def _find(client: GatewayClient, name: str) -> dict[str, Any] | None:
    """A name may hold any character, so it is found in the list instead of being put in a path.

    Where several bear it, it means the oldest.
    """
    stores = client.entries("/v1/vector_stores", limit=10_000, order="asc")
    by_id = next((store for store in stores if store["id"] == name), None)
    named = unicodedata.normalize("NFC", name).strip()
    return by_id or next((store for store in stores if store["name"] == named), None)


def _document(held: list[dict[str, Any]], wanted: str, kb: str) -> dict[str, Any]:
    """The document of that id, or the only one of that name."""
    by_id = [document for document in held if wanted in {document["document_id"], document["id"]}]
    found = by_id or [document for document in held if document["document"] == wanted]
    if not found:
        message = f"{kb} holds no document {wanted!r}; `readahead kb status {kb}` lists what it holds."
        raise CommandFailed(message, "not_found")
    if len(found) > 1:
        ids = ", ".join(document["document_id"] for document in found)
        raise CommandFailed(
            f"{len(found)} documents of {kb} are named {wanted!r}: give the id, one of {ids}.", "ambiguous"
        )
    return found[0]


def _summary(store: dict[str, Any]) -> dict[str, Any]:
    counts = store["file_counts"]
    return {
        "id": store["id"],
        "name": store["name"],
        "documents": counts["total"],
        "searchable": counts["completed"],
        "bytes": store["usage_bytes"],
    }


def _result(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "document": item["filename"],
        "document_id": item["document_id"],
        "page": item["page"],
        "last_page": item["last_page"],
        "text": item["content"][0]["text"],
        "score": item["score"],
        "similarity": item["similarity"],
        "ranks": item["ranks"],
    }


def _pages(result: dict[str, Any]) -> str:
    first, last = result["page"], result["last_page"]
    return f"page {first}" if first == last else f"pages {first}–{last}"


def _state(document: dict[str, Any]) -> str:
    return f"{document['state']}, outdated" if document["outdated"] else str(document["state"])


def _show_refreshed(documents: list[dict[str, Any]]) -> None:
    for document in documents:
        if document["state"] == "searchable":
            typer.echo(f"{document['document']}: searchable, {counted(document['pages'], 'page')}")
        else:
            error = document.get("error", {"code": document["state"], "message": "It was cancelled."})
            typer.echo(f"readahead: {document['document']}: {error['message']} ({error['code']})", err=True)
        _show_notes(document)


def _show_notes(document: dict[str, Any]) -> None:
    """What the file holds and is not read, and what was recognised on its pictures."""
    for note in document["notes"]:
        typer.echo(f"{document['document']}: {note}")


def _show_added(documents: list[dict[str, Any]], name: str) -> None:
    for document in documents:
        if document["state"] == "searchable":
            unread = document["pages_unread"]
            note = f"; pages without text: {', '.join(map(str, unread))}" if unread else ""
            if document["replaced"]:
                note += "; it took the place of the file of that name (--keep-old keeps both)"
            typer.echo(f"{document['document']}: searchable, {counted(document['pages'], 'page')}{note}")
        else:
            error = document.get("error", {"code": document["state"], "message": "It was cancelled."})
            typer.echo(f"readahead: {document['document']}: {error['message']} ({error['code']})", err=True)
        _show_notes(document)
    if any(document["state"] == "searchable" for document in documents):
        typer.echo(f'Ask with `readahead ask {shlex.quote(name)} "…"`.')
