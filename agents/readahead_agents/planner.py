"""Asks the model for a plan under a schema, mends it, and does without where none comes."""

from __future__ import annotations

import json
from collections.abc import Sequence

from readahead_agents.completion import complete
from readahead_agents.errors import BudgetExceeded, LanguageModelRefused, PlanInvalid
from readahead_agents.llm import CompletionOptions, LanguageModel, Message
from readahead_agents.mcp.toolset import ToolSpec
from readahead_agents.passages import as_data
from readahead_agents.plan import Plan, parse_plan
from readahead_agents.plan_schema import literal_arguments, plan_schema
from readahead_agents.prompts import prompt
from readahead_agents.repair import repair, rule_plan
from readahead_agents.settings import AgentSettings

TOKENS_PER_STEP = 120
"""What one step of a plan takes as JSON at most; a plan cut off in the middle is no plan."""
MAX_DESCRIPTION_CHARS = 200
_ONE_FACT = (
    '{"reasoning":"One question of fact.","steps":[{"tool":"query_rag_with_context",'
    '"arguments":{"question":"When does the shop open?"},"depends_on":[]}]}'
)
_TWO_SIDES = (
    '{"reasoning":"Both sides first, then compare.","steps":[{"tool":"query_rag_with_context",'
    '"arguments":{"question":"What is in the old contract?"},"depends_on":[]},{"tool":"query_rag_with_context",'
    '"arguments":{"question":"What is in the new contract?"},"depends_on":[]},{"tool":"generate_analysis",'
    '"arguments":{"question":"Compare the old and the new contract."},"depends_on":["s1","s2"]}]}'
)
EXAMPLES = (("When does the shop open?", _ONE_FACT), ("Compare the old and the new contract.", _TWO_SIDES))
"""Plans as they should be; small models follow examples more than instructions."""


class Planner:
    """Plans for one set of tools. The prompt is the same for every question up to the question itself."""

    def __init__(self, llm: LanguageModel, tools: Sequence[ToolSpec], settings: AgentSettings) -> None:
        self._llm = llm
        self._tools = sorted(tools, key=lambda tool: tool.name)
        self._settings = settings

    async def plan(self, question: str) -> Plan:
        """A plan that can be executed, always: one that rules made where the model's is of no use, and says so.

        Raises:
            LanguageModelUnavailable: The model does not answer.
        """
        max_steps = self._settings.max_steps
        try:
            written = parse_plan(json.loads(await self._ask(question)), self._tools)
        except BudgetExceeded as error:
            return rule_plan(question, self._tools, max_steps, f"Planned by rules: {error.message}")
        except (LanguageModelRefused, PlanInvalid, json.JSONDecodeError) as error:
            return rule_plan(question, self._tools, max_steps, f"Planned by rules, as the model's plan failed: {error}")
        return repair(written, question, self._tools, max_steps)

    async def _ask(self, question: str) -> str:
        settings = self._settings
        options = CompletionOptions(
            max_tokens=TOKENS_PER_STEP * (settings.max_steps + 1),
            temperature=settings.planning_temperature,
            seed=settings.seed,
            json_schema=plan_schema(self._tools, settings.max_steps),
        )
        return await complete(self._llm, self.messages(question), options)

    def messages(self, question: str) -> list[Message]:
        """The static part first, the question last."""
        tools = "\n".join(map(_described, self._tools))
        asked = prompt("planner_user")
        turns = [Message("system", prompt("planner_system").substitute(tools=tools))]
        for example, plan in EXAMPLES:
            turns += [Message("user", asked.substitute(question=example)), Message("assistant", plan)]
        return [*turns, Message("user", asked.substitute(question=question))]


def _described(tool: ToolSpec) -> str:
    """One line for each tool; its own words are data, and bounded."""
    arguments = ", ".join(literal_arguments(tool))
    description = as_data(" ".join(tool.description.split())[:MAX_DESCRIPTION_CHARS]).strip()
    return f"- {tool.name}({arguments}): {description}"
