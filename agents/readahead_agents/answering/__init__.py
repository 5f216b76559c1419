"""Answers held to their passages: written, judged sentence by sentence, quoted and cited."""
