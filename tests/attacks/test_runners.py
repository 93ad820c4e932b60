"""A rule that denies a command sees it behind the programs that run others."""

from __future__ import annotations

import pytest
from tests.policy.verdicts import verdict

RUNNERS = """
    npm exec|npm exec --|npm x --|npm --silent exec|npm exec -c|npx|npx -y|npx --|npx -c|pnpm exec|pnpm dlx
    pnpm --dir x exec|pnpx|yarn exec|yarn dlx|yarn node|bunx|bun x|bun run|bun exec|conda run|conda run -n x
    conda run --no-capture-output|mamba run -n x|micromamba run|pixi run|bundle exec|bundler exec|mise exec --
    mise x --|mise exec node@20 --|asdf exec|rtx exec --|rbenv exec|pyenv exec|fnm exec --using=20|nvm exec 20
    volta run|fd -x|fd . -x|fd -HX|fd --exec|fd --exec-batch|fd . --exec=|fd -x=|fdfind . -x|fd -e py -x|tini --
    tini -s --|tini-static|dumb-init|dumb-init --|catatonit --|gosu user|su-exec user|s6-setuidgid user
    setuidgid user|runuser -u x --|setpriv --reuid=1|chrt -f 1|ionice -c3|taskset 1|numactl -N 0|unshare -r
    nsenter -t 1 -m|chroot /x|firejail|bwrap --ro-bind / /|systemd-run --user|systemd-inhibit|watch|watch -n 1
    parallel :::|entr|entr -r|strace -f|ltrace|gdb --args|valgrind|perf stat|perf record --|hyperfine|time|time -p
    script -c|poetry run|uv run|uv run --with x|uvx|uv tool run|pipx run|hatch run|pdm run|rye run|pipenv run
    direnv exec .|nix run nixpkgs#x --|nix shell nixpkgs#x -c|nix develop -c|nix develop --command|nix-shell --run
    docker run x|docker run --rm -it x|docker exec c|docker exec -it c|docker compose run x|docker compose exec x
    docker run --entrypoint|docker run --entrypoint=|podman exec c|podman run x|nerdctl run x|docker-compose exec x
    kubectl exec pod --|kubectl exec -it pod -c x --|kubectl run x --image=y --command --|oc exec pod --|ssh host
    ssh -p 22 host --|flock x|nohup|stdbuf -o0|setsid|setsid -w|doas|doas -u x|sudo|sudo -u x|sudo -E --|pkexec
    busybox|toybox|env|env -u X|nice -n 5|/lib64/ld-linux-x86-64.so.2|/lib/ld-musl-x86_64.so.1
    /lib/libc.musl-x86_64.so.1|ld.so|exec -a x|command|builtin command|git bisect run|git -C x bisect run
    git submodule foreach|git submodule foreach --recursive|git submodule --quiet foreach|git rebase -x
    git rebase --exec|git rebase --exec=|git rebase -i --exec|git difftool -x|git difftool --extcmd=|rtk|eatmydata
    faketime x|lxc exec c --|lxc-attach -n c --|multipass exec c --|toolbox run|distrobox enter x --
    flatpak run --command=|doppler run --|op run --|aws-vault exec x --|chamber exec x --|dotenv|dotenvx run --
    sops exec-env x|heroku run|guix shell x --|tox exec --|lerna exec --|nx exec --|retry|ifne|chronic|cgexec -g x
    rr record|xvfb-run|rlwrap|adb shell|vagrant ssh -c|rg --pre|rg --pre=|tar -xf x -I|tar xf x --to-command=
    tar xf x --to-command|tar cf x y --checkpoint-action=exec=|sort --compress-program=|rsync -e
    corepack pnpm exec|devbox run --|pixi exec|opam exec --|stack exec|cabal exec --|dune exec --|composer exec --
    singularity exec x|apptainer exec x|cargo watch --|cross-env A=1|env-cmd|concurrently|ccache|mpirun -n 2|srun
    xcrun|arch -x86_64|sandbox-exec -p x|wsl -e|aa-exec -p x|capsh -- -c|pee|pkgx +x --
""".replace("\n", "|")
EVERY = [runner.strip() for runner in RUNNERS.split("|") if runner.strip()]


def behind(runner: str, command: str) -> str:
    return f"{runner}{command}" if runner.endswith("=") else f"{runner} {command}"


@pytest.mark.parametrize("runner", EVERY)
def test_a_denied_command_is_seen_behind_what_runs_it(runner: str) -> None:
    for command in ("rm x", "/bin/rm x", "'rm' x"):
        line = behind(runner, command)
        for text in (line, f"true; {line}", f"echo x | {line}", f"env {line}", f"timeout 5 {line}"):
            assert verdict(text, ("deny", "bash", "rm *")) == "deny", text


@pytest.mark.parametrize("runner", [runner for runner in EVERY if not runner.startswith(("ionice", "taskset"))])
def test_a_shell_behind_it_is_seen_too(runner: str) -> None:
    assert verdict(behind(runner, "sh -c 'rm x'"), ("deny", "bash", "rm *")) == "deny"
    assert verdict(behind(runner, "env -S 'rm x'"), ("deny", "bash", "rm *")) == "deny"


@pytest.mark.parametrize(
    "line",
    [
        "coproc rm x",
        "npm exec -c 'rm x'",
        "npm exec --call='rm x'",
        "npm exec --call=rm",
        "git rebase -x 'rm x' main",
        "git rebase --exec='rm x' main",
        "git submodule foreach 'rm x'",
        "git bisect run sh -c 'rm x'",
        "fd -xrm",
        "fd -Hxrm",
        "hyperfine 'rm x'",
        "docker exec c sh -c 'rm x'",
        "echo rm x | docker exec -i c sh",
        "ssh host 'rm x'",
        "script -qc 'rm x' log",
        "nix-shell -p x --run 'rm x'",
        "watch 'rm x'",
        "mise exec -- sh -c 'rm x'",
    ],
)
def test_a_line_in_an_argument_is_seen(line: str) -> None:
    assert verdict(line, ("deny", "bash", "rm *")) == "deny"


@pytest.mark.parametrize(
    "line",
    [
        "npm install",
        "npm test",
        "npm run build",
        "npm exec eslint .",
        "npx tsc --noEmit",
        "pnpm exec tsc",
        "yarn build",
        "docker ps",
        "docker run x ls",
        "docker run --rm x ls",
        "kubectl get pods",
        "git commit -m 'rm x'",
        "git commit -m 'run rm x'",
        "git checkout run",
        "git clean -x",
        "git bisect start",
        "git submodule update",
        "fd -e py",
        "fd rm",
        "tar -xf rm.tar",
        "rg -e rm x",
        "bundle install",
        "conda install x",
        "nix build",
        "mise install",
        "uv pip install x",
        "ssh host ls",
        "sort -u x",
    ],
)
def test_other_uses_of_these_programs_are_left_alone(line: str) -> None:
    assert verdict(line, ("deny", "bash", "rm *")) == "allow"
