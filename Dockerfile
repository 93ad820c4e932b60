# fairlead in a container. It works on the folder that is mounted at /work:
#
#     docker build -t fairlead .
#     docker run --rm -e ANTHROPIC_API_KEY -v "$PWD:/work" fairlead -p "What is in this folder?"
#     docker run --rm -it -e ANTHROPIC_API_KEY -v "$PWD:/work" fairlead
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN PIP_CONSTRAINT=/src/constraints.txt pip install --no-cache-dir --prefix=/install ".[chat,html,rg]"

FROM python:3.12-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bash git \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /install /usr/local
RUN useradd --create-home agent && git config --system --add safe.directory /work
USER agent
WORKDIR /work
ENTRYPOINT ["fairlead"]
CMD ["--help"]
