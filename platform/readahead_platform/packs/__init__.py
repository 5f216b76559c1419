"""Knowledge bases read by the model once: their packs at the LLM server, and how they are kept true."""
