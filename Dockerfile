# fairlead in a container. It works on the folder that is mounted at /work:
#
#     docker build -t fairlead .
#     docker run --rm -e ANTHROPIC_API_KEY -v "$PWD:/work" fairlead -p "What is in this folder?"
#     docker run --rm -it -e ANTHROPIC_API_KEY -v "$PWD:/work" fairlead
FROM python:3.12-slim AS build
# The extras to install: `serve` for the server, `mcp` for MCP servers.
ARG EXTRAS=chat,html,rg
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN PIP_CONSTRAINT=/src/constraints.txt pip install --no-cache-dir --prefix=/install ".[${EXTRAS}]"

FROM python:3.12-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bash git \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /install /usr/local
# A volume at .fairlead gets its owner from this folder. Everyone may write here, so that any --user can run it.
RUN useradd --create-home agent \
    && install --directory --owner=agent --mode=1777 /home/agent/.fairlead \
    && chmod 1777 /home/agent \
    && git config --system --add safe.directory /work
# The user below may not write compiled modules, and this image of Python has none: without them, each start takes longer.
RUN echo '{"type": "get_state"}' | FAIRLEAD_HOME=/tmp/fairlead fairlead --mode rpc >/dev/null \
    && rm -rf /tmp/fairlead
ENV HOME=/home/agent
USER agent
WORKDIR /work
ENTRYPOINT ["fairlead"]
