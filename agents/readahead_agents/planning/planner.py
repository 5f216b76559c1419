"""Asks the model for a plan under a schema, mends it, and does without where none comes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from readahead_agents.answering.passages import as_data
from readahead_agents.errors import BudgetExceeded, LanguageModelRefused, PlanInvalid
from readahead_agents.llm.base import CompletionOptions, LanguageModel, Message
from readahead_agents.llm.completion import complete
from readahead_agents.mcp.toolset import ToolSpec
from readahead_agents.planning.plan import Plan, parse_plan
from readahead_agents.planning.plan_schema import can_be_planned, literal_arguments, plan_schema, takes_result
from readahead_agents.planning.repair import RULES_OF_FORM, repair, rule_plan
from readahead_agents.planning.rules.request import Request
from readahead_agents.planning.rules.tools import why_not_callable
from readahead_agents.planning.written_plan import read_plan
from readahead_agents.prompts import prompt
from readahead_agents.settings import AgentSettings

TOKENS_PER_STEP = 120
"""What one step of a plan takes as JSON at most; a plan cut off in the middle is no plan."""
MAX_DESCRIPTION_CHARS = 200
MAX_CHOICES_CHARS = 80
_ONE_FACT = (
    '{"reasoning":"One question of fact.","steps":[{"tool":"query_rag_with_context",'
    '"arguments":{"question":"When does the shop open?"},"depends_on":[]}]}'
)
_TWO_SIDES = (
    '{"reasoning":"Two things are compared.","steps":[{"tool":"compare",'
    '"arguments":{"question":"Compare the old and the new contract.","sides":["the old contract","the new contract"]},'
    '"depends_on":[]}]}'
)
_OR_RESULT = ' or {"from": an earlier step\'s id}'
EXAMPLES = (("When does the shop open?", _ONE_FACT), ("Compare the old and the new contract.", _TWO_SIDES))
"""Plans as they should be; small models follow examples more than instructions."""


class Planner:
    """Plans for one set of tools. The prompt is the same for every question up to the question itself."""

    def __init__(self, llm: LanguageModel, tools: Sequence[ToolSpec], settings: AgentSettings) -> None:
        self._llm = llm
        # our own first: what other servers add changes nothing of what stands before it
        self._tools = sorted(filter(can_be_planned, tools), key=lambda tool: (tool.server, tool.name))
        self._settings = settings

    async def plan(self, question: str, failed: str = "") -> Plan:
        """A plan that can be executed, always: one that rules made where the model's is of no use, and says so.

        Args:
            failed: Why an earlier plan did not do.

        Raises:
            LanguageModelUnavailable: The model does not answer.
        """
        max_steps = self._settings.max_steps
        try:
            written = read_plan(await self._ask(question, failed), self._tools)
        except BudgetExceeded as error:
            return rule_plan(question, self._tools, max_steps, f"Planned by rules: {error.message}")
        except (LanguageModelRefused, PlanInvalid) as error:
            return rule_plan(question, self._tools, max_steps, f"Planned by rules, as the model's plan failed: {error}")
        return repair(written, question, self._tools, max_steps)

    def given(self, plan: Mapping[str, Any], question: str) -> Plan:
        """Somebody's own plan for the question, in our shape or the book's, made executable.

        Raises:
            PlanInvalid: No step of it can be executed with the tools there are, or one can't be with its arguments.
        """
        written = parse_plan(plan, self._tools)
        request = Request(question, {tool.name: tool for tool in self._tools}, self._settings.max_steps)
        for step in written.steps:
            if why_not := why_not_callable(step, request):
                raise PlanInvalid(f"Step {step.id[:64]} of `plan`: {why_not}")
        mended = repair(written, question, self._tools, self._settings.max_steps, RULES_OF_FORM)
        if not mended.steps:
            raise PlanInvalid("No step of `plan` can be executed: each takes the result of a step that is not there.")
        return mended

    async def _ask(self, question: str, failed: str) -> str:
        settings = self._settings
        options = CompletionOptions(
            max_tokens=TOKENS_PER_STEP * (settings.max_steps + 1),
            temperature=settings.planning_temperature,
            seed=settings.seed,
            json_schema=plan_schema(self._tools, settings.max_steps),
        )
        return await complete(self._llm, self.messages(question, failed), options)

    def messages(self, question: str, failed: str = "") -> list[Message]:
        """The static part first, the question last."""
        tools = "\n".join(map(_described, self._tools))
        asked = prompt("planner_user")
        turns = [Message("system", prompt("planner_system").substitute(tools=tools))]
        for example, plan in EXAMPLES:
            turns += [Message("user", asked.substitute(question=example)), Message("assistant", plan)]
        last = prompt("planner_again").substitute(question=question, failed=as_data(failed)) if failed else ""
        return [*turns, Message("user", last or asked.substitute(question=question))]


def _described(tool: ToolSpec) -> str:
    """One line for each tool; its own words are data, and bounded."""
    required = tool.input_schema.get("required", [])
    arguments = ", ".join(
        f"{name}{'' if name in required else '?'}: {_kind(schema)}{_OR_RESULT * _may_be_result(tool, schema)}"
        for name, schema in literal_arguments(tool).items()
    )
    description = as_data(" ".join(tool.description.split())[:MAX_DESCRIPTION_CHARS]).strip()
    return f"- {tool.name}({arguments}): {description}"


def _may_be_result(tool: ToolSpec, schema: Mapping[str, Any]) -> bool:
    return bool(tool.server) and takes_result(schema)


def _kind(schema: dict[str, Any]) -> str:
    """A type's name, or the choices there are, as data."""
    choices = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if choices:
        return as_data(" | ".join(json.dumps(choice) for choice in choices)[:MAX_CHOICES_CHARS]).strip()
    return str(schema["type"])
