"""Names of our own actions, by which plans are judged."""

from __future__ import annotations

QUERY, CAG = "query_rag_with_context", "query_cag"
GREP, READ = "kb_grep", "doc_read"
ANALYSIS, SUMMARY, COMPARE = "generate_analysis", "generate_summary", "compare"
EVIDENCE = (QUERY, CAG, GREP, READ)
"""Tools that answer one question from the documents."""
