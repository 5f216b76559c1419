"""Another maker's OpenAI-compatible server, as small as one can be: no packs, no metrics, no cached tokens told.

Run as a process of its own: `python peer_server.py ROOM [PORT]` prints its port. Beyond ROOM requests at a time it says
429.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

STEP_S = 0.01


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"  # a body ends with its connection
    room = threading.Semaphore(1)

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self.answer(200, {"object": "list", "data": [{"id": "another-model", "object": "model"}]})
        else:
            self.answer(404, {"error": {"message": "no such path"}})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path != "/v1/chat/completions":
            self.answer(404, {"error": {"message": "no such path"}})
        elif not self.room.acquire(blocking=False):
            self.answer(429, {"error": {"message": "too many requests", "code": "busy"}})
        else:
            try:
                self.stream(asked["max_tokens"], len(str(asked["messages"])) // 4)
            except (BrokenPipeError, ConnectionResetError):
                return
            finally:
                self.room.release()

    def answer(self, status: int, body: dict[str, Any]) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def stream(self, tokens: int, prompt_tokens: int) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for _ in range(tokens):
            time.sleep(STEP_S)
            self.event({"choices": [{"index": 0, "delta": {"content": "word "}}]})
        self.event({"choices": [], "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": tokens}})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, body: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps(body)}\n\n".encode())
        self.wfile.flush()

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Says nothing."""


if __name__ == "__main__":
    Handler.room = threading.Semaphore(int(sys.argv[1]))
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
