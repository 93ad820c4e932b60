"""Methods of Opal, a coroutine method and a method that blocks for each.

`make generate` writes this module from the declarations. Do not edit it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from fairlead.client.generated import Caller, SyncCaller

if TYPE_CHECKING:
    from fairlead.protocol.opal.opal_methods import (
        Accepted,
        Config,
        CredentialStatus,
        Done,
        HistoryMessages,
        ListedModels,
        LoggedIn,
        LoginBegun,
        ModelChosen,
        SavedSessions,
        SessionState,
        SettingsResult,
        Started,
        Tasks,
        ThinkingChosen,
        Versions,
    )
    from fairlead.protocol.opal.opal_objects import FeatureChanges, Nothing, WantedDistribution, WantedModel


class OpalMethods(Caller):
    """Each method sends a request and returns its result.

    It raises CommandRefused if the server answers with an error, NoAnswer if `timeout` seconds pass, and AgentGone if the server
    ends. `timeout` is by default that of the client; None means no limit.
    """

    async def session_start(
        self,
        *,
        model: WantedModel | None = None,
        system_prompt: str | None = None,
        working_dir: str | None = None,
        features: FeatureChanges | None = None,
        tools: list[str] | None = None,
        session: bool | None = None,
        session_id: str | None = None,
        timeout: float | UnsetType | None = UNSET,
    ) -> Started:
        """Begin a session, or resume a saved one."""
        return await self._call(
            "session/start",
            timeout,
            model=model,
            system_prompt=system_prompt,
            working_dir=working_dir,
            features=features,
            tools=tools,
            session=session,
            session_id=session_id,
        )

    async def agent_prompt(self, session_id: str, text: str, *, timeout: float | UnsetType | None = UNSET) -> Accepted:
        """Start a run with a prompt. The response comes when the prompt is accepted. If the agent is busy, the
        prompt is queued and delivered between turns."""
        return await self._call("agent/prompt", timeout, session_id=session_id, text=text)

    async def agent_abort(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> Nothing:
        """Stop the run: its model call, its tools and their processes. `agent_abort` follows, even if nothing was
        running."""
        return await self._call("agent/abort", timeout, session_id=session_id)

    async def agent_resume(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> Nothing:
        """Continue the last run if it was interrupted, without another prompt. Refused if it has ended. An addition
        of fairlead."""
        return await self._call("agent/resume", timeout, session_id=session_id)

    async def agent_state(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> SessionState:
        """The state of a session."""
        return await self._call("agent/state", timeout, session_id=session_id)

    async def session_list(self, *, timeout: float | UnsetType | None = UNSET) -> SavedSessions:
        """The saved sessions, last changed first."""
        return await self._call("session/list", timeout)

    async def session_branch(self, session_id: str, entry_id: str, *, timeout: float | UnsetType | None = UNSET) -> Nothing:
        """Continue from an earlier message of the conversation. Later messages stay in the file."""
        return await self._call("session/branch", timeout, session_id=session_id, entry_id=entry_id)

    async def session_compact(
        self, session_id: str, *, keep_recent: int | None = None, timeout: float | UnsetType | None = UNSET
    ) -> Nothing:
        """Replace the older part of the conversation with a summary. The response comes when the summary is saved."""
        return await self._call("session/compact", timeout, session_id=session_id, keep_recent=keep_recent)

    async def session_history(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> HistoryMessages:
        """The conversation, from its first message to the current one."""
        return await self._call("session/history", timeout, session_id=session_id)

    async def session_delete(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> Done:
        """Delete a saved session."""
        return await self._call("session/delete", timeout, session_id=session_id)

    async def models_list(self, *, timeout: float | UnsetType | None = UNSET) -> ListedModels:
        """The models that can be chosen."""
        return await self._call("models/list", timeout)

    async def model_set(
        self, session_id: str, model_id: str, *, thinking_level: str | None = None, timeout: float | UnsetType | None = UNSET
    ) -> ModelChosen:
        """Use another model from the next turn on."""
        return await self._call("model/set", timeout, session_id=session_id, model_id=model_id, thinking_level=thinking_level)

    async def thinking_set(self, session_id: str, level: str, *, timeout: float | UnsetType | None = UNSET) -> ThinkingChosen:
        """Set how much the model thinks."""
        return await self._call("thinking/set", timeout, session_id=session_id, level=level)

    async def auth_status(self, *, timeout: float | UnsetType | None = UNSET) -> CredentialStatus:
        """Whether there are credentials, and for which providers."""
        return await self._call("auth/status", timeout)

    async def auth_login(self, *, timeout: float | UnsetType | None = UNSET) -> LoginBegun:
        """Begin a login with a code that the user enters on the provider's page."""
        return await self._call("auth/login", timeout)

    async def auth_poll(self, device_code: str, interval: int, *, timeout: float | UnsetType | None = UNSET) -> LoggedIn:
        """Wait until the user has entered the code of `auth/login`, and save the new credentials."""
        return await self._call("auth/poll", timeout, device_code=device_code, interval=interval)

    async def auth_set_key(self, provider: str, api_key: str, *, timeout: float | UnsetType | None = UNSET) -> Done:
        """Save the key of a provider."""
        return await self._call("auth/set_key", timeout, provider=provider, api_key=api_key)

    async def tasks_list(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> Tasks:
        """The tasks that are not done."""
        return await self._call("tasks/list", timeout, session_id=session_id)

    async def settings_get(self, *, timeout: float | UnsetType | None = UNSET) -> SettingsResult:
        """The user's settings."""
        return await self._call("settings/get", timeout)

    async def settings_save(self, settings: dict[str, Any], *, timeout: float | UnsetType | None = UNSET) -> SettingsResult:
        """Change the user's settings. Other keys stay unchanged. The result has all settings."""
        return await self._call("settings/save", timeout, settings=settings)

    async def opal_config_get(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> Config:
        """The features and the tools of a session."""
        return await self._call("opal/config/get", timeout, session_id=session_id)

    async def opal_config_set(
        self,
        session_id: str,
        *,
        features: FeatureChanges | None = None,
        tools: list[str] | None = None,
        distribution: WantedDistribution | UnsetType | None = UNSET,
        timeout: float | UnsetType | None = UNSET,
    ) -> Config:
        """Change the features and the tools of a session. What is left out stays unchanged."""
        return await self._call(
            "opal/config/set", timeout, session_id=session_id, features=features, tools=tools, distribution=distribution
        )

    async def opal_ping(self, *, timeout: float | UnsetType | None = UNSET) -> Nothing:
        """Check the connection. The response comes at once, whatever else is running."""
        return await self._call("opal/ping", timeout)

    async def opal_version(self, *, timeout: float | UnsetType | None = UNSET) -> Versions:
        """The versions of the server and of the protocol."""
        return await self._call("opal/version", timeout)


class SyncOpalMethods(SyncCaller):
    """Each method sends a request and returns its result.

    It raises CommandRefused if the server answers with an error, NoAnswer if `timeout` seconds pass, and AgentGone if the server
    ends. `timeout` is by default that of the client; None means no limit.
    """

    def session_start(
        self,
        *,
        model: WantedModel | None = None,
        system_prompt: str | None = None,
        working_dir: str | None = None,
        features: FeatureChanges | None = None,
        tools: list[str] | None = None,
        session: bool | None = None,
        session_id: str | None = None,
        timeout: float | UnsetType | None = UNSET,
    ) -> Started:
        """Begin a session, or resume a saved one."""
        return self._call(
            "session/start",
            timeout,
            model=model,
            system_prompt=system_prompt,
            working_dir=working_dir,
            features=features,
            tools=tools,
            session=session,
            session_id=session_id,
        )

    def agent_prompt(self, session_id: str, text: str, *, timeout: float | UnsetType | None = UNSET) -> Accepted:
        """Start a run with a prompt. The response comes when the prompt is accepted. If the agent is busy, the
        prompt is queued and delivered between turns."""
        return self._call("agent/prompt", timeout, session_id=session_id, text=text)

    def agent_abort(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> Nothing:
        """Stop the run: its model call, its tools and their processes. `agent_abort` follows, even if nothing was
        running."""
        return self._call("agent/abort", timeout, session_id=session_id)

    def agent_resume(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> Nothing:
        """Continue the last run if it was interrupted, without another prompt. Refused if it has ended. An addition
        of fairlead."""
        return self._call("agent/resume", timeout, session_id=session_id)

    def agent_state(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> SessionState:
        """The state of a session."""
        return self._call("agent/state", timeout, session_id=session_id)

    def session_list(self, *, timeout: float | UnsetType | None = UNSET) -> SavedSessions:
        """The saved sessions, last changed first."""
        return self._call("session/list", timeout)

    def session_branch(self, session_id: str, entry_id: str, *, timeout: float | UnsetType | None = UNSET) -> Nothing:
        """Continue from an earlier message of the conversation. Later messages stay in the file."""
        return self._call("session/branch", timeout, session_id=session_id, entry_id=entry_id)

    def session_compact(
        self, session_id: str, *, keep_recent: int | None = None, timeout: float | UnsetType | None = UNSET
    ) -> Nothing:
        """Replace the older part of the conversation with a summary. The response comes when the summary is saved."""
        return self._call("session/compact", timeout, session_id=session_id, keep_recent=keep_recent)

    def session_history(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> HistoryMessages:
        """The conversation, from its first message to the current one."""
        return self._call("session/history", timeout, session_id=session_id)

    def session_delete(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> Done:
        """Delete a saved session."""
        return self._call("session/delete", timeout, session_id=session_id)

    def models_list(self, *, timeout: float | UnsetType | None = UNSET) -> ListedModels:
        """The models that can be chosen."""
        return self._call("models/list", timeout)

    def model_set(
        self, session_id: str, model_id: str, *, thinking_level: str | None = None, timeout: float | UnsetType | None = UNSET
    ) -> ModelChosen:
        """Use another model from the next turn on."""
        return self._call("model/set", timeout, session_id=session_id, model_id=model_id, thinking_level=thinking_level)

    def thinking_set(self, session_id: str, level: str, *, timeout: float | UnsetType | None = UNSET) -> ThinkingChosen:
        """Set how much the model thinks."""
        return self._call("thinking/set", timeout, session_id=session_id, level=level)

    def auth_status(self, *, timeout: float | UnsetType | None = UNSET) -> CredentialStatus:
        """Whether there are credentials, and for which providers."""
        return self._call("auth/status", timeout)

    def auth_login(self, *, timeout: float | UnsetType | None = UNSET) -> LoginBegun:
        """Begin a login with a code that the user enters on the provider's page."""
        return self._call("auth/login", timeout)

    def auth_poll(self, device_code: str, interval: int, *, timeout: float | UnsetType | None = UNSET) -> LoggedIn:
        """Wait until the user has entered the code of `auth/login`, and save the new credentials."""
        return self._call("auth/poll", timeout, device_code=device_code, interval=interval)

    def auth_set_key(self, provider: str, api_key: str, *, timeout: float | UnsetType | None = UNSET) -> Done:
        """Save the key of a provider."""
        return self._call("auth/set_key", timeout, provider=provider, api_key=api_key)

    def tasks_list(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> Tasks:
        """The tasks that are not done."""
        return self._call("tasks/list", timeout, session_id=session_id)

    def settings_get(self, *, timeout: float | UnsetType | None = UNSET) -> SettingsResult:
        """The user's settings."""
        return self._call("settings/get", timeout)

    def settings_save(self, settings: dict[str, Any], *, timeout: float | UnsetType | None = UNSET) -> SettingsResult:
        """Change the user's settings. Other keys stay unchanged. The result has all settings."""
        return self._call("settings/save", timeout, settings=settings)

    def opal_config_get(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> Config:
        """The features and the tools of a session."""
        return self._call("opal/config/get", timeout, session_id=session_id)

    def opal_config_set(
        self,
        session_id: str,
        *,
        features: FeatureChanges | None = None,
        tools: list[str] | None = None,
        distribution: WantedDistribution | UnsetType | None = UNSET,
        timeout: float | UnsetType | None = UNSET,
    ) -> Config:
        """Change the features and the tools of a session. What is left out stays unchanged."""
        return self._call(
            "opal/config/set", timeout, session_id=session_id, features=features, tools=tools, distribution=distribution
        )

    def opal_ping(self, *, timeout: float | UnsetType | None = UNSET) -> Nothing:
        """Check the connection. The response comes at once, whatever else is running."""
        return self._call("opal/ping", timeout)

    def opal_version(self, *, timeout: float | UnsetType | None = UNSET) -> Versions:
        """The versions of the server and of the protocol."""
        return self._call("opal/version", timeout)
