"""`verifiers_traces.jsonl`: verifiers 0.4.0 with a scripted model behind its own `vf-eval`; `python verifiers_sums.py`.

The module is the plug-in as well: three sums, a tool run by the harness, and a model that is right, wrong, or fails.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
            "required": ["x", "y"],
        },
    },
}


class Model(BaseHTTPRequestHandler):
    """Calls the tool, then says its result, or 7 where the question is of 4."""

    def log_message(self, *args):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        question, last = body["messages"][1]["content"], body["messages"][-1]
        if "fail" in question:
            answer = {"error": {"message": "this model is not in the mood", "type": "invalid_request_error"}}
            self.reply(400, answer)
            return
        message = {"role": "assistant", "content": None, "reasoning_content": "a sum: the tool adds"}
        if last["role"] == "user":
            call = {"name": "add", "arguments": json.dumps({"x": int(question[8]), "y": int(question[12])})}
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": call}]
        else:
            message = {"role": "assistant", "content": "7" if "4" in question else last["content"]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
        self.reply(
            200,
            {
                "id": "1",
                "object": "chat.completion",
                "created": 0,
                "model": "scripted",
                "choices": [choice],
                "usage": usage,
            },
        )

    def reply(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def plug_in():
    import verifiers.v1 as vf
    from verifiers.v1.clients.base import build_async_openai

    class SumData(vf.TaskData):
        answer: str

    class SumTask(vf.Task[SumData]):
        @vf.reward(weight=2.0)
        async def right(self, trace) -> float:
            return float(trace.last_reply == self.data.answer)

        @vf.reward(weight=0.5)
        async def short(self, trace) -> float:
            return float(len(trace.last_reply) < 3)

        @vf.metric
        async def letters(self, trace) -> float:
            return float(len(trace.last_reply))

    class SumTaskset(vf.Taskset[SumTask, vf.TasksetConfig]):
        def load(self):
            rows = [("What is 2 + 3?", "5"), ("What is 4 + 4?", "8"), ("What is 1 + 1, or fail?", "2")]
            return [
                SumTask(SumData(prompt=p, system_prompt="Use the tool.", answer=a), self.config.task) for p, a in rows
            ]

    class SumHarness(vf.Harness[vf.HarnessConfig]):
        APPENDS_SYSTEM_PROMPT = True
        EXECUTES_CODE = NEEDS_CONTAINER = False

        async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, *rest, **more):
            system, prompt = self.resolve_text_prompt(data)
            messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
            here = vf.EvalClientConfig(base_url=endpoint, api_key_var="")
            client = build_async_openai(here).with_options(api_key=secret, max_retries=0)
            try:
                while True:
                    answer = await client.chat.completions.create(model=ctx.model, messages=messages, tools=[ADD])
                    message = answer.choices[0].message
                    messages.append(message.model_dump(exclude_none=True))
                    if not message.tool_calls:
                        return vf.ProgramResult(0, message.content or "", "")
                    for call in message.tool_calls:
                        total = sum(json.loads(call.function.arguments).values())
                        messages.append({"role": "tool", "tool_call_id": call.id, "content": str(total)})
            except Exception as error:
                return vf.ProgramResult(1, "", f"{type(error).__name__}: {error}")
            finally:
                await client.close()

    return SumTaskset, SumHarness


if __name__ != "__main__":
    SumTaskset, SumHarness = plug_in()
    __all__ = ["SumHarness", "SumTaskset"]
else:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here = Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as scratch:
        command = [Path(sys.executable).with_name("vf-eval"), "verifiers_sums", "-n", "3", "-r", "2", "-m", "scripted"]
        command += ["--client.base-url", f"http://127.0.0.1:{server.server_port}/v1", "--client.api-key-var", "KEY"]
        command += ["--env.agent.harness.id", "verifiers_sums", "--env.agent.runtime.type", "subprocess"]
        command += ["--no-rich", "--output-dir", "out", "--run.name", "trial"]
        variables = {"HOME": scratch, "KEY": "none", "PRIME_RUNS_MODE": "disabled", "PYTHONPATH": str(here)}
        subprocess.run(command, cwd=scratch, env=os.environ | variables, check=True)
        text = (Path(scratch) / "out" / "trial" / "traces.jsonl").read_text()
    (here / "verifiers_traces.jsonl").write_text(text.replace(scratch, "/scratch").replace(sys.prefix, "/venv"))
