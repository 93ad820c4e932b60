"""Logins at providers of extensions written for pi: `oauth` of `registerProvider`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fairlead import Agent
from fairlead.errors import LoginFailed, NoCredentials, ProviderError
from fairlead.models.added_logins import prepare_key
from fairlead.testing import ProviderServer

SOURCE = """
export default async function (pi) {
  const { createAssistantMessageEventStream } = await import("@earendil-works/pi-ai");
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  pi.registerProvider("corp", {
    baseUrl: "http://corp", api: "corp-api",
    models: [{ id: "m", name: "M", reasoning: false, input: ["text"], cost, contextWindow: 9000, maxTokens: 100 }],
    oauth: {
      name: "Corp (SSO)",
      async login(callbacks) {
        callbacks.onAuth({ url: "https://corp.example/auth", instructions: "Sign in there." });
        const account = await callbacks.onSelect({ message: "Account?", options: [{ id: "w", label: "Work" }, { id: "p", label: "Play" }] });
        callbacks.onProgress("checking");
        const code = await callbacks.onPrompt({ message: "Code?", placeholder: "abc" });
        if (code === "nonsense") return 5;
        if (code === "wrong") throw new Error("That code is wrong.");
        return { access: `access-${code}`, refresh: "refresh-1", expires: Date.now() + 3600_000, account };
      },
      async refreshToken(credentials) {
        if (credentials.refresh === "revoked") throw new Error("It was revoked.");
        return { ...credentials, access: "access-new", refresh: "refresh-2", expires: Date.now() + 3600_000 };
      },
      modifyModels: (models, credentials) => models.map((model) => ({ ...model, baseUrl: `${model.baseUrl}/${credentials.account}` })),
      getApiKey: (credentials) => `${credentials.account}:${credentials.access}`,
    },
    streamSimple(model, context, options) {
      const stream = createAssistantMessageEventStream();
      const message = { role: "assistant", content: [{ type: "text", text: `key ${options.apiKey}` }], api: model.api, provider: model.provider,
        model: model.id, usage: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0, totalTokens: 3, cost: { ...cost, total: 0 } },
        stopReason: "stop", timestamp: Date.now() };
      queueMicrotask(() => { stream.push({ type: "done", reason: "stop", message }); stream.end(); });
      return stream;
    },
  });
}
"""  # noqa: E501


class User:
    """Answers the questions of a login, and records what it was shown."""

    def __init__(self, code: str | None) -> None:
        self.code = code
        self.shown: list[Any] = []

    def open_url(self, url: str, instructions: str | None = None) -> None:
        self.shown.append((url, instructions))

    def notify(self, message: str) -> None:
        self.shown.append(message)

    async def input(self, title: str, placeholder: str | None = None) -> str | None:
        self.shown.append((title, placeholder))
        return self.code

    async def select(self, title: str, options: Any) -> str | None:
        self.shown.append((title, list(options)))
        return "Work"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "corp.js").write_text(SOURCE)
    return {**os.environ, "FAIRLEAD_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}


def agent_of(root: Path, env: dict[str, str]) -> Agent:
    return Agent(cwd=root, env=env, extensions=[root / "corp.js"], model="corp/m")


def endpoint(agent: Agent) -> str:
    model = agent.session.models.find("corp", "m")
    assert model is not None
    return model.base_url


def corp_models(agent: Agent) -> list[str]:
    return [model.id for model in agent.session.models.available() if model.provider == "corp"]


def stored(root: Path) -> dict[str, Any]:
    return json.loads((root / "home" / "auth.json").read_text())["corp"]


async def test_the_user_logs_in_and_the_login_is_used_and_renewed(tmp_path: Path, env: dict[str, str]) -> None:
    async with agent_of(tmp_path, env) as agent:
        await agent.extensions.load()
        assert list(agent.logins.possible()) == ["corp"] and ("corp", False) in agent.session.models.providers()
        user = User("xyz")
        assert await agent.logins.log_in_with_extension("corp", user)
        assert user.shown == [
            ("https://corp.example/auth", "Sign in there."),
            ("Account?", ["Work", "Play"]),
            "checking",
            ("Code?", "abc"),
        ]
        assert stored(tmp_path).items() >= {"type": "oauth", "access": "access-xyz", "account": "w"}.items()
        assert ("corp", True) in agent.session.models.providers()
        assert endpoint(agent) == "http://corp/w"  # `modifyModels` has seen the login
        assert str(await agent.ask("hi")) == "key w:access-xyz"
    path = tmp_path / "home" / "auth.json"
    path.write_text(json.dumps({"corp": {**stored(tmp_path), "expires": int(time.time() * 1000) - 1}}))
    async with agent_of(tmp_path, env) as agent:
        await agent.extensions.load()
        assert endpoint(agent) == "http://corp/w"
        assert str(await agent.ask("hi")) == "key w:access-new"
        assert endpoint(agent) == "http://corp/w"
        assert stored(tmp_path)["refresh"] == "refresh-2"
    path.write_text(json.dumps({"corp": {**stored(tmp_path), "expires": 1, "refresh": "revoked"}}))
    async with agent_of(tmp_path, env) as agent:
        with pytest.raises((ProviderError, NoCredentials), match=r"It was revoked\. Log in again\."):
            await agent.ask("hi")


NATIVE = """
export default async function (pi) {
  const { createProvider } = await import("@earendil-works/pi-ai/compat");
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  const model = (id) => ({ id, name: id, provider: "corp", api: "openai-completions", baseUrl: "http://corp", reasoning: false, input: ["text"],
    cost, contextWindow: 9000, maxTokens: 100 });
  pi.registerProvider({
    ...createProvider({ id: "corp", name: "Corp", baseUrl: "http://corp", models: ["m", "work", "play"].map(model), api: { api: "openai-completions" },
      auth: { oauth: {
        name: "Corp (SSO)",
        async login({ notify, prompt, signal }) {
          notify({ type: "auth_url", url: "https://corp.example/auth", instructions: "Sign in there." });
          notify({ type: "progress", message: "checking" });
          const account = await prompt({ type: "select", message: "Account?", options: [{ id: "w", label: "Work" }, { id: "p", label: "Play" }] });
          const code = await prompt({ type: "secret", message: "Code?" });
          return { type: "oauth", access: `access-${code}`, refresh: "refresh-1", expires: Date.now() + 3600_000, account };
        },
        refresh: async (credential) => ({ ...credential, access: "access-new", expires: Date.now() + 3600_000 }),
        toAuth: async ({ account, access }) => ({
          ...(access === "access-none" ? {} : { apiKey: `${account}:${access}` }),
          headers: { "X-Account": account, "X-Nothing": null },
        }),
      } } }),
    filterModels: (models, credential) => models.filter(({ id }) => id === "m" || id[0] === credential?.account),
  });
}
"""  # noqa: E501


async def test_a_complete_provider_logs_in_and_chooses_its_models(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "corp.js").write_text(NATIVE)
    async with agent_of(tmp_path, env) as agent:
        await agent.extensions.load()
        assert corp_models(agent) == []
        user = User("xyz")
        assert await agent.logins.log_in_with_extension("corp", user)
        assert user.shown == [
            ("https://corp.example/auth", "Sign in there."),
            "checking",
            ("Account?", ["Work", "Play"]),
            ("Code?", None),
        ]
        assert stored(tmp_path).items() >= {"type": "oauth", "access": "access-xyz", "account": "w"}.items()
        assert corp_models(agent) == ["m", "work"]
    async with agent_of(tmp_path, env) as agent:
        await agent.extensions.load()
        assert corp_models(agent) == ["m", "work"]


@pytest.mark.parametrize(
    ("code", "error"), [("wrong", "That code is wrong."), ("nonsense", "returned no access token"), (None, "Login cancelled")]
)
async def test_a_login_that_fails_stores_nothing(tmp_path: Path, env: dict[str, str], code: str | None, error: str) -> None:
    async with agent_of(tmp_path, env) as agent:
        await agent.extensions.load()
        with pytest.raises(LoginFailed, match=error):
            await agent.logins.log_in_with_extension("corp", User(code))
    assert not (tmp_path / "home" / "auth.json").exists()


def test_the_command_logs_in(tmp_path: Path, env: dict[str, str]) -> None:
    command = [sys.executable, "-m", "fairlead", "login", "corp", "-e", str(tmp_path / "corp.js")]
    done = subprocess.run(
        command, input="1\nxyz\n", capture_output=True, text=True, env=env, cwd=tmp_path, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Open https://corp.example/auth\nSign in there.\n" in done.stdout and "Logged in at corp." in done.stdout
    assert stored(tmp_path)["access"] == "access-xyz"


@pytest.mark.parametrize(("code", "key"), [("xyz", "w:access-xyz"), ("none", None)])
async def test_a_login_stands_for_a_key_and_headers(tmp_path: Path, env: dict[str, str], code: str, key: str | None) -> None:
    (tmp_path / "corp.js").write_text(NATIVE)
    async with agent_of(tmp_path, env) as agent:
        await agent.extensions.load()
        assert await agent.logins.log_in_with_extension("corp", User(code))
        await prepare_key(agent.registry, "corp")
        model = agent.registry.find("corp", "m")
        assert model is not None
        auth = agent.registry.auth(model)
        assert (auth.api_key, auth.headers) == (key, {"X-Account": "w"})


async def test_a_login_can_have_an_address_of_its_own(tmp_path: Path, env: dict[str, str]) -> None:
    async with ProviderServer([{"text": "Hello."}]) as server:
        auth = f'baseUrl: "{server.url}/v1", headers: {{ "X-Account"'
        (tmp_path / "corp.js").write_text(NATIVE.replace('headers: { "X-Account"', auth))
        async with agent_of(tmp_path, env) as agent:
            await agent.extensions.load()
            assert await agent.logins.log_in_with_extension("corp", User("xyz"))
            assert str(await agent.ask("hi")) == "Hello."
        assert server.requests[0].headers["authorization"] == "Bearer w:access-xyz"
