"""The built-in actions as an MCP server: built for one run, bound to its model and its knowledge base."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from readahead_agents.actions.compare import compare
from readahead_agents.actions.doc_read import doc_read
from readahead_agents.actions.extract_table import extract_table
from readahead_agents.actions.generate_analysis import generate_analysis
from readahead_agents.actions.generate_profile_based_response import generate_profile_based_response
from readahead_agents.actions.generate_summary import generate_summary
from readahead_agents.actions.kb_grep import kb_grep
from readahead_agents.actions.query_cag import query_cag
from readahead_agents.actions.query_rag_with_context import query_rag_with_context
from readahead_agents.actions.result import ActionResult
from readahead_agents.actions.writing import ActionContext
from readahead_agents.errors import AgentError
from readahead_agents.mcp.strict_server import StrictServer
from readahead_retrieval.errors import RetrievalError

MAX_QUESTION_CHARS = 8000
Question = Annotated[str, Field(description="The question to answer.", min_length=1, max_length=MAX_QUESTION_CHARS)]
Topic = Annotated[str, Field(description="What to sum up.", min_length=1, max_length=MAX_QUESTION_CHARS)]
Focus = Annotated[str | None, Field(description="What to look at most.", max_length=200)]
Words = Annotated[int, Field(description="Length of the summary at most.", ge=20, le=400)]
Sides = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=200)]],
    Field(description="The things compared, each by its name.", min_length=2, max_length=4),
]
Earlier = Annotated[
    tuple[ActionResult, ...], Field(description="Results of earlier steps, whose documents to use.", max_length=16)
]
PageName = Annotated[str, Field(description="The page, as it is printed or counted.", min_length=1, max_length=12)]
Exact = Annotated[str, Field(description="The text, letter by letter.", min_length=1, max_length=200)]
_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)


def actions_server(context: ActionContext) -> MCPServer:
    """The server of one run. Its tools carry evidence with every result, and change nothing."""
    server = StrictServer("readahead-actions", log_level="ERROR")

    @server.tool(name="query_rag_with_context", annotations=_READS, structured_output=True)
    async def _query(question: Question) -> ActionResult:
        """Finds passages in the documents and answers one question from them."""
        return await _told(query_rag_with_context(context, question))

    @server.tool(name="generate_analysis", annotations=_READS, structured_output=True)
    async def _analysis(question: Question, focus: Focus = None, earlier: Earlier = ()) -> ActionResult:
        """Compares, explains or reasons over the documents, after the steps it depends on."""
        return await _told(generate_analysis(context, question, focus, earlier))

    @server.tool(name="generate_summary", annotations=_READS, structured_output=True)
    async def _summary(topic: Topic, max_words: Words = 120, earlier: Earlier = ()) -> ActionResult:
        """Sums up what the documents say about a topic, after the steps it depends on."""
        return await _told(generate_summary(context, topic, max_words, earlier))

    @server.tool(name="extract_table", annotations=_READS, structured_output=True)
    async def _table(question: Question, earlier: Earlier = ()) -> ActionResult:
        """Gives the rows of the tables in the documents that a question is about."""
        return await _told(extract_table(context, question, earlier))

    @server.tool(name="compare", annotations=_READS, structured_output=True)
    async def _compare(question: Question, sides: Sides) -> ActionResult:
        """Searches the documents for each of two or more things, and compares them."""
        return await _told(compare(context, question, sides))

    @server.tool(name="doc_read", annotations=_READS, structured_output=True)
    async def _read(question: Question, page: PageName) -> ActionResult:
        """Answers a question from one page of the documents, where the question names the page."""
        return await _told(doc_read(context, question, page))

    @server.tool(name="kb_grep", annotations=_READS, structured_output=True)
    async def _grep(question: Question, pattern: Exact) -> ActionResult:
        """Answers a question from passages that hold an exact text, such as a code or words in quotes."""
        return await _told(kb_grep(context, question, pattern))

    _add_what_there_is(server, context)
    return server


def _add_what_there_is(server: MCPServer, context: ActionContext) -> None:
    """Tools that need a pack or a reader's profile."""
    if context.pack is not None:

        @server.tool(name="query_cag", annotations=_READS, structured_output=True)
        async def _cag(question: Question) -> ActionResult:
            """Answers one question from the whole documents, which have been read already."""
            return await _told(query_cag(context, question))

    if context.asked.profile is not None:

        @server.tool(name="generate_profile_based_response", annotations=_READS, structured_output=True)
        async def _profile(question: Question, earlier: Earlier = ()) -> ActionResult:
            """Answers for the person who asks, by what that person knows and wants to know."""
            return await _told(generate_profile_based_response(context, question, earlier))


async def _told(action: Awaitable[ActionResult]) -> ActionResult:
    """Errors that people can act on become failed results with their message; others are bugs and are withheld."""
    try:
        return await action
    except (AgentError, RetrievalError) as error:
        raise ToolError(error.message) from error
