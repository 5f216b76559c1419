"""The knowledge agent: planner, actions over MCP, and answers grounded in evidence."""
