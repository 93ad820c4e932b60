"""The handlers of the basic commands. Each acts on the session and returns the data of the response."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import UNSET, UnsetType, to_builtins

from fairlead.core.lenient import scrub_text
from fairlead.core.model import Model
from fairlead.models.registry import DEFAULT_LEVEL
from fairlead.protocol.pi import commands as c
from fairlead.protocol.pi.commands import Command
from fairlead.protocol.pi.frames import BashExecutionUpdate, ContextUsage, RpcSessionState, SessionStats, Tokens
from fairlead.wire.pi import omp_handlers
from fairlead.wire.pi.pi_encoding import Spliced
from fairlead.wire.routing import Answer, Late, Request, RequestRoute

if TYPE_CHECKING:
    from fairlead.core.messages import UserMessage
    from fairlead.protocol.pi.session_commands import Prompt2025
    from fairlead.session.hooks import Hooks
    from fairlead.session.host import BashDone
    from fairlead.session.run.message_queue import HeldPrompt
    from fairlead.session.session import Session
    from fairlead.session.slash_commands import SlashCommand
    from fairlead.wire.pi.pi_server import PiServer

T = TypeVar("T")


def _prompt(server: PiServer, command: c.Prompt) -> Coroutine[Any, Any, Late | Answer]:
    if command.locale is not None:
        omp_handlers.set_locale(server, command.locale)
    wanted = command.streaming_behavior
    behavior = None if wanted is None else "followUp" if wanted == "followUp" else "steer"
    attached = to_builtins(command.attachments)
    return submit(
        server,
        command,
        lambda held: server.session.prompt(
            command.message, command.images, attachments=attached, source="rpc", behavior=behavior, held=held
        ),
        server.session.queue.hold_prompt(command.message, command.images, attached),
        is_queued=behavior is not None,
    )


def submit(
    server: PiServer,
    command: c.Prompt | c.AbortAndPrompt | Prompt2025,
    prompt: Callable[[HeldPrompt], Coroutine[Any, Any, UserMessage | None]],
    held: HeldPrompt,
    *,
    is_queued: bool = False,
    aborts: bool = False,
) -> Coroutine[Any, Any, Late | Answer]:
    """Pass a prompt to the session. Later requests do not wait for extensions: for a command, or for the preparation of a run.

    A handler calls this immediately. `is_queued` says whether the prompt may join a queue, and `aborts` whether it aborts the
    present run first.
    """
    request = server.dispatcher.current
    assert request is not None
    return _submit(server, request, command, prompt, held, is_queued=is_queued, aborts=aborts)


async def _submit(
    server: PiServer,
    request: Request,
    command: c.Prompt | c.AbortAndPrompt | Prompt2025,
    prompt: Callable[[HeldPrompt], Coroutine[Any, Any, UserMessage | None]],
    held: HeldPrompt,
    *,
    is_queued: bool,
    aborts: bool,
) -> Late | Answer:
    if aborts:
        await server.session.abort()
    try:
        hooks = await (await _begin(server, request, held, server.ready()))
    except BaseException:
        held.finish(None)
        raise
    if hooks is not None and hooks.has_command(command.message):
        held.finish(None)
        if server.profile.acknowledges_prompts:
            server.dispatcher.acknowledge(request, UNSET)
        return Late(_run_command(server, hooks, command))
    work = await _begin(server, request, held, _accept(server, command, prompt(held)))
    is_prepared = hooks is not None and hooks.wants("before_agent_start")
    if not is_queued and (is_prepared or request.is_acknowledged):
        # An extension may take long to prepare the run. Other requests are served meanwhile, and find the session busy.
        return Late(work)
    return await work


async def _begin(server: PiServer, request: Request, held: HeldPrompt, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
    """Begin some work, and acknowledge the prompt if it waits for anything and the profile says so. Returns the rest of it."""
    if not server.profile.acknowledges_prompts:
        return work
    task = asyncio.create_task(work)
    try:
        await asyncio.sleep(0)  # the task reaches the first thing that it waits for
        if not task.done() and not request.is_acknowledged:
            await held.save()
            server.dispatcher.acknowledge(request, UNSET)
    except BaseException:
        task.cancel()
        raise
    return _finish(task)


async def _finish(task: asyncio.Task[T]) -> T:
    """Wait for a task, which ends with its caller."""
    try:
        return await task
    except asyncio.CancelledError:
        task.cancel()
        raise


async def _accept(
    server: PiServer, command: c.Prompt | c.AbortAndPrompt | Prompt2025, prompt: Coroutine[Any, Any, UserMessage | None]
) -> Answer:
    message = await prompt
    if message is None:
        return answer_handled(server, command, None)
    if server.outcomes is not None:
        server.outcomes.record_accepted(message, command.id)
    return Answer(_make_disposition(server, "queued" if server.session.queue.holds(message) else "started"))


def answer_handled(server: PiServer, command: Command, runs_before: int | None) -> Answer:
    """Return the answer to a prompt that an extension handled."""
    outcomes = server.outcomes
    return Answer(
        _make_disposition(server, "handled"),
        then=None if outcomes is None else lambda: outcomes.report_handled(command.id, runs_before),
    )


async def _run_command(server: PiServer, hooks: Hooks, command: c.Prompt | c.AbortAndPrompt | Prompt2025) -> Answer:
    answer = answer_handled(server, command, None if server.outcomes is None else server.outcomes.unprompted_runs)
    await hooks.run_command(command.message)
    return answer


async def _steer(server: PiServer, command: c.Steer) -> c.Disposition | UnsetType:
    attached = to_builtins(command.attachments)
    message = await server.session.steer(command.message, command.images, attached, source="rpc")
    return _make_disposition(server, "handled" if message is None else "queued")


async def _follow_up(server: PiServer, command: c.FollowUp) -> c.Disposition | UnsetType:
    attached = to_builtins(command.attachments)
    message = await server.session.follow_up(command.message, command.images, attached, source="rpc")
    return _make_disposition(server, "handled" if message is None else "queued")


def _make_disposition(server: PiServer, what: Literal["started", "queued", "handled"]) -> c.Disposition | UnsetType:
    """Return what the response says about a message, if hosts of this profile know that."""
    return c.Disposition(what) if server.profile.dispositions else UNSET


async def _abort(server: PiServer, command: c.Abort) -> None:
    await server.session.abort()


def _abort_and_prompt(server: PiServer, command: c.AbortAndPrompt) -> Coroutine[Any, Any, Late | Answer]:
    attached = to_builtins(command.attachments)
    return submit(
        server,
        command,
        lambda held: server.session.prompt(command.message, command.images, attachments=attached, source="rpc", held=held),
        server.session.queue.hold_prompt(command.message, command.images, attached),
        aborts=True,
    )


def _clear_queue(server: PiServer, command: c.ClearQueue) -> c.ClearedQueue:
    cleared = c.ClearedQueue(*server.session.queue.clear())
    # During a run they are reported at its end.
    if server.outcomes is not None and not server.session.activity.is_streaming:
        server.outcomes.report()
    return cleared


def _get_state(server: PiServer, command: c.GetState) -> RpcSessionState | Coroutine[Any, Any, RpcSessionState]:
    verbose = command.verbose or server.profile.verbose_state
    return _verbose_state(server) if verbose else _state(server)


async def _verbose_state(server: PiServer) -> RpcSessionState:
    session = server.session
    await session.additions.prepare()
    state = _state(server)
    state.system_prompt = session.additions.system_prompt()
    state.dump_tools = [session.tools[name].spec() for name in session.tools.active]
    return state


def _state(server: PiServer) -> RpcSessionState:
    session = server.session
    state = RpcSessionState(
        model=session.model,
        is_streaming=session.activity.is_streaming,
        is_settled=not session.activity.is_streaming,
        is_compacting=session.activity.is_compacting,
        steering_mode=session.queue.steering.mode,
        follow_up_mode=session.queue.follow_up.mode,
        interrupt_mode=session.queue.interrupt,
        session_id=session.history.provider_id or session.history.id,
        auto_compaction_enabled=session.activity.auto_compaction,
        message_count=session.history.count,
        pending_message_count=len(session.queue),
        queued_message_count=len(session.queue),
        todo_phases=to_builtins(session.todos.phases),
        thinking_level=session.thinking,
    )
    if server.profile.omp_events:
        state.fast_mode_enabled, state.fast_mode_active = server.fast_mode, False
    if session.history.path is not None:
        state.session_file = str(session.history.path)
    if session.history.name is not None:
        state.session_name = session.history.name
    state.context_usage = _context_usage(session)
    return state


def _get_session_stats(server: PiServer, command: c.GetSessionStats) -> SessionStats:
    session = server.session
    sums = session.usage.totals
    tokens = sums.tokens
    stats = SessionStats(
        session_id=session.history.provider_id or session.history.id,
        user_messages=sums.user_messages,
        assistant_messages=sums.assistant_messages,
        tool_calls=sums.tool_calls,
        tool_results=sums.tool_results,
        total_messages=sums.total_messages,
        tokens=Tokens(tokens.input, tokens.output, tokens.cache_read, tokens.cache_write, tokens.total),
        cost=sums.cost,
    )
    if session.history.path is not None:
        stats.session_file = str(session.history.path)
    stats.context_usage = _context_usage(session)
    return stats


def _context_usage(session: Session) -> ContextUsage | UnsetType:
    usage = session.usage.context
    if usage is None:
        return UNSET
    percent = None if usage.tokens is None else usage.tokens / (usage.window or math.inf) * 100
    return ContextUsage(usage.tokens, usage.window, percent)


def _get_messages(server: PiServer, command: c.GetMessages) -> Spliced:
    return Spliced((b'{"messages":', server.session.history.log.messages_json(), b"}"))


def _get_last_assistant_text(server: PiServer, command: c.GetLastAssistantText) -> c.LastText:
    answer = server.session.history.last_answer()
    return c.LastText(answer.text().strip() or None if answer is not None else None)


async def _set_model(server: PiServer, command: c.SetModel) -> Model:
    if command.persist and server.session.models.find(command.provider, command.model_id):
        server.persist("defaultModel", f"{command.provider}/{command.model_id}")
    model = server.session.models.set_model(command.provider, command.model_id)
    await server.session.extensions.drain_events()
    return model


async def _cycle_model(server: PiServer, command: c.CycleModel) -> c.CycledModel | None:
    cycled = server.session.models.cycle_model()
    await server.session.extensions.drain_events()
    return None if cycled is None else c.CycledModel(*cycled, server.session.thinking)


def _get_available_models(server: PiServer, command: c.GetAvailableModels) -> c.AvailableModels:
    return c.AvailableModels(server.session.models.available())


def _set_thinking_level(server: PiServer, command: c.SetThinkingLevel) -> c.ChosenLevel:
    level = None if command.level == "auto" else command.level
    if command.persist:
        server.persist("defaultThinkingLevel", level)
    server.session.models.set_thinking(level or DEFAULT_LEVEL)
    return c.ChosenLevel(server.session.thinking)


def _cycle_thinking_level(server: PiServer, command: c.CycleThinkingLevel) -> c.ChosenLevel | None:
    level = server.session.models.cycle_thinking()
    return None if level is None else c.ChosenLevel(level)


def _get_available_thinking_levels(server: PiServer, command: c.GetAvailableThinkingLevels) -> c.ThinkingLevels:
    return c.ThinkingLevels(server.session.models.levels())


def _set_steering_mode(server: PiServer, command: c.SetSteeringMode) -> None:
    if command.persist:
        server.persist("steeringMode", command.mode)
    server.session.queue.steering.mode = command.mode


def _set_follow_up_mode(server: PiServer, command: c.SetFollowUpMode) -> None:
    if command.persist:
        server.persist("followUpMode", command.mode)
    server.session.queue.follow_up.mode = command.mode


def _set_interrupt_mode(server: PiServer, command: c.SetInterruptMode) -> None:
    if command.persist:
        server.persist("interruptMode", command.mode)
    server.session.queue.interrupt = command.mode


def _bash(server: PiServer, command: c.Bash) -> Coroutine[Any, Any, c.BashResult]:
    def show(text: str) -> None:
        """Send new output. A host that is behind gets it only with the answer."""
        if not server.outlet.behind:
            server.frames.send(BashExecutionUpdate(id=command.id, delta=text))

    # The command starts immediately, so that an abort_bash right after it finds it.
    running = server.session.host.bash(
        command.command,
        exclude_from_context=bool(command.exclude_from_context),
        on_output=show,
    )
    return _bash_result(server, running)


async def _bash_result(server: PiServer, running: Awaitable[BashDone]) -> c.BashResult:
    done = await running
    message, size = done.message, done.truncation
    result = c.BashResult(message.output, message.cancelled, message.truncated)
    if message.exit_code is not None:
        result.exit_code = message.exit_code
    if message.full_output_path is not None:
        result.full_output_path = message.full_output_path
    if message.cancelled:
        result.output = server.profile.cancelled_bash_prefix + result.output
    if server.profile.counts_bash_output:
        # omp and xcsh count what follows the last newline as a line, even if it is empty.
        last = 1 if message.output.endswith("\n") else 0
        result.total_lines, result.total_bytes = size.total_lines + last, size.total_bytes
        result.output_lines, result.output_bytes = size.output_lines + last, size.output_bytes
    return result


def _set_auto_retry(server: PiServer, command: c.SetAutoRetry) -> None:
    if command.persist:
        server.persist("retry.enabled", command.enabled)
    server.session.activity.auto_retry = command.enabled


def _abort_retry(server: PiServer, command: c.AbortRetry) -> None:
    server.session.activity.cancel_retry()


def _get_tools(server: PiServer, command: c.GetTools) -> c.Tools:
    session = server.session
    active = set(session.tools.active)
    return c.Tools(
        [c.ToolInfo(t.name, t.label or t.name, t.description, t.parameters, t.name in active) for t in session.tools.values()]
    )


def _set_active_tools(server: PiServer, command: c.SetActiveTools) -> c.ActiveTools:
    server.session.tools.activate(command.tools)
    return c.ActiveTools(server.session.tools.active)


async def _get_commands(server: PiServer, command: c.GetCommands | c.GetAvailableCommands) -> c.SlashCommands:
    await server.session.additions.prepare()
    return c.SlashCommands([_slash_command(each) for each in server.session.additions.slash_commands()])


def _slash_command(command: SlashCommand) -> c.SlashCommand:
    origin = command.origin
    info = c.SourceInfo(scrub_text(os.path.normpath(origin.path)), origin.source, origin.scope)
    if origin.base is not None:
        info.base_dir = scrub_text(os.path.normpath(origin.base))
    if origin.package is not None:
        info.source, info.origin = scrub_text(origin.package), "package"
    description = UNSET if command.source == "extension" and not command.description else command.description
    return c.SlashCommand(name=command.name, description=description, source=command.source, source_info=info)


def _set_updates(server: PiServer, command: c.SetUpdates) -> None:
    server.updates.flush()
    server.updates.form = command.updates


async def _shutdown(server: PiServer, command: c.Shutdown) -> None:
    await server.session.abort()
    server.dispatcher.stopping = True


# Urgent requests, before their turn


def _cancel_early(server: PiServer, request: Request, before: Iterable[Request]) -> bool:
    """Cancel everything that runs immediately. The command is still answered in its turn."""
    server.session.activity.cancel()
    return False


def _shut_down_early(server: PiServer, request: Request, before: Iterable[Request]) -> bool:
    server.session.activity.cancel()
    server.dispatcher.leave()
    return False


def _cancel_retry_early(server: PiServer, request: Request, before: Iterable[Request]) -> bool:
    server.session.activity.cancel_retry()
    return False


def _abort_bash_early(server: PiServer, request: Request, before: Iterable[Request]) -> bool:
    """Stop the latest bash command, unless the request means one that has not started yet.

    This happens only once per request, because a second time would stop another command.
    """
    if not request.has_acted and not any(each.name == "bash" for each in before):
        request.has_acted = True
        server.session.host.abort_bash()
    return False


def _abort_bash(server: PiServer, command: c.AbortBash) -> None:
    request = server.dispatcher.current
    if request is None or not request.has_acted:
        server.session.host.abort_bash()


#: The routes that a host is likely to need first. A route does not wait for extensions if it only reads what extensions cannot
#: change, stops something, affects only the connection, or waits for extensions itself.
BASIC_ROUTES: tuple[RequestRoute, ...] = (
    RequestRoute(c.Prompt, _prompt, needs_extensions=False),
    RequestRoute(c.Steer, _steer, needs_extensions=False),
    RequestRoute(c.FollowUp, _follow_up, needs_extensions=False),
    RequestRoute(c.Abort, _abort, needs_extensions=False, urgent=_cancel_early),
    RequestRoute(c.AbortAndPrompt, _abort_and_prompt, needs_extensions=False, urgent=_cancel_early),
    RequestRoute(c.ClearQueue, _clear_queue, needs_extensions=False),
    RequestRoute(c.GetState, _get_state, needs_extensions=False),
    RequestRoute(c.GetSessionStats, _get_session_stats, needs_extensions=False),
    RequestRoute(c.GetMessages, _get_messages, needs_extensions=False),
    RequestRoute(c.GetLastAssistantText, _get_last_assistant_text, needs_extensions=False),
    RequestRoute(c.SetModel, _set_model),
    RequestRoute(c.CycleModel, _cycle_model),
    RequestRoute(c.GetAvailableModels, _get_available_models),
    RequestRoute(c.SetThinkingLevel, _set_thinking_level),
    RequestRoute(c.CycleThinkingLevel, _cycle_thinking_level),
    RequestRoute(c.GetAvailableThinkingLevels, _get_available_thinking_levels),
    RequestRoute(c.SetSteeringMode, _set_steering_mode),
    RequestRoute(c.SetFollowUpMode, _set_follow_up_mode),
    RequestRoute(c.SetInterruptMode, _set_interrupt_mode),
    RequestRoute(c.Bash, _bash, when="late", needs_extensions=False),
    RequestRoute(c.AbortBash, _abort_bash, needs_extensions=False, urgent=_abort_bash_early),
    RequestRoute(c.SetAutoRetry, _set_auto_retry),
    RequestRoute(c.AbortRetry, _abort_retry, needs_extensions=False, urgent=_cancel_retry_early),
    RequestRoute(c.GetTools, _get_tools),
    RequestRoute(c.SetActiveTools, _set_active_tools),
    RequestRoute(c.GetCommands, _get_commands),
    RequestRoute(c.GetAvailableCommands, _get_commands),
    RequestRoute(c.SetUpdates, _set_updates, needs_extensions=False),
    RequestRoute(c.Shutdown, _shutdown, needs_extensions=False, urgent=_shut_down_early),
)
