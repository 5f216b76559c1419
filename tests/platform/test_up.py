"""`readahead up` with the real models, through the official SDK and the command line."""

from __future__ import annotations

import json
from pathlib import Path

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.platform.running import RunningReadahead, wait_until
from tests.platform.test_gateway_documents import bad_file

QUESTION = "After how many hours of work is the oil of the gearbox changed?"
MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]
MODEL = "smollm2-135m-instruct"


@pytest.fixture(scope="module")
def manuals(readahead_up: RunningReadahead, manual: Path) -> str:
    """A knowledge base of one document."""
    sdk = readahead_up.sdk()
    store = sdk.vector_stores.create(name="manuals")
    file = sdk.files.create(file=manual, purpose="assistants")
    added = sdk.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id, poll_interval_ms=200)
    assert added.status == "completed", added.last_error
    return "manuals"


def test_the_greeting_tells_where_to_go_and_what_to_ask(readahead_up: RunningReadahead) -> None:
    greeting = readahead_up.log.read_text(encoding="utf-8")
    assert readahead_up.url in greeting
    assert readahead_up.api_key in greeting
    assert "readahead ask samples" in greeting
    for private in ("credentials.json", "readahead.db", "files", "indexes", "logs"):
        assert (readahead_up.home / private).stat().st_mode & 0o077 == 0


def test_an_uploaded_document_is_answered_with_its_page(readahead_up: RunningReadahead, manuals: str) -> None:
    completion = readahead_up.sdk().chat.completions.create(model=f"kb/{manuals}", messages=MESSAGES)
    field = (completion.choices[0].message.model_extra or {})["readahead"]
    assert {(c["document"], c["page"]) for c in field["citations"]} == {("manual.pdf", 2)}
    assert "600 hours" in (completion.choices[0].message.content or "")


def test_a_stream_says_what_the_whole_answer_says(readahead_up: RunningReadahead, manuals: str) -> None:
    sdk = readahead_up.sdk()
    whole = sdk.chat.completions.create(model=f"kb/{manuals}", messages=MESSAGES)
    stream = sdk.chat.completions.create(model=f"kb/{manuals}", messages=MESSAGES, stream=True)
    text = "".join(choice.delta.content or "" for chunk in stream for choice in chunk.choices)
    assert text == whole.choices[0].message.content


def test_models_are_the_llm_servers_and_every_knowledge_base(readahead_up: RunningReadahead, manuals: str) -> None:
    sdk = readahead_up.sdk()
    names = {model.id for model in sdk.models.list()}
    assert {MODEL, "kb/samples", f"kb/{manuals}"} <= names
    assert sdk.models.retrieve(f"kb/{manuals}").owned_by == "readahead"


def test_a_plain_model_is_passed_through(readahead_up: RunningReadahead) -> None:
    sdk = readahead_up.sdk()
    asked: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Say hello."}]
    # In bf16 a prompt computed anew and one taken over from the cache may part at a near-tie: both are taken over here.
    sdk.chat.completions.create(model=MODEL, messages=asked, max_tokens=1)
    whole = sdk.chat.completions.create(model=MODEL, messages=asked, max_tokens=8, temperature=0)
    stream = sdk.chat.completions.create(model=MODEL, messages=asked, max_tokens=8, temperature=0, stream=True)
    text = "".join(choice.delta.content or "" for chunk in stream for choice in chunk.choices)
    assert text == whole.choices[0].message.content
    assert sdk.completions.create(model=MODEL, prompt="One, two,", max_tokens=4, temperature=0).choices[0].text
    assert len(sdk.embeddings.create(model="all-minilm-l6-v2", input="Hello").data[0].embedding) == 384


def test_a_client_that_leaves_stops_the_engine(readahead_up: RunningReadahead) -> None:
    """The engine's own counts tell, not ours."""
    aborted = readahead_up.llm_metric("readahead_engine_aborted")
    stream = readahead_up.sdk().chat.completions.create(
        model=MODEL, messages=MESSAGES, stream=True, max_tokens=2000, extra_body={"ignore_eos": True}
    )
    next(chunk for chunk in stream if chunk.choices and chunk.choices[0].delta.content)
    stream.close()
    wait_until(lambda: readahead_up.llm_metric("readahead_requests_running") == 0, 60)
    assert readahead_up.llm_metric("readahead_engine_aborted") == aborted + 1


@pytest.mark.parametrize("model", ["no-such-model", "kb/no-such-kb"])
def test_an_unknown_model_is_not_found(readahead_up: RunningReadahead, model: str) -> None:
    with pytest.raises(openai.NotFoundError) as raised:
        readahead_up.sdk().chat.completions.create(model=model, messages=MESSAGES)
    assert raised.value.code == "model_not_found"


def test_a_prompt_over_the_context_is_refused(readahead_up: RunningReadahead, manuals: str) -> None:
    endless: list[ChatCompletionMessageParam] = [{"role": "user", "content": "why " * 20_000}]
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as raised:
            readahead_up.sdk().chat.completions.create(model=MODEL, messages=endless, stream=stream)
        assert raised.value.code == "context_length_exceeded"
    system: list[ChatCompletionMessageParam] = [{"role": "system", "content": "Be kind. " * 20_000}, *MESSAGES]
    with pytest.raises(openai.BadRequestError) as raised:
        readahead_up.sdk().chat.completions.create(model=f"kb/{manuals}", messages=system)
    assert raised.value.code == "context_length_exceeded"


def test_the_command_line_asks_and_cites(readahead_up: RunningReadahead, manuals: str) -> None:
    shown = readahead_up.cli("ask", manuals, QUESTION)
    assert shown.returncode == 0, shown.stderr
    assert "600 hours" in shown.stdout
    assert "manual.pdf, page 2" in shown.stdout
    told = readahead_up.cli("ask", manuals, QUESTION, "--json")
    answer = json.loads(told.stdout)
    assert {"answer", "citations", "route", "usage", "timings_ms"} <= set(answer)
    assert answer["citations"][0]["page"] == 2


def test_the_command_line_shows_an_agents_steps(readahead_up: RunningReadahead, manuals: str) -> None:
    done = readahead_up.cli("ask", manuals, QUESTION, "--route", "agent", "--json")
    assert done.returncode == 0, done.stdout
    answer = json.loads(done.stdout)
    assert answer["route"]["chosen"] == "agent"
    assert answer["run"]["steps"]
    shown = readahead_up.cli("ask", manuals, QUESTION, "--route", "agent")
    assert "query_rag_with_context" in shown.stderr


def test_the_command_line_manages_knowledge_bases(readahead_up: RunningReadahead, manual: Path, tmp_path: Path) -> None:
    assert readahead_up.cli("kb", "create", "shelf").returncode == 0
    locked = bad_file(tmp_path / "locked.pdf", manual)
    page = bad_file(tmp_path / "page.html", manual)
    files = (tmp_path / "none.pdf", manual, locked, page, tmp_path)
    added = readahead_up.cli("kb", "add", "shelf", *map(str, files), "--json")
    assert added.returncode == 1
    documents = json.loads(added.stdout.splitlines()[-1])["documents"]
    assert [d["state"] for d in documents] == ["failed", "searchable", "failed", "failed", "failed"]
    codes = [d["error"]["code"] for d in documents if "error" in d]
    assert codes == ["unreadable_file", "password_required", "not_pdf", "unreadable_file"]
    again = readahead_up.cli("kb", "add", "shelf", str(locked))
    assert again.returncode == 1
    assert again.stderr.strip().splitlines()[-1].endswith("(password_required)")
    assert "Traceback" not in added.stderr + again.stderr
    found = json.loads(readahead_up.cli("kb", "search", "shelf", "warranty of the pump", "--json").stdout)["results"]
    assert found[0]["document"] == "manual.pdf"
    assert found[0]["page"] <= 3 <= found[0]["last_page"]
    assert "30 months" in found[0]["text"]
    listed = json.loads(readahead_up.cli("kb", "list", "--json").stdout)["knowledge_bases"]
    assert {kb["name"]: kb["searchable"] for kb in listed}["shelf"] == 1
    assert readahead_up.cli("kb", "remove", "shelf", "no.pdf").returncode == 1
    assert readahead_up.cli("kb", "remove", "shelf", "manual.pdf").returncode == 0
    left = json.loads(readahead_up.cli("kb", "status", "shelf", "--json").stdout)["documents"]
    assert {d["document"] for d in left} == {"locked.pdf", "page.html"}
    assert readahead_up.cli("kb", "delete", "shelf").returncode == 0
    gone = readahead_up.cli("kb", "status", "shelf")
    assert (gone.returncode, gone.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        (("ask", "samples", QUESTION), {"READAHEAD_API_KEY": "sk-ra-wrong"}, "unknown or revoked"),
        (("ask", "no-such-kb", QUESTION), {}, "readahead kb list"),
        (("kb", "status", "no-such-kb"), {}, "readahead kb list"),
        (("kb", "create", " "), {}, "name"),
        (("ask", "samples", QUESTION, "--route", "cag"), {}, "kb pack"),
        (("kb", "create", "samples"), {}, "samples"),
    ],
)
def test_what_a_user_can_mend_is_one_line_and_exit_code_1(
    readahead_up: RunningReadahead, arguments: tuple[str, ...], environment: dict[str, str], says: str
) -> None:
    done = readahead_up.cli(*arguments, **environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_an_empty_knowledge_base_is_told_by_the_command_line(readahead_up: RunningReadahead) -> None:
    assert readahead_up.cli("kb", "create", "empty").returncode == 0
    done = readahead_up.cli("ask", "empty", QUESTION)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    told = json.loads(readahead_up.cli("ask", "empty", QUESTION, "--json").stdout)
    assert told["error"]["code"] == "knowledge_base_empty"


def test_keys_are_made_and_revoked_on_the_command_line(readahead_up: RunningReadahead) -> None:
    key = json.loads(readahead_up.cli("keys", "create", "--tenant", "globex", "--json").stdout)["key"]
    mine = {"READAHEAD_API_KEY": key["key"]}
    assert json.loads(readahead_up.cli("kb", "list", "--json", **mine).stdout)["knowledge_bases"] == []
    assert readahead_up.cli("keys", "revoke", key["id"]).returncode == 0
    assert readahead_up.cli("kb", "list", **mine).returncode == 1


def test_the_web_page_stands_beside_the_api(readahead_up: RunningReadahead) -> None:
    import httpx

    page = httpx.get(f"{readahead_up.url}/", timeout=60)
    assert page.status_code == 200
    assert "text/html" in page.headers["content-type"]
    api = httpx.get(f"{readahead_up.url}/v1/files", timeout=60)
    assert api.status_code == 401
