"""One handler per command: what it does to the session, and what the host gets for it."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, to_builtins

from fairlead.core.lenient import scrub_text
from fairlead.core.model import Model
from fairlead.protocol.pi import commands as c
from fairlead.protocol.pi.command import Command
from fairlead.protocol.pi.state import ContextUsage, SessionStats, State, Tokens
from fairlead.session.session import Session
from fairlead.session.user_bash import BashDone
from fairlead.wire.pi.encode import Handled, Late, Spliced

if TYPE_CHECKING:
    from fairlead.core.messages import UserMessage
    from fairlead.protocol.pi.protocol_2025 import Prompt2025
    from fairlead.session.additions import SlashCommand
    from fairlead.session.hooks import Hooks
    from fairlead.wire.pi.server import Server


async def _prompt(server: Server, command: c.Prompt) -> Late | Handled | None:
    if command.locale is not None:
        from fairlead.wire.pi.omp_handlers import set_locale

        set_locale(server, command.locale)
    wanted = command.streaming_behavior
    behavior = None if wanted is None else "followUp" if wanted == "followUp" else "steer"
    prompt = server.session.prompt(command.message, command.images, source="rpc", behavior=behavior)
    return await submit(server, command, prompt)


async def submit(
    server: Server, command: c.Prompt | c.AbortAndPrompt | Prompt2025, prompt: Coroutine[Any, Any, UserMessage | None]
) -> Late | Handled | None:
    """Hand a prompt to the session. A command of an extension's may take as long as it likes, beside everything else."""
    try:
        hooks = await server.session.ready(stoppable=True)
    except BaseException:
        prompt.close()
        raise
    if hooks is not None and hooks.has_command(command.message):
        prompt.close()  # which would do no more than what follows
        return Late(_run_command(server, hooks, command))
    message = await prompt
    if message is None:
        return Handled()
    if server.outcomes is not None:
        server.outcomes.accepted(message, command.id)
    return None


async def _run_command(server: Server, hooks: Hooks, command: c.Prompt | c.AbortAndPrompt | Prompt2025) -> Handled:
    done = Handled(runs_before=None if server.outcomes is None else server.outcomes.unprompted_runs)

    def acknowledge() -> None:
        if server.profile.early_command_answers and not done.is_answered:
            done.is_answered = True
            server.acknowledge(command)

    await hooks.run_command(command.message, acknowledge)
    return done


async def _steer(server: Server, command: c.Steer) -> None:
    await server.session.steer(command.message, command.images, source="rpc")


async def _follow_up(server: Server, command: c.FollowUp) -> None:
    await server.session.follow_up(command.message, command.images, source="rpc")


async def _abort(server: Server, command: c.Abort) -> None:
    await server.session.abort()


async def _abort_and_prompt(server: Server, command: c.AbortAndPrompt) -> Late | Handled | None:
    await server.session.abort()
    prompt = server.session.prompt(command.message, command.images, source="rpc")
    return await submit(server, command, prompt)


def _clear_queue(server: Server, command: c.ClearQueue) -> c.ClearedQueue:
    cleared = c.ClearedQueue(*server.session.clear_queue())
    if server.outcomes is not None and not server.session.is_streaming:  # else at the end of the run
        server.outcomes.report()
    return cleared


def _get_state(server: Server, command: c.GetState) -> State | Coroutine[Any, Any, State]:
    verbose = command.verbose or server.profile.verbose_state
    return _verbose_state(server) if verbose else _state(server)


async def _verbose_state(server: Server) -> State:
    session = server.session
    await session.prepare()
    state = _state(server)
    state.system_prompt = session.system_prompt()
    state.dump_tools = [session.tools[name].spec() for name in session.active_tools]
    return state


def _state(server: Server) -> State:
    session = server.session
    state = State(
        model=session.model,
        is_streaming=session.is_streaming,
        is_settled=not session.is_streaming,
        is_compacting=session.compactor.is_running,
        steering_mode=session.queues.steering.mode,
        follow_up_mode=session.queues.follow_up.mode,
        interrupt_mode=session.queues.interrupt,
        session_id=session.id,
        auto_compaction_enabled=session.compactor.enabled,
        message_count=session.conversation.count,
        pending_message_count=len(session.queues),
        queued_message_count=len(session.queues),
        todo_phases=to_builtins(session.todos.phases),
        thinking_level=_shown_level(server),
    )
    if session.conversation.path is not None:
        state.session_file = str(session.conversation.path)
    if session.conversation.name is not None:
        state.session_name = session.conversation.name
    if session.model is not None:
        state.context_usage = _context_usage(session, session.model)
    return state


def _get_session_stats(server: Server, command: c.GetSessionStats) -> SessionStats:
    from fairlead.session.stats import totals

    session = server.session
    sums = totals(session.conversation.log)
    tokens = sums.tokens
    stats = SessionStats(
        session_id=session.id,
        user_messages=sums.user_messages,
        assistant_messages=sums.assistant_messages,
        tool_calls=sums.tool_calls,
        tool_results=sums.tool_results,
        total_messages=sums.total_messages,
        tokens=Tokens(tokens.input, tokens.output, tokens.cache_read, tokens.cache_write, tokens.total),
        cost=sums.cost,
    )
    if session.conversation.path is not None:
        stats.session_file = str(session.conversation.path)
    if session.model is not None:
        stats.context_usage = _context_usage(session, session.model)
    return stats


def _shown_level(server: Server) -> Any:
    session = server.session
    if not server.profile.shows_level_off and (session.model is None or not session.model.reasoning):
        return UNSET
    return session.thinking


def _context_usage(session: Session, model: Model) -> ContextUsage:
    tokens, window = session.conversation.context_tokens(), session.room.window(model)
    percent = None if tokens is None else tokens / (window or math.inf) * 100
    return ContextUsage(tokens, window, percent)


def _get_messages(server: Server, command: c.GetMessages) -> Spliced:
    return Spliced((b'{"messages":', server.session.conversation.log.messages_json(), b"}"))


def _get_last_assistant_text(server: Server, command: c.GetLastAssistantText) -> c.LastText:
    answer = server.session.conversation.last_answer()
    return c.LastText(answer.text() if answer is not None else None)


def _set_model(server: Server, command: c.SetModel) -> Model:
    if command.persist and server.session.selection.find(command.provider, command.model_id):
        server.persist("defaultProvider", command.provider)
        server.persist("defaultModel", command.model_id)
    return server.session.selection.set_model(command.provider, command.model_id)


def _cycle_model(server: Server, command: c.CycleModel) -> c.CycledModel | None:
    cycled = server.session.selection.cycle_model()
    return None if cycled is None else c.CycledModel(*cycled, _shown_level(server))


def _get_available_models(server: Server, command: c.GetAvailableModels) -> c.AvailableModels:
    return c.AvailableModels(server.session.selection.available())


def _set_thinking_level(server: Server, command: c.SetThinkingLevel) -> None:
    if command.persist:
        server.persist("defaultThinkingLevel", command.level)
    server.session.selection.set_thinking(command.level)


def _cycle_thinking_level(server: Server, command: c.CycleThinkingLevel) -> c.CycledLevel | None:
    level = server.session.selection.cycle_thinking()
    return None if level is None else c.CycledLevel(level)


def _get_available_thinking_levels(server: Server, command: c.GetAvailableThinkingLevels) -> c.ThinkingLevels:
    return c.ThinkingLevels(server.session.selection.levels())


def _set_steering_mode(server: Server, command: c.SetSteeringMode) -> None:
    if command.persist:
        server.persist("steeringMode", command.mode)
    server.session.queues.steering.mode = command.mode


def _set_follow_up_mode(server: Server, command: c.SetFollowUpMode) -> None:
    if command.persist:
        server.persist("followUpMode", command.mode)
    server.session.queues.follow_up.mode = command.mode


def _set_interrupt_mode(server: Server, command: c.SetInterruptMode) -> None:
    if command.persist:
        server.persist("interruptMode", command.mode)
    server.session.queues.interrupt = command.mode


def _bash(server: Server, command: c.Bash) -> Coroutine[Any, Any, c.BashResult]:
    # Started here and now: an abort_bash right behind it must find it.
    running = server.session.commands.run(
        command.command,
        exclude_from_context=bool(command.exclude_from_context),
        on_output=lambda text: server.show_output(command.id, text),
    )
    return _bash_result(server, running)


async def _bash_result(server: Server, running: Awaitable[BashDone]) -> c.BashResult:
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
        # omp and xcsh count what follows the last newline as a line, also when nothing does.
        last = 1 if message.output.endswith("\n") else 0
        result.total_lines, result.total_bytes = size.total_lines + last, size.total_bytes
        result.output_lines, result.output_bytes = size.output_lines + last, size.output_bytes
    return result


def _abort_bash(server: Server, command: c.AbortBash) -> None:
    server.abort_bash()


def _set_auto_retry(server: Server, command: c.SetAutoRetry) -> None:
    if command.persist:
        server.persist("retry.enabled", command.enabled)
    server.session.attempts.enabled = command.enabled


def _abort_retry(server: Server, command: c.AbortRetry) -> None:
    server.session.attempts.call_off()


def _get_tools(server: Server, command: c.GetTools) -> c.Tools:
    session = server.session
    active = set(session.active_tools)
    return c.Tools(
        [c.ToolInfo(t.name, t.label or t.name, t.description, t.parameters, t.name in active) for t in session.tools.values()]
    )


def _set_active_tools(server: Server, command: c.SetActiveTools) -> c.ActiveTools:
    server.session.set_active_tools(command.tools)
    return c.ActiveTools(server.session.active_tools)


async def _get_commands(server: Server, command: c.GetCommands | c.GetAvailableCommands) -> c.SlashCommands:
    await server.session.prepare()
    return c.SlashCommands([_slash_command(each) for each in server.session.slash_commands()])


def _slash_command(command: SlashCommand) -> c.SlashCommand:
    origin = command.origin
    info = c.SourceInfo(scrub_text(str(origin.path)), origin.source, origin.scope)
    if origin.base is not None:
        info.base_dir = scrub_text(str(origin.base))
    return c.SlashCommand(command.name, command.description, command.source, info)


def _set_updates(server: Server, command: c.SetUpdates) -> None:
    server.updates.flush()
    server.updates.form = command.updates


async def _shutdown(server: Server, command: c.Shutdown) -> None:
    await server.session.abort()
    server.stopping = True


#: Those of the basic commands. `all_handlers` has them all; it is loaded when another command is asked for.
BASIC_HANDLERS: dict[type[Command], Callable[..., Any]] = {
    c.Prompt: _prompt,
    c.Steer: _steer,
    c.FollowUp: _follow_up,
    c.Abort: _abort,
    c.AbortAndPrompt: _abort_and_prompt,
    c.ClearQueue: _clear_queue,
    c.GetState: _get_state,
    c.GetSessionStats: _get_session_stats,
    c.GetMessages: _get_messages,
    c.GetLastAssistantText: _get_last_assistant_text,
    c.SetModel: _set_model,
    c.CycleModel: _cycle_model,
    c.GetAvailableModels: _get_available_models,
    c.SetThinkingLevel: _set_thinking_level,
    c.CycleThinkingLevel: _cycle_thinking_level,
    c.GetAvailableThinkingLevels: _get_available_thinking_levels,
    c.SetSteeringMode: _set_steering_mode,
    c.SetFollowUpMode: _set_follow_up_mode,
    c.SetInterruptMode: _set_interrupt_mode,
    c.Bash: _bash,
    c.AbortBash: _abort_bash,
    c.SetAutoRetry: _set_auto_retry,
    c.AbortRetry: _abort_retry,
    c.GetTools: _get_tools,
    c.SetActiveTools: _set_active_tools,
    c.GetCommands: _get_commands,
    c.GetAvailableCommands: _get_commands,
    c.SetUpdates: _set_updates,
    c.Shutdown: _shutdown,
}

#: Commands that may be answered after ones that came later.
BASIC_LATE: frozenset[type[Command]] = frozenset({c.Bash})
