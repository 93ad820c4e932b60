"""Lists programs that run other programs, and where in their arguments these stand. See `fairlead.policy.runners`."""

from __future__ import annotations

import re

#: Programs that run a command given in their arguments.
RUNNERS = frozenset(
    """, . aa-exec abduco alacritty annotate-output ansible appimage-run aprun arch arch-chroot asciinema ash assume austin
    autossh bash bash-static bear bfs box64 box86 bsub bubblejail builtin bunx busybox busybox-static bwrap byobu
    cached-nix-shell caffeinate capsh catatonit catchsegv ccache cgexec ch-run chokidar choom chpst chronic chroot
    chrt chruby-exec clush cmd comma command compiledb compute-sanitizer concurrently condor_run corepack coreutils
    cpulimit cronic cross-env cross-env-shell csh daemon daemonize dash dbclient dbus-launch dbus-run-session
    deepspeed direnv distcc distrobox-enter distrobox-host-exec dnx doas docker-init dockerize dotenv dotenvx dotslash
    dsh dtach dtruss dumb-init dzdo eatmydata elvish entr env env-cmd envchain envconsul envdir envuidgid es esy et
    eval exec execlineb expect expect_unbuffer fab fakechroot fakeroot fakeroot-ng faketime faketty fdmove find
    firejail fish flamegraph flatpak-spawn flock foot foreground forever gargs gdb ghostty gksu gksudo gnome-terminal
    gosu gotty gow graftcp heaptrack horovodrun host-spawn hupper hush hyperfine ibrun ifne intercept-build ion ionice
    jchroot jobs jsrun justc-envdir kcov kdesu kdesudo keep-one-running kitten kitty konsole ksh landrun latrace lckdo
    ledit libeatmydata lima linux32 linux64 lksh lldb logsave loksh ltrace lxc-attach lxc-execute lxterminal
    mate-terminal memusage minijail0 mintty mispipe mksh mosh mpiexec mpirun mprof multilog multitime murex my_init
    ncu nice nix-shell nix-user-chroot nocache nocorrect nodemon noglob nohup npm-run-all npm-run-all2 npx nq nsenter
    nsjail nu numactl oarsub oil oksh onchange orb orterun osh parallel parallel-ssh pasta pbrun pdsh pee perf pfexec
    pgrphack pidproxy pipenv pkexec pkgx please plink pnpx poetry poop posh powershell prlimit proot proxychains
    proxychains4 prun pssh ptyxis pwsh py-spy qrsh qsub rbash rc rdo reflex repeat retry rlwrap rr rsh rtk run-one
    run-one-constantly run-one-until-failure run-one-until-success run-p run-s run-this-one run0 runas runcon runuser
    rush s6-applyuidgid s6-envdir s6-envuidgid s6-setlock s6-setsid s6-setuidgid s6-softlimit s6-sudo salloc salt
    samply sandbox-exec sandlock sash scan-build sccache schroot screen script sem setarch setlock setpriv setsid
    setuidgid setuser sg sh shell socat socksify softlimit source spawn srt srun ssh ssh-agent sshpass st
    start-stop-daemon static-sh stdbuf steam-run strace su su-exec sudo sudo-rs summon switch_root systemd-cat
    systemd-inhibit systemd-nspawn systemd-run systemd-socket-activate taskset tcpserver tcpsvd tcsh terminator
    throttle tilix time timeout tini tini-static tmux torchrun torify torsocks toybox trap trickle ts tsocks tsp ttyd
    uclampset udpsvd uftrace unbuffer unshare urxvt uutils uv uvx valgrind wait-for wait-for-it watch watchexec
    watchman watchman-make watchmedo websocketd wgo when-changed wine wine64 winpty with-contenv wsl wslexec
    x-terminal-emulator xargs xcrun xfce4-terminal xonsh xterm xvfb-run yash ysh zrun zsh""".split()
)
#: Programs that run a command after one of these words. More than one word means that they follow each other, in this order.
#: Without a word, any argument may be the command.
SUBCOMMANDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        "aqua aws-vault chamber fnm goenv jenv lerna nodenv nx phpenv plenv pyenv rbenv saml2aws tox".split(), ("exec",)
    ),
    **dict.fromkeys("bundle bundler".split(), ("e", "ex", "exe", "exec")),
    **dict.fromkeys("doppler flatpak forego foreman hatch honcho infisical op pdm pipx".split(), ("run",)),
    **dict.fromkeys(
        "dagger enroot memray orbctl rustup rye snap swiftly symfony teller toolbox udocker volta".split(),
        ("run", "start"),
    ),
    **dict.fromkeys("conda mamba micromamba".split(), ("exec", "run")),
    **dict.fromkeys(
        "container docker docker-compose finch nerdctl podman podman-compose podman-remote".split(),
        ("debug", "exec", "run", "ssh", "unshare"),
    ),
    **dict.fromkeys("k kubectl oc".split(), ("debug", "exec", "rsh", "run")),
    **dict.fromkeys("k3s microk8s minikube".split(), ("kubectl", "ssh")),
    **dict.fromkeys("apptainer cabal composer dune opam singularity stack".split(), ("exec", "run")),
    **dict.fromkeys("crictl crun ddev dlv incus kamal kata-runtime mirrord nomad okteto runc tart".split(), ("exec",)),
    **dict.fromkeys("coder colima gcloud tsh".split(), ("ssh",)),
    **dict.fromkeys(("fly", "flyctl"), ("console",)),
    "adb": ("shell",),
    "asdf": ("env", "exec"),
    "bolt": ("command run",),
    "borg": ("with-lock",),
    "brew": ("bundle exec", "bundle sh", "sh"),
    "buildah": ("run", "unshare"),
    "bun": ("exec", "run", "x"),
    "cargo": ("exec", "watch", "with"),
    "cmake": ("-E chdir", "-E env", "-E time"),
    "consul": ("exec", "lock", "watch"),
    "coz": ("run",),
    "ctr": ("exec", "run"),
    "deno": ("x",),
    "devbox": ("run",),
    "devenv": ("shell",),
    "distrobox": ("enter",),
    "dvc": ("run", "stage add"),
    "firebase": ("emulators:exec",),
    "flox": ("activate",),
    "gh": ("codespace ssh", "cs ssh"),
    "git": ("bisect run", "submodule foreach"),
    "gum": ("spin",),
    "guix": ("environment", "shell"),
    "heroku": ("local:run", "ps:exec", "run", "run:detached"),
    "ip": ("netns exec", "vrf exec"),
    "jj": ("util exec",),
    "knife": ("ssh",),
    "lando": ("exec", "ssh"),
    "launchctl": ("asuser", "bsexec", "submit"),
    "limactl": ("shell",),
    "lxc": ("exec",),
    "machinectl": ("shell",),
    "meson": ("devenv",),
    "mise": ("exec", "watch", "x"),
    "multipass": ("exec",),
    "netlify": ("dev:exec",),
    "n": ("exec", "run"),
    "nix": ("develop", "run", "shell"),
    "npm": ("exe", "exec", "explore", "run env", "run-script env", "rum env", "urn env", "x"),
    "nsys": ("launch", "profile"),
    "nvm": ("exec", "run"),
    "nvs": ("exec", "run", "x"),
    "pew": ("in",),
    "pixi": ("exec", "r", "run", "x"),
    "pnpm": ("",),  # what is not a subcommand or a script is a program
    "proto": ("exec", "run"),
    "pueue": ("add",),
    "railway": ("run", "ssh"),
    "ray": ("exec", "job submit"),
    "rtx": ("exec", "x"),
    "rvm": ("do", "exec"),
    "sops": ("exec-env", "exec-file"),
    "telepresence": ("connect",),
    "trace-cmd": ("record",),
    "vagrant": ("ssh",),
    "wezterm": ("start",),
    "xctrace": ("record",),
    "yarn": ("create", "dlx", "exec", "node", "run"),
    "zellij": ("new-pane", "run"),
}
#: Words that make other programs run what follows, if they are their subcommand; and those after which only `--` does so.
COMMON_SUBCOMMANDS = ("exec", "with-lock")
BEFORE_DASHES = frozenset("attach do enter env launch run shell ssh start watch with wrap x".split())
#: Options with which other programs name a command.
COMMON_OPTIONS = ("-exec", "--cmd", "--command", "--exec", "--exec-command", "--rsh-command", "--run", "--shell-command")
#: Programs that take these words for texts or names.
TAKE_TEXTS = frozenset(
    """alias apropos apt apt-get basename cat cd chmod chown cp cut diff dirname dpkg du echo egrep fgrep file git grep gunzip
    gzip head help hg history id info kill less ln locate ls make man md5sum mkdir mktemp more mv pgrep pkill printf ps pwd read
    readlink realpath rm rmdir sed sha256sum sort stat svn tail tee test touch tr tree type uniq unlink unzip vi vim wc whatis
    whereis which whoami""".split()
)
_FD_RUNS = ("-x", "-X", "--exec", "--exec-batch")
#: Programs that run a command after one of these options, which may be part of the same word.
OPTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("ack", "ag", "bat", "batcat", "delta"), ("--pager",)),
    **dict.fromkeys(("aria2c",), ("--on-download-complete", "--on-download-error", "--on-download-start")),
    "air": ("--build.cmd", "--build.bin"),
    **dict.fromkeys(("borg", "restic"), ("--password-command", "--rsh")),
    **dict.fromkeys(("bazel", "bazelisk"), ("--run_under",)),
    "bpftrace": ("-c",),
    "bsdtar": ("--use-compress-program",),
    "dtrace": ("-c",),
    "fd": _FD_RUNS,
    "fdfind": _FD_RUNS,
    "fzf": ("--bind", "--become", "--execute", "--preview"),
    "git": (
        *("-O", "-u", "-x", "--exec", "--extcmd", "--open-files-in-pager", "--receive-pack", "--sendmail-cmd", "--upload-pack"),
        *(f"--{name}-filter" for name in ("commit", "env", "index", "msg", "parent", "tag-name", "tree")),
    ),
    "go": ("-exec", "-toolexec", "-vettool"),
    "just": ("-c", "--command", "--shell"),
    "leaks": ("--atExit",),
    "man": ("-P", "--pager"),
    **dict.fromkeys(("nc", "ncat", "netcat"), ("-c", "-e", "--exec", "--sh-exec")),
    "rg": ("--pre", "--hostname-bin"),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    **dict.fromkeys(("scp", "sftp"), ("-D", "-S")),
    "sort": ("--compress-program",),
    "sbatch": ("--wrap",),
    "split": ("--filter",),
    "ssh": tuple(f"{option}{name}Command" for option in ("", "-o") for name in ("KnownHosts", "Local", "Proxy", "Remote")),
    "tcpdump": ("-z",),
    "vtune": ("--",),
    "wget": ("--use-askpass",),
    "zip": ("-TT", "--unzip-command"),
    "tar": (
        "-I",
        "-F",
        "--to-command",
        "--use-compress-program",
        "--checkpoint-action",
        "--info-script",
        "--new-volume-script",
        "--rsh-command",
    ),
}
#: The file names of the dynamic loader and of emulators, which can run other programs.
LOADER = re.compile(r"(?:ld[-.].*so|libc\.musl|qemu-(?!img|nbd|io)).*")
