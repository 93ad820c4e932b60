"""Makes the model answer in a language: `--language French`. The session's system prompt does not change."""

from __future__ import annotations

from fairlead.extension import Fairlead, ModelContextWithSystem, Replace


def setup(fl: Fairlead) -> None:
    language = fl.register_flag("language", "string", description="The language to answer in")

    @fl.on("context_with_system")
    def translate(event: ModelContextWithSystem) -> Replace | None:
        if language is None:
            return None
        return Replace(system_prompt=f"{event.system_prompt}\n\nAnswer in {language}, whatever language you are asked in.")
