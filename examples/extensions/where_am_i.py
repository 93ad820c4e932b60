"""`/where` shows what an extension can see: the agent, its environment, the session."""

from __future__ import annotations

from fairlead.extension import CommandContext, Fairlead


def setup(fl: Fairlead) -> None:
    @fl.register_command("where", description="Show what an extension can see")
    def where(arguments: str, context: CommandContext) -> None:
        session, usage = context.session, context.context_usage
        share = "unknown" if usage is None or usage.percent is None else f"{usage.percent:.1f} % of {usage.window}"
        lines = [
            f"extension: {fl.name}",
            f"mode: {context.mode}",
            f"directory: {context.cwd} ({'trusted' if context.is_project_trusted else 'not trusted'})",
            f"session: {session.id}, {session.name or 'without a name'}, {session.file or 'in memory'}",
            f"messages: {len(session.messages())}",
            f"context: {share}",
            f"system prompt: {len(context.system_prompt)} characters",
            f"commands: {', '.join(command.name for command in fl.get_commands())}",
            f"idle: {context.is_idle}, messages wait: {context.has_pending_messages}",
        ]
        context.ui.set_widget("where", lines)
