"""Twenty prompts that differ in length, language and kind."""

from __future__ import annotations

PROMPTS = (
    "The capital of France is",
    "Once upon a time, in a village by the sea,",
    "def fibonacci(n: int) -> int:\n",
    "SELECT name, COUNT(*) FROM orders WHERE",
    "1, 1, 2, 3, 5, 8,",
    "대한민국의 수도는",
    "Die Würde des Menschen ist",
    "🎉 Happy birthday to you! 🎂",
    "Water boils at 100 degrees Celsius because",
    '{"name": "Ada", "born": 1815, "known_for":',
    "<html>\n  <head>\n    <title>",
    "The three laws of thermodynamics are:\n1.",
    "To whom it may concern:\n\nI am writing to",
    "Q: What is photosynthesis?\nA:",
    "\tif (x == NULL) {\n\t\treturn",
    "In 1969, the Apollo 11 mission",
    "Ingredients: 200 g flour, 3 eggs, a pinch of salt.\nMethod:",
    "x",
    "<|im_start|>user\nName three colours.<|im_end|>\n<|im_start|>assistant\n",
    "The committee shall consist of seven members. Each member shall serve for a term of three years. " * 6,
)
