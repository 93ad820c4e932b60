#!/usr/bin/env bash
# Does what a newcomer does: clones the repository, then runs the first commands that README and the docs show, in an empty
# environment with an empty home and without caches: `make run`, an installation with pip, and some of `make test`. Prints how long each took and how much it put on the disk. Only the settings of pip, npm and proxies are kept.
#
#     scripts/fresh_clone.sh [TARGET OF pytest...]
#     scripts/fresh_clone.sh --only-run    without `make test`
set -eu
cd "$(dirname "$0")/.."
source=$PWD
[ $# -gt 0 ] || set -- tests/core

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/home"
kept=("HOME=$folder/home" "PATH=$PATH" "LANG=C.UTF-8" "TERM=dumb")
while IFS='=' read -r name _; do
  case $name in PIP_* | npm_config_* | NPM_CONFIG_* | NODE_EXTRA_CA_CERTS | *_proxy | *_PROXY | SSL_CERT_FILE) kept+=("$name=${!name}") ;; esac
done < <(env)
for config in "${PIP_CONFIG_FILE:-}" "$HOME/.config/pip/pip.conf" "$HOME/.pip/pip.conf"; do
  if [ -n "$config" ] && [ -f "$config" ]; then kept+=("PIP_CONFIG_FILE=$config"); break; fi
done

git clone --quiet "file://$source" "$folder/clone"
cd "$folder/clone"
git -C "$source" diff --quiet HEAD || echo "note: changes that are not committed are not in the clone"

measure() {
  local begin=$SECONDS
  printf '\n== %s\n' "$*"
  env -i "${kept[@]}" timeout 900 "$@" </dev/null
  printf '== %s: %d s, %d MB in the clone, %d MB in the home\n' \
    "$*" $((SECONDS - begin)) "$(du -sm . | cut -f1)" "$(du -sm "$folder/home" | cut -f1)"
}

measure make help
measure make run
measure python3 -m venv "$folder/home/fairlead-venv"
measure "$folder/home/fairlead-venv/bin/pip" install --quiet '.[chat]'
measure "$folder/home/fairlead-venv/bin/fairlead" --version
measure "$folder/home/fairlead-venv/bin/pip" install --quiet '.[all]'
measure env ANTHROPIC_API_KEY=any "$folder/home/fairlead-venv/bin/fairlead" doctor --offline
[ "$1" = --only-run ] || measure make test "ARGS=-q $*"
