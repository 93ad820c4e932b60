"""Slash commands: what a prompt that begins with `/name` stands for."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.extend.skills import Skill, require_skill
from fairlead.extend.templates import Template
from fairlead.session.additions import SlashCommand

SKILL = "skill:"


def listed(templates: Mapping[str, Template], skills: Mapping[str, Skill]) -> list[SlashCommand]:
    """All commands, as hosts are told of them."""
    prompts = [SlashCommand(each.name, each.description, "prompt", each.origin) for each in templates.values()]
    return prompts + [SlashCommand(SKILL + each.name, each.description, "skill", each.origin) for each in skills.values()]


def expanded(text: str, templates: Mapping[str, Template], skills: Mapping[str, Skill] | None) -> str:
    """What `text`, which begins with a slash, stands for. With no skills at all (None), `/skill:name` is plain text.

    A name that nobody has is plain text: it may be a path. But `/skill:` cannot be anything else, and a skill that is not
    there must not reach the model as a word: raises ConfigError.
    """
    words = text[1:].split(None, 1)
    if not words or not text.startswith(words[0], 1):
        return text
    name, arguments = words[0], words[1].strip() if len(words) > 1 else ""
    if name in templates:
        return templates[name].filled(arguments)
    if skills is None or not name.startswith(SKILL):
        return text
    return require_skill(name.removeprefix(SKILL), skills).invoked(arguments)
