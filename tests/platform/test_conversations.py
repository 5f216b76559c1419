"""/v1/conversations through the official SDK, and responses that are turns of one."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path

import openai
import pytest
from openai.types.responses import EasyInputMessageParam

from readahead_agents.llm.scripted import ScriptedLanguageModel
from readahead_platform.gateway.library_source import LibrarySource
from readahead_serving.model.tokenizer import Tokenizer
from tests.platform.gateway import Gateway, add_document, running_gateway
from tests.platform.test_agent_runs import ANSWER, Gate
from tests.platform.test_responses import QUESTION, Replies, with_model
from tests.serving.scripted import MODEL


def said(text: str) -> EasyInputMessageParam:
    return {"type": "message", "role": "user", "content": text}


async def test_a_conversation_is_made_changed_and_deleted(gateway: Gateway) -> None:
    sdk = gateway.sdk()
    made = await sdk.conversations.create(items=[said("Hello.")], metadata={"topic": "pumps"})
    assert made.object == "conversation" and made.metadata == {"topic": "pumps"} and made.id.startswith("conv_")
    changed = await sdk.conversations.update(made.id, metadata={"topic": "valves"})
    assert changed.metadata == {"topic": "valves"} == (await sdk.conversations.retrieve(made.id)).metadata
    deleted = await sdk.conversations.delete(made.id)
    assert deleted.deleted and deleted.object == "conversation.deleted"
    with pytest.raises(openai.NotFoundError, match=made.id):
        await sdk.conversations.items.list(made.id)


async def test_items_are_listed_page_by_page_in_either_order(gateway: Gateway) -> None:
    sdk = gateway.sdk()
    made = await sdk.conversations.create()
    assert (await sdk.conversations.items.list(made.id)).data == []
    added = await sdk.conversations.items.create(made.id, items=[said(f"Number {n}.") for n in range(5)])
    ids = [str(item.id) for item in added.data]
    newest = [item async for item in sdk.conversations.items.list(made.id, limit=2)]
    assert [item.id for item in newest] == ids[::-1], "the SDK follows the pages by itself"
    oldest = await sdk.conversations.items.list(made.id, limit=2, order="asc", after=ids[0])
    assert [item.id for item in oldest.data] == ids[1:3] and oldest.has_more
    one = await sdk.conversations.items.retrieve(ids[3], conversation_id=made.id)
    assert one.type == "message" and one.role == "user" and one.status == "completed"
    assert one.content[0].type == "input_text" and one.content[0].text == "Number 3."
    assert (await sdk.conversations.items.delete(ids[3], conversation_id=made.id)).id == made.id
    with pytest.raises(openai.NotFoundError, match=ids[3]):
        await sdk.conversations.items.retrieve(ids[3], conversation_id=made.id)
    with pytest.raises(openai.BadRequestError, match="items"):
        await sdk.conversations.items.create(made.id, items=[said("Hello.")] * 21)


async def test_no_tenant_finds_the_conversations_of_another(gateway: Gateway) -> None:
    made = await gateway.sdk().conversations.create(items=[said("Our secret.")])
    [item] = (await gateway.sdk().conversations.items.list(made.id)).data
    other = gateway.sdk(gateway.other_key)
    attempts = [
        other.conversations.retrieve(made.id),
        other.conversations.update(made.id, metadata={}),
        other.conversations.delete(made.id),
        other.conversations.items.create(made.id, items=[said("Hello.")]),
        other.conversations.items.retrieve(str(item.id), conversation_id=made.id),
        other.conversations.items.delete(str(item.id), conversation_id=made.id),
        other.responses.create(model=MODEL, input="What did I say?", conversation=made.id),
    ]
    for attempt in attempts:
        with pytest.raises(openai.NotFoundError):
            await attempt
    with pytest.raises(openai.NotFoundError):
        await other.conversations.items.list(made.id)
    assert len((await gateway.sdk().conversations.items.list(made.id)).data) == 1


async def test_a_key_that_reads_makes_conversations_and_deletes_none(gateway: Gateway) -> None:
    reading, _ = await gateway.context.tenants.create_key("acme", scopes=["read"])
    reader = gateway.sdk(reading)
    made = await reader.conversations.create(items=[said("Hello.")])
    [item] = (await reader.conversations.items.create(made.id, items=[said("Again.")])).data
    refused = [
        reader.conversations.items.delete(str(item.id), conversation_id=made.id),
        reader.conversations.delete(made.id),
        reader.responses.delete("resp_1"),
    ]
    for attempt in refused:
        with pytest.raises(openai.PermissionDeniedError, match="write"):
            await attempt
    assert len((await reader.conversations.items.list(made.id)).data) == 2


async def test_responses_of_a_conversation_remember_it_and_are_added_to_it(
    tmp_path: Path, smollm2_tokenizer: Tokenizer
) -> None:
    replies = Replies("Pumps are heavy.", "You asked of pumps.", "Yes.")
    async with with_model(tmp_path / "home", smollm2_tokenizer, replies) as gateway:
        sdk = gateway.sdk()
        made = await sdk.conversations.create(items=[{"role": "developer", "content": "Be short."}])
        first = await sdk.responses.create(model=MODEL, input="Tell me of pumps.", conversation=made.id)
        assert first.conversation is not None and first.conversation.id == made.id
        second = await sdk.responses.create(model=MODEL, input="What did I ask?", conversation={"id": made.id})
        prompt = smollm2_tokenizer.decode(replies.prompts[1].prompt_tokens)
        assert "Be short." in prompt and "Tell me of pumps." in prompt and "Pumps are heavy." in prompt
        items = [item async for item in sdk.conversations.items.list(made.id, order="asc")]
        roles = [item.role for item in items if item.type == "message"]
        assert roles == ["developer", "user", "assistant", "user", "assistant"]
        assert items[2].id == first.output[0].id
        # a response goes on from one of a conversation without being a turn of it
        await sdk.responses.create(model=MODEL, input="Really?", previous_response_id=first.id)
        prompt = smollm2_tokenizer.decode(replies.prompts[2].prompt_tokens)
        assert "Pumps are heavy." in prompt and "What did I ask?" not in prompt
        assert len([item async for item in sdk.conversations.items.list(made.id)]) == 5
        assert second.output_text == "You asked of pumps."


async def test_an_old_answer_tells_which_of_its_documents_were_deleted(gateway: Gateway, manual: Path) -> None:
    ids = await add_document(gateway, "manuals", manual)
    gateway.llm.script = [ANSWER]
    http = gateway.http()
    made = (await gateway.sdk().conversations.create()).id
    response = await gateway.sdk().responses.create(model="kb/manuals", input=QUESTION, conversation=made)
    kept, items = f"/v1/responses/{response.id}", f"/v1/conversations/{made}/items"

    async def cited() -> list[dict[str, object]]:
        """By the response, by its conversation, and by the item there."""
        message = (await http.get(items)).json()["data"][0]
        one = (await http.get(f"{items}/{message['id']}")).json()
        answers = ((await http.get(kept)).json()["output"][-1], message, one)
        return [answer["content"][0]["annotations"][0] for answer in answers]

    before = await cited()
    assert all(annotation["document_id"] == ids["document"] for annotation in before)
    assert not any("deleted" in annotation for annotation in before)
    await gateway.context.library.remove_document("acme", ids["document"])
    assert await cited() == [annotation | {"deleted": True} for annotation in before]


async def test_a_deleted_conversation_takes_its_responses_along(asked_home: Path, manual: Path) -> None:
    gate = Gate()
    llm = ScriptedLanguageModel([ANSWER], hold=gate.hold)
    async with asyncio.timeout(60), running_gateway(asked_home, llm=llm) as gateway:
        await add_document(gateway, "manuals", manual)
        sdk = gateway.sdk()
        made = await sdk.conversations.create(items=[said("My pet is called Xylander.")])
        running = await sdk.responses.create(model="kb/manuals", input=QUESTION, conversation=made.id, background=True)
        await gate.reached.wait()
        await sdk.conversations.delete(made.id)
        assert gate.ended.is_set(), "its answer went on"
        with pytest.raises(openai.NotFoundError):
            await sdk.responses.retrieve(running.id)
    database = sqlite3.connect(asked_home / "readahead.db")
    assert not [line for line in database.iterdump() if "Xylander" in line]
    database.close()


async def test_a_stream_whose_conversation_is_deleted_ends_with_an_error(asked_home: Path, manual: Path) -> None:
    gate = Gate()
    llm = ScriptedLanguageModel([ANSWER], hold=gate.hold)
    async with asyncio.timeout(60), running_gateway(asked_home, llm=llm) as gateway:
        await add_document(gateway, "manuals", manual)
        sdk = gateway.sdk()
        for store in (True, False):
            gate.reached.clear()
            made = await sdk.conversations.create()
            stream = await sdk.responses.create(
                model="kb/manuals", input=QUESTION, conversation=made.id, stream=True, store=store
            )
            await gate.reached.wait()
            await sdk.conversations.delete(made.id)
            with pytest.raises(openai.APIError, match="was cancelled"):
                [event async for event in stream]


NESTED: object = "deep"
for _ in range(200):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ({"type": "reasoning", "x": NESTED}, "levels deep"),
        ({"type": ["message"], "content": "Hello."}, "must be one of message"),
        ({"type": {"a": 1}}, "must be one of message"),
        ({"type": None}, "must be one of message"),
        ({"type": "mcp_approval_request", "id": "\0", "server_label": "a", "name": "b", "arguments": "{}"}, "1 to 80"),
    ],
)
async def test_an_item_that_cannot_be_kept_is_refused_before_it_is(
    gateway: Gateway, item: dict[str, object], told: str
) -> None:
    http, made = gateway.http(), await gateway.sdk().conversations.create()
    turn = {"role": "user", "content": "Hello."}
    for path, body in [
        (f"/v1/conversations/{made.id}/items", {"items": [item]}),
        ("/v1/conversations", {"items": [item]}),
        ("/v1/responses", {"model": MODEL, "input": [item, turn]}),
    ]:
        answer = await http.post(path, json=body)
        assert answer.status_code == 400 and told in answer.json()["error"]["message"], answer.text
    assert (await gateway.sdk().conversations.items.list(made.id)).data == []


async def test_an_item_that_is_there_already_is_refused_before_the_turn_begins(gateway: Gateway) -> None:
    request = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "a", "name": "b", "arguments": "{}"}
    http, turn = gateway.http(), {"role": "user", "content": "Hello."}
    made = (await http.post("/v1/conversations", json={"items": [request]})).json()
    for path, body in [
        (f"/v1/conversations/{made['id']}/items", {"items": [request]}),
        ("/v1/conversations", {"items": [request, request]}),
        ("/v1/responses", {"model": MODEL, "input": [request, turn], "conversation": made["id"]}),
        ("/v1/responses", {"model": MODEL, "input": [request, request, turn]}),
    ]:
        answer = await http.post(path, json=body)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (400, "duplicate_item") and "mcpr_1" in error["message"], path


async def test_a_cancelled_response_is_no_turn(asked_home: Path, manual: Path) -> None:
    gate = Gate()
    llm = ScriptedLanguageModel([ANSWER], hold=gate.hold)
    async with asyncio.timeout(60), running_gateway(asked_home, llm=llm) as gateway:
        await add_document(gateway, "manuals", manual)
        sdk = gateway.sdk()
        made = await sdk.conversations.create()
        running = await sdk.responses.create(model="kb/manuals", input=QUESTION, conversation=made.id, background=True)
        await gate.reached.wait()
        await sdk.responses.cancel(running.id)
        assert (await sdk.conversations.items.list(made.id)).data == []


@pytest.fixture
def asked_home(tmp_path: Path) -> Path:
    return tmp_path / "home"


async def test_a_conversation_over_the_window_loses_its_oldest_exchanges_and_says_so(
    tmp_path: Path, smollm2_tokenizer: Tokenizer
) -> None:
    replies = Replies("Yes.")
    long = "word " * 3000
    async with with_model(tmp_path / "home", smollm2_tokenizer, replies) as gateway:
        sdk = gateway.sdk()
        made = await sdk.conversations.create(items=[{"role": "system", "content": "Always be short."}])
        for name in ("Ada", "Berta", "Carla"):
            items = [said(f"I am {name}. {long}"), EasyInputMessageParam(role="assistant", content=f"Hello {name}.")]
            await sdk.conversations.items.create(made.id, items=items)
        response = await sdk.responses.create(model=MODEL, input="Who am I?", conversation=made.id, truncation="auto")
        prompt = smollm2_tokenizer.decode(replies.prompts[0].prompt_tokens)
        assert "I am Ada" not in prompt and "Hello Ada" not in prompt
        assert "I am Berta" in prompt and "Hello Carla." in prompt and "Always be short." in prompt
        assert response.model_extra is not None
        told = response.model_extra["readahead"]
        assert (told["conversation"]["turns"], told["conversation"]["left_out"]) == (4, 2)
        assert "2 earliest turns" in told["notes"][0]
        refused = await sdk.responses.create(model=MODEL, input="Who am I?", conversation=made.id)
        assert refused.status == "failed" and refused.error is not None
        assert str(refused.error.code) == "context_length_exceeded"


async def test_a_follow_up_on_documents_is_searched_with_what_it_leans_on_and_shown_so(
    gateway: Gateway, manual: Path
) -> None:
    await add_document(gateway, "manuals", manual)
    gateway.llm.script = [ANSWER, "The warranty of the pump lasts 30 months from the day of delivery."]
    sdk = gateway.sdk()
    made = await sdk.conversations.create()
    await sdk.responses.create(model="kb/manuals", input=QUESTION, conversation=made.id)
    follow_up, whole = "How long is its warranty?", f"{QUESTION} How long is its warranty?"
    second = await sdk.responses.create(model="kb/manuals", input=follow_up, conversation=made.id)
    assert "30 months" in second.output_text
    search = second.output[0]
    assert search.type == "file_search_call" and search.queries == [whole]
    assert second.model_extra is not None
    told = second.model_extra["readahead"]["conversation"]
    assert (told["question"], told["rewritten_by"]) == (whole, "rules")
    assert (told["turns"], told["left_out"]) == (2, 0) and told["tokens"] > 0
    last = gateway.llm.calls[-1].messages
    assert [turn.role for turn in last] == ["system", "user", "assistant", "user"]
    assert follow_up in last[-1].content and whole not in last[-1].content, "the turns are there already"
    chat = await sdk.chat.completions.create(
        model="kb/manuals",
        messages=[
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": ANSWER},
            {"role": "user", "content": follow_up},
        ],
    )
    assert chat.choices[0].message.model_extra is not None
    assert chat.choices[0].message.model_extra["readahead"]["conversation"] == told
    assert len([item async for item in sdk.conversations.items.list(made.id)]) == 6


async def test_a_follow_up_is_searched_for_as_a_whole_and_covered_by_its_own_words(
    gateway: Gateway, manual: Path
) -> None:
    await add_document(gateway, "manuals", manual)
    library = gateway.context.library
    kb = await library.get_kb("acme", "manuals")
    follow_up = "And which telescope does it have?"
    whole = f"{QUESTION} {follow_up}"
    source = LibrarySource(library, "acme", kb, score_floor=0.85, standalone={follow_up: whole})
    found = await source.search(follow_up)
    assert found == await library.search("acme", kb.id, whole)
    near = [replace(evidence, similarity=0.4) for evidence in found]
    assert source.covers(whole, near), "the question before it was answered"
    assert not source.covers(follow_up, near)


async def test_a_stream_tells_what_a_follow_up_became_and_its_reader_stands_at_the_end(
    gateway: Gateway, manual: Path
) -> None:
    await add_document(gateway, "manuals", manual)
    gateway.llm.script = ["The warranty of the pump lasts 30 months from the day of delivery."]
    stream = await gateway.sdk().chat.completions.create(
        model="kb/manuals",
        messages=[
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": ANSWER},
            {"role": "user", "content": "And its warranty?"},
        ],
        stream=True,
        extra_body={"readahead": {"profile": {"expertise": "expert", "detail": "low"}}},
    )
    told = [chunk.model_extra["readahead"]["event"] async for chunk in stream if chunk.model_extra]
    whole = f"{QUESTION} And its warranty?"
    assert [event["type"] for event in told[:4]] == ["route", "question_rewritten", "history", "evidence"]
    assert told[1] == {"type": "question_rewritten", "question": whole, "rewritten_by": "rules"}
    assert (told[2]["turns"], told[2]["left_out"]) == (2, 0)
    asked = gateway.llm.calls[-1].messages[-1].content
    assert asked.endswith("And its warranty? Answer in one or two sentences, for a reader whose expertise is: expert.")
