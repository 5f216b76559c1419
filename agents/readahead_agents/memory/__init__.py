"""What of a conversation reaches a prompt and a search: its newest turns, and what a follow-up question leans on."""
