"""Who an answer is for."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

_DETAIL = {"low": "in one or two sentences", "medium": "in a short paragraph", "high": "in detail"}


class UserProfile(BaseModel):
    """What a person knows and wants to know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    expertise: Literal["beginner", "intermediate", "expert"] = "intermediate"
    detail: Literal["low", "medium", "high"] = "medium"

    def told(self) -> str:
        """For the end of a prompt: in front of the documents it would part the prompts of all readers."""
        return f" Answer {_DETAIL[self.detail]}, for a reader whose expertise is: {self.expertise}."
