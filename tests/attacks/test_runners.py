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
    xcrun|arch -x86_64|sandbox-exec -p x|wsl -e|aa-exec -p x|capsh -- -c|pee|pkgx +x --|npm exe|npm exec -w a --
    npm --prefix=d x --|pnpm -r exec|pnpm --filter x exec|pnpm run|yarn run|yarn workspaces foreach -A exec|bun --bun x
    bundle e|bundle exe|docker-init --|/sbin/docker-init -s --|s6-envdir d|s6-setlock f|execlineb -Pc|setlock f|my_init --
    ip netns exec ns|ip vrf exec v|runc exec c|crun exec c|ctr task exec c|crictl exec c|incus exec c --|lxc-execute -n c --
    systemd-nspawn -D d|schroot -c x --|arch-chroot /x|qemu-x86_64|qemu-aarch64-static|wine|box64|rush|dtach -n s|abduco -n s
    zellij run --|byobu|chokidar x -c|onchange x --|just --command|just -c|rustup run stable|swiftly run|proto run x --
    aqua exec --|flox activate --|devenv shell|pew in x|rvm 3.2 do|rvm exec|chruby-exec 3.2 --|foreman run|honcho run
    goenv exec|asdf env node|n exec 20|envconsul|teller run --|oc rsh pod|minikube ssh --|minikube kubectl -- exec pod --
    k3s kubectl exec pod --|k exec pod --|docker container exec c|podman machine ssh|colima ssh --|limactl shell x|lima
    fly ssh console -C|gcloud compute ssh x --command|gcloud compute ssh x --command=|tsh ssh host|rsh host|ansible all -a
    scp -S|ssh -o ProxyCommand=|ssh -oProxyCommand=|sudo-rs|please|gtimeout 5|genv|gnohup|gxargs|gfind . -exec|gtar xf x -I
    bsdtar -xf x --use-compress-program|gsort --compress-program|git grep --open-files-in-pager=|git grep -O|tsp|nq
    git filter-branch --tree-filter|git fetch --upload-pack=|gh codespace ssh --|go run -exec|go vet -vettool=|xterm -e
    kitty|wezterm start --|asciinema rec -c|sbatch --wrap=|cmake -E env A=b|cmake -E time|cmake -E chdir d|meson devenv
    bazel run --run_under=|leaks --atExit --|trace-cmd record|samply record|py-spy record --|kcov d|flatpak-spawn --host
    bfs . -exec|jj util exec --|podman unshare|buildah unshare|buildah run c|heroku local:run|railway run|mirrord exec -t x --
    telepresence connect --|dagger run|envchain x|ghostty -e|qsub|condor_run|ch-run i --|udocker run i|enroot start i|tart exec v
    orb|orbctl run|lckdo f|coreutils|nocorrect|noglob|repeat 3|wgo|socksify|expect_unbuffer|daemon --|netlify dev:exec
    firebase emulators:exec|knife ssh x|bolt command run|npm run env --|git clone -u|git send-email --sendmail-cmd=
    just --shell|ctr run i c
    distrobox-enter x --|run-one|python -m pipenv run|python3 -m uv run|pypy3.9 -m poetry run
    pnpm|pnpm -r|npm rum env --|npm urn env|gum spin --|dvc run -n x|dvc stage add -n x|ray exec c|ray job submit --
    zip a b -T -TT|torchrun --no-python|horovodrun -np 2|deepspeed --no_python|fzf --preview|fzf --preview=
    wget --use-askpass=|steam-run
    compute-sanitizer
    kubie exec c n|shadowenv exec --|devcontainer exec|devcontainer exec --workspace-folder .|sky exec c|berglas exec --
    varlock run --|fnox exec --|hermit exec|vfox exec x --|ghcup run --ghc 9 --|gitlab-runner exec shell|unheard-of exec
    unheard-of exec x --|unheard-of run -p x --|unheard-of --quiet exec|unheard-of --exec=|unheard-of --command
    unheard-of x y --exec|ddev exec|sail exec|virtctl ssh x --command=|yt-dlp --exec|az container exec --exec-command=
    watchmedo shell-command -c|etcdctl watch k --|kubecolor exec p --|pixi r|yarn create x|nc -e|ncat --sh-exec
    ncat -l 1 -c|cpio --rsh-command=|tar --new-volume-script=|restic --password-command=|borg with-lock r|brew bundle exec
    brew sh -c|finch exec c|container run i|podman-remote exec c|proto exec x --|lando exec x --|cargo exec|nvs run 20
    heroku ps:exec --|pct exec 1 --|qm guest exec 1 --|minijail0|nsjail -Mo --|landrun --rox /|srt|srt -c
    distrobox-host-exec|multitime|ttyd -p 1|websocketd --port=1|tcpserver 0 1|systemd-socket-activate -l 1|tilix -e
    dbclient host|dsh -m h|jsrun|prun|qrsh|pfexec|dzdo|gksudo|summon -f x|dnx|hupper -m|watchman-make -p x -t
    launchctl asuser 501|sftp -D
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
        "bash-5.2 -c 'rm x'",
        "ksh93 -c 'rm x'",
        "pwsh -Command 'rm x'",
        "nu -c 'rm x'",
        "cmd.exe /c 'rm x'",
        "bash-static -c 'rm x'",
        "ssh -o ProxyCommand='rm x' host",
        "git filter-branch --tree-filter 'rm x' HEAD",
        "echo rm x | yash",
        "git -c alias.x='!rm x' x",
        "git -c alias.x=!rm x y",
        "env git -calias.x='!rm x' x",
        "git -ccore.sshCommand=/bin/rm fetch",
        "git -c core.pager='rm x' log",
        "hg --config alias.x='!rm x' x",
        "gdb -ex 'shell rm x'",
        "gdb -batch -ex '!rm x'",
        "socat - EXEC:'rm x'",
        "socat - 'SYSTEM:rm x'",
        "PAGER='rm x' git log",
        "EDITOR='rm x' git commit",
        "GIT_SSH_COMMAND='rm x' git fetch",
        "LESSOPEN='|rm x' less y",
        "env GIT_EXTERNAL_DIFF='rm x' git diff",
        "cross-env-shell 'rm x'",
        "expect -c 'spawn rm x'",
        "fzf --bind 'enter:execute(rm x)'",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.pager GIT_CONFIG_VALUE_0='rm x' git -p log",
        "GIT_CONFIG_PARAMETERS=\"'core.pager=rm x'\" git -p log",
        "env TAR_OPTIONS=--to-command=rm tar xf x",
        "LD_PRELOAD=./evil.so ls",
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
        "python -m pytest rm",
        "ip addr show",
        "go test ./rm",
        "cmake -E rm",
        "pnpm run build",
        "pnpm install",
        "pnpm add x",
        "pnpm -r test",
        "zip x.zip rm.txt",
        "fzf --preview 'cat {}'",
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
        "git push -u origin main",
        "git -c user.name=me commit -m rm",
        "git -c color.ui=always diff",
        "PAGER=cat git log",
        "EDITOR=vim git commit",
        "NAME='rm x' make",
        "grep exec rm",
        "grep -rn exec -- rm",
        "echo exec rm x",
        "mytool run rm",
        "mytool -- rm",
        "mytool test -- rm",
        "cargo run -- rm",
        "npm run build -- rm",
        "make exec rm",
        "nc host 80",
        "rm-tool exec x",
    ],
)
def test_other_uses_of_these_programs_are_left_alone(line: str) -> None:
    assert verdict(line, ("deny", "bash", "rm *")) == "allow"
