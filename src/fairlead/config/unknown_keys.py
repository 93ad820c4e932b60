"""Keys of settings.json and models.json that mean nothing to fairlead: most are misspelt."""

from __future__ import annotations

from collections.abc import Iterable

#: Keys that are not fairlead's but may be in its files, because pi reads and writes them, or editors do.
KNOWN_TO_PI = frozenset(
    """$schema packages themes theme transport terminal markdown warnings quietStartup collapseChangelog lastChangelogVersion
    hideThinkingBlock doubleEscapeAction treeFilterMode editorPaddingX outputPad autocompleteMaxVisible showHardwareCursor
    showCacheMissNotices enableInstallTelemetry enableAnalytics externalEditor npmCommand branchSummary httpProxy
    websocketConnectTimeoutMs cacheWarming defaultTools modelThinkingLevels compaction.modelOverrides retry.provider
    useTheme tuiMode""".split()
)


def unknown_key(name: str, known: Iterable[str]) -> str:
    """Return the warning about a key that fairlead does not know, with the nearest one that it does."""
    return f"{name}: there is no such key, so it has no effect.{nearest_key(name, known)}"


def nearest_key(name: str, known: Iterable[str]) -> str:
    """Return the question whether the nearest known key was meant, after a space; an empty text if none is near."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), 1, 0.7)
    return f" Did you mean {near[0]}?" if near else ""
