"""Small things that extensions and hosts of pi rely on."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.stage import stage

EXTENSION = """
export default function (pi) {
  pi.registerCommand("/", { handler: async (args, ctx) => ctx.ui.notify(`called with ${args}`, "success") });
  pi.registerCommand("auth", { handler: async (args, ctx) => {
    const model = ctx.modelRegistry.find("openai", "gpt-5");
    const auth = await ctx.modelRegistry.getApiKeyAndHeaders(model);
    ctx.ui.notify(JSON.stringify([auth, ctx.modelRegistry.find("nosuch", "model") === undefined]), "info");
  } });
}
"""


def test_a_command_may_be_a_slash_and_a_notice_a_success(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", files={".fairlead/extensions/small.js": EXTENSION}, flags=["--approve"]) as host:
        assert "/" in [command["name"] for command in host.request("get_commands")["data"]["commands"]]
        assert host.request("prompt", message="// now")["data"] == {"disposition": "handled"}
        [notice] = [frame for frame in host.frames if frame.get("method") == "notify"]
        assert (notice["message"], notice["notifyType"]) == ("called with now", "success")


def test_the_key_of_a_provider_without_one_is_nothing(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", files={".fairlead/extensions/small.js": EXTENSION}, flags=["--approve"]) as host:
        host.request("prompt", message="/auth")
        [notice] = [frame for frame in host.frames if frame.get("method") == "notify"]
        assert json.loads(notice["message"]) == [{"ok": True}, True]


def test_an_empty_session_is_not_exported(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        assert host.request("export_html")["error"] == "Nothing to export yet - start a conversation first"
        assert not list(host.around.cwd.glob("*.html"))


def test_the_id_for_providers_is_the_same_everywhere(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", flags=["--provider-session-id", "mine"]) as host:
        assert host.request("get_session_stats")["data"]["sessionId"] == "mine"
        assert host.request("get_state")["data"]["sessionId"] == "mine"
