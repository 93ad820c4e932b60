"""Programs that quote the secrets which they are given: MCP servers and an extension."""

from __future__ import annotations

#: An MCP server that writes down its environment, and cannot be connected.
MCP_SERVER = """
import json, os, sys
open(sys.argv[1], "w").write(json.dumps(dict(os.environ)))
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        error = {"code": -32000, "message": "not with " + os.environ.get("MCP_TOKEN", "")}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
"""
#: One that starts, and has a tool that fails and quotes its token, in a result or in an error.
MCP_TOOLS = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    quoted = "not with " + os.environ["MCP_TOKEN"]
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": {}}
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        server = {"name": "tools", "version": "1"}
        answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    elif message["method"] == "tools/list":
        answer["result"] = {"tools": [{"name": "quote", "inputSchema": {"type": "object"}}]}
    elif message["method"] == "tools/call":
        if message["params"]["arguments"]["how"] == "result":
            content = [{"type": "text", "text": quoted}]
            answer["result"] = {"content": content, "structuredContent": {"a": quoted}, "isError": True}
        else:
            answer["error"] = {"code": -32000, "message": quoted, "data": quoted}
            del answer["result"]
    print(json.dumps(answer), flush=True)
"""
#: Extensions see all variables, but their failures are shown to the host.
EXTENSION = """
import os

def setup(fl):
    @fl.on("context_with_system")
    def fail(event):
        raise RuntimeError("cannot use " + os.environ["NAMED_KEY"] + " nor " + os.environ["ANTHROPIC_API_KEY"])
"""
