"""Commands of the pi family, a coroutine method for each.

`make generate` writes this module from the declarations. Do not edit it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, UnsetType

from fairlead.client.generated.base import Caller

if TYPE_CHECKING:
    from fairlead.core.messages import ImageContent
    from fairlead.core.model import Model, ThinkingLevel
    from fairlead.core.queues import InterruptMode, QueueMode
    from fairlead.protocol.pi.commands import (
        ActiveTools,
        Attachment,
        AvailableModels,
        BashResult,
        ChosenLevel,
        ClearedQueue,
        CycledModel,
        Disposition,
        LastText,
        Messages,
        SlashCommands,
        ThinkingLevels,
        Tools,
    )
    from fairlead.protocol.pi.frames import RpcSessionState, SessionStats


class BasicMethods(Caller):
    """Each method sends a command and returns the data of the response.

    It raises CommandRefused if the agent refuses the command, NoAnswer if `timeout` seconds pass, and AgentGone if the agent
    ends. `timeout` is by default that of the client; None means no limit.
    """

    async def steer(
        self,
        message: str,
        *,
        images: list[ImageContent] | None = None,
        attachments: list[Attachment] | None = None,
        timeout: float | UnsetType | None = UNSET,
    ) -> Disposition:
        """Queue a message for the current run. The model gets it after the current turn or, with the interrupt mode
        `immediate`, after the tool that is running. If no run is in progress, the message waits for the next prompt."""
        return await self._call("steer", timeout, message=message, images=images, attachments=attachments)

    async def follow_up(
        self,
        message: str,
        *,
        images: list[ImageContent] | None = None,
        attachments: list[Attachment] | None = None,
        timeout: float | UnsetType | None = UNSET,
    ) -> Disposition:
        """Queue a message that the model gets when the run would otherwise end."""
        return await self._call("follow_up", timeout, message=message, images=images, attachments=attachments)

    async def abort(self, *, timeout: float | UnsetType | None = UNSET) -> None:
        """Stop the run. The response follows the last event of the run. The part of the answer that has arrived is
        kept, and so are the queues."""
        await self._call("abort", timeout)

    async def clear_queue(self, *, timeout: float | UnsetType | None = UNSET) -> ClearedQueue:
        """Remove all queued messages. The response contains their texts."""
        return await self._call("clear_queue", timeout)

    async def get_state(self, *, verbose: bool | None = None, timeout: float | UnsetType | None = UNSET) -> RpcSessionState:
        """Get the state of the session. `verbose` adds the system prompt and the tools as the model sees them."""
        return await self._call("get_state", timeout, verbose=verbose)

    async def get_session_stats(self, *, timeout: float | UnsetType | None = UNSET) -> SessionStats:
        """Get totals of the session: messages, tokens, cost."""
        return await self._call("get_session_stats", timeout)

    async def get_messages(self, *, timeout: float | UnsetType | None = UNSET) -> Messages:
        """Get the messages of the conversation."""
        return await self._call("get_messages", timeout)

    async def get_last_assistant_text(self, *, timeout: float | UnsetType | None = UNSET) -> LastText:
        """Get the text of the last answer, or null if there is none."""
        return await self._call("get_last_assistant_text", timeout)

    async def set_model(
        self, provider: str, model_id: str, *, persist: bool | None = None, timeout: float | UnsetType | None = UNSET
    ) -> Model:
        """Use another model, starting with the next model call. A thinking level that the model lacks becomes the
        nearest one."""
        return await self._call("set_model", timeout, provider=provider, model_id=model_id, persist=persist)

    async def cycle_model(self, *, timeout: float | UnsetType | None = UNSET) -> CycledModel | None:
        """Switch to the next model of `--models` or, without that flag, of all available ones. Null if there is no
        other."""
        return await self._call("cycle_model", timeout)

    async def get_available_models(self, *, timeout: float | UnsetType | None = UNSET) -> AvailableModels:
        """List the models for which there are credentials."""
        return await self._call("get_available_models", timeout)

    async def set_thinking_level(
        self, level: ThinkingLevel | Literal["auto"], *, persist: bool | None = None, timeout: float | UnsetType | None = UNSET
    ) -> ChosenLevel:
        """Set how much the model thinks. A level that the model lacks becomes the nearest one, which the response
        names. `auto` is the default level."""
        return await self._call("set_thinking_level", timeout, level=level, persist=persist)

    async def cycle_thinking_level(self, *, timeout: float | UnsetType | None = UNSET) -> ChosenLevel | None:
        """Switch to the next thinking level. Null for a model without reasoning."""
        return await self._call("cycle_thinking_level", timeout)

    async def get_available_thinking_levels(self, *, timeout: float | UnsetType | None = UNSET) -> ThinkingLevels:
        """List the thinking levels of the current model."""
        return await self._call("get_available_thinking_levels", timeout)

    async def set_steering_mode(
        self, mode: QueueMode, *, persist: bool | None = None, timeout: float | UnsetType | None = UNSET
    ) -> None:
        """Set how many steering messages a turn takes from the queue."""
        await self._call("set_steering_mode", timeout, mode=mode, persist=persist)

    async def set_follow_up_mode(
        self, mode: QueueMode, *, persist: bool | None = None, timeout: float | UnsetType | None = UNSET
    ) -> None:
        """Set how many follow-up messages a turn takes from the queue."""
        await self._call("set_follow_up_mode", timeout, mode=mode, persist=persist)

    async def set_interrupt_mode(
        self, mode: InterruptMode, *, persist: bool | None = None, timeout: float | UnsetType | None = UNSET
    ) -> None:
        """Set whether a steering message waits for all tools of a turn or skips those that have not started."""
        await self._call("set_interrupt_mode", timeout, mode=mode, persist=persist)

    async def bash(
        self, command: str, *, exclude_from_context: bool | None = None, timeout: float | UnsetType | None = UNSET
    ) -> BashResult:
        """Run a shell command for the user, independently of any run. `bash_execution_update` events carry its
        output while it runs. The model sees the output with the next prompt, unless `excludeFromContext` is set. The
        response arrives when the command ends."""
        return await self._call("bash", timeout, command=command, exclude_from_context=exclude_from_context)

    async def abort_bash(self, *, timeout: float | UnsetType | None = UNSET) -> None:
        """Stop the `bash` command that was started last."""
        await self._call("abort_bash", timeout)

    async def set_auto_retry(
        self, enabled: bool, *, persist: bool | None = None, timeout: float | UnsetType | None = UNSET
    ) -> None:
        """Turn automatic retries of failed model calls on or off."""
        await self._call("set_auto_retry", timeout, enabled=enabled, persist=persist)

    async def abort_retry(self, *, timeout: float | UnsetType | None = UNSET) -> None:
        """Cancel the wait for the next retry, if there is one. The run ends with the error."""
        await self._call("abort_retry", timeout)

    async def get_tools(self, *, timeout: float | UnsetType | None = UNSET) -> Tools:
        """List all tools, and which of them the model may use."""
        return await self._call("get_tools", timeout)

    async def set_active_tools(self, tools: list[str], *, timeout: float | UnsetType | None = UNSET) -> ActiveTools:
        """Choose the tools that the model may use, starting with the next model call."""
        return await self._call("set_active_tools", timeout, tools=tools)

    async def get_commands(self, *, timeout: float | UnsetType | None = UNSET) -> SlashCommands:
        """List the slash commands of extensions, prompt templates and skills. A message that begins with one is
        expanded to its text, or runs it."""
        return await self._call("get_commands", timeout)

    async def get_available_commands(self, *, timeout: float | UnsetType | None = UNSET) -> SlashCommands:
        """The name that omp has for `get_commands`."""
        return await self._call("get_available_commands", timeout)

    async def set_updates(self, updates: Literal["full", "delta"], *, timeout: float | UnsetType | None = UNSET) -> None:
        """Set the form of `message_update`: `full` repeats the message so far, `delta` has only the new part."""
        await self._call("set_updates", timeout, updates=updates)

    async def shutdown(self, *, timeout: float | UnsetType | None = UNSET) -> None:
        """Stop the run, respond, and exit with code 0."""
        await self._call("shutdown", timeout)
