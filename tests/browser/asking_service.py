"""A service whose agent wants to change something at every question, in a process of its own.

A gateway with the page, a scripted model and a real MCP server. It prints where it is, and ends with its stdin.

    python -m tests.browser.asking_service HOME
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from readahead_agents.llm.scripted import ScriptedLanguageModel
from tests.agents.parts import planning, step
from tests.platform.gateway import add_document, running_gateway
from tests.platform.test_agent_runs import ANSWER, ASKED, LOG
from tests.retrieval import pdf_samples as samples

HIDING = "Halden\u202e<b>"


async def main(home: Path) -> None:
    manual = samples.write_pdf(home / "manual.pdf", samples.lines(ANSWER, "Two people lift it by the handles."))
    steps = [step("query_rag_with_context", question=ASKED["question"]), step("log__enter", pump=HIDING)]
    llm = ScriptedLanguageModel(planning(steps, {}, ANSWER))
    async with running_gateway(home / "home", llm=llm, mcp_servers=[LOG], page=True) as gateway:
        await add_document(gateway, ASKED["kb"], manual)
        print(json.dumps({"url": gateway.url, "key": gateway.key}), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
