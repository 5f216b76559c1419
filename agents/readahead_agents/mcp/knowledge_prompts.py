"""Prompts that the knowledge server offers: ways to use its tools well, for clients that show prompts to people."""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver import MCPServer, UserMessage
from pydantic import Field

Question = Annotated[str, Field(description="What to find out.")]
KbName = Annotated[str, Field(description="The knowledge base's name.")]
Document = Annotated[str, Field(description="A document's name or id.")]


def add_prompts(server: MCPServer) -> None:
    """Registers them."""

    @server.prompt()
    def ask_with_citations(question: Question, kb: KbName) -> list[UserMessage]:
        """Answer from a knowledge base and cite the pages."""
        return [
            UserMessage(
                f"Answer from the knowledge base {kb!r} only: {question}\nFind passages with kb_search, read on with "
                "doc_read where they are cut, and name document and page after each sentence. Where the documents do "
                "not tell, say so."
            )
        ]

    @server.prompt()
    def summarize_document(document: Document, kb: KbName) -> list[UserMessage]:
        """Sum up a document, with pages."""
        return [
            UserMessage(
                f"Sum up the document {document!r} of the knowledge base {kb!r}. Find it with kb_list, read it whole "
                "with doc_read, and name the page of each point."
            )
        ]

    @server.prompt()
    def compare_documents(first: Document, second: Document, kb: KbName, question: Question) -> list[UserMessage]:
        """Compare what two documents say."""
        return [
            UserMessage(
                f"Compare what the documents {first!r} and {second!r} of the knowledge base {kb!r} say on: {question}\n"
                "Search each with kb_search and its document id, and cite pages of both."
            )
        ]
