"""Lists programs, and the words that a wildcard in an "allow" rule covers for them. See `fairlead.policy.wildcards`.

No listed word makes the program write a file, run another program, or read instructions from a file. A program that is not listed
here is one whose name says what it does (`cp`, `rm`), one that only reads whatever its options are (`ls`, `cat`), or one that
fairlead does not know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from fairlead.policy.known_git import GIT, INSIDE
from fairlead.policy.known_runners import LOADER, RUNNERS
from fairlead.policy.patterns import Words

#: Programs that run the program after their options. The rule must spell that program, and its own words are judged.
PREFIXES = frozenset("bunx chronic command env ionice nice nohup npx setsid stdbuf time timeout uvx".split())
#: Programs that do so after this subcommand.
PREFIX_SUBCOMMANDS = {"bundle": "exec", **dict.fromkeys(("hatch", "pdm", "pipenv", "poetry", "rye", "uv"), "run")}
#: Programs that run the code of a script or module. The rule must spell which.
INTERPRETERS = frozenset(
    """ash bash csh dash fish julia ksh lua luajit mksh node nodejs perl php pypy python rbash rscript ruby sh tclsh tcsh
    ts-node zsh""".split()
)
#: Those that only print their version if the one word after the name is `--version`.
TELL_VERSION = frozenset(("bash", "node", "perl", "php", "python", "ruby"))
#: Programs that run any command or code, or write any file, because of a word. A wildcard covers nothing of them.
RUN_ANYTHING = (
    RUNNERS
    | frozenset(
        """7z 7za 7zr ack ag ammonite ansible ansible-playbook ant apt apt-cache apt-config apt-get aptitude ar aria2c as at
        awk bat batcat batch bazel bc bpftrace brew bsdcpio bsdtar bun bzgrep bzless bzmore c++ c89 c99 capsh cc clang
        clang++ clisp cloc cmake cobc code convert coreutils coverage cpan cpio cpp cprofile crontab crystal cscope csi
        csplit ctags dc dd debugfs delta deno dialog diff3 dnf doctest dot dotnet dpkg duckdb ed efax elinks elixir emacs
        emacsclient enscript erl escript ex exiftool expect ffmpeg fpm ftp fx fzf g++ gawk gcc gem ghc ghci git-shell
        gnuplot gpg groovy guile helix helm hg http httpie https hub hx identify iex install ip irb janet javac
        jbang jc jdb jj joe journalctl jrunscript just kak kakoune knife kotlin kustomize latex ld ldd less lftp links
        logrotate lualatex lynx m4 magick mail mawk maxima mc mcedit micro mogrify mongo mongosh mono more most mount mutt
        mysql nano nasm nawk nc ncat ne netcat nim ninja nmap nox nu nvim ocaml octave octave-cli open openssl
        osascript pacman pandoc patch pax pdb pdflatex pee pg pico pip-run profile protoc psql puppet pwsh pydoc pygmentize
        pylint r racket rake rar redis-cli rga rpm rpmbuild rsync run-mailcap run-parts runghc runpy rustc sage sbcl scala
        scheme scp sdiff sftp snap split sqlite3 ssh-keygen ssh-keyscan sshfs subl svn swift systemctl task tcpdump tee
        telnet terraform tex tftp tig timeit top tox trace tsx ugrep unrar vagrant vi vidir view vim vimdiff vipe visudo
        w3m wall wget wish xdg-open xelatex xh xhs xmllint xonsh xsltproc xzgrep xzless xzmore yt-dlp yum zcmp zdiff zgrep
        zig zip zless zmore zrun zstdgrep zstdless zypper""".split()
    )
    # These only read, format or check as long as no option names a file, a plugin or a configuration.
    | frozenset(
        """autopep8 bandit biome blkid brotli buf chezmoi clang-check clang-format clang-tidy clippy-driver colordiff cppcheck
        ctest cypress dart dmesg dotenv-linter ffprobe flake8 flutter gcov gofmt gofumpt goimports golangci-lint
        gs hostnamectl html2text http-server isort jupyter karma ktlint lsof luacheck lz4 lz4cat markdownlint
        markdownlint-cli2 mdl mediainfo mix mlr mocha mypyc nbconvert nyc oxlint pdftohtml pdftotext phpcs phpstan phpunit
        playwright pre-commit psalm pyright radon rebar3 rector reviewdog rspec rubocop rustfmt sar scalafmt scc semgrep
        shfmt sqlfluff sqlite sqlmap standard staticcheck stylelint svgo swiftformat swiftlint sysctl tapioca
        timedatectl trivy tsd ty typos uncrustify vite vitest vulture wdiff webpack xcodebuild xmlstarlet xo xq yamllint
        yapf yq-go zstd zstdcat""".split()
    )
    # Tools of languages, of clouds, of databases, and for measuring, with such options.
    | frozenset(
        """ab age alembic amm asciidoctor ast-grep autocannon autoflake ava aws az babel bats bb behave boot
        bpython broot buck2 buf c8 cargo-watch cdk celery circleci clickhouse clickhouse-client clickhouse-local clj clojure
        codemod codespell comby csvsql dagster daphne dbt defaults detect-secrets django-admin dlv doit doxygen duc
        earthly esbuild eslint_d espeak evans fasd fdupes flask flit fossil gita git-lfs ginkgo gitleaks
        glab glow gotestsum groovysh grunt grype gulp gunicorn hey hub hugo hypercorn influx info inv invoke
        ipython jasmine jekyll jruby jscodeshift jsdoc just k6 kernprof kotlinc lab lein lf litecli locust lychee
        manage.py mariadb mariadb-dump marimo masscan memray migrate mill mitmdump mitmproxy mkdocs mockgen mongodump
        mongoexport mr mruby mutmut mycli mysqldump ncdu next nextflow ng ngrep nnn nodeunit nose2 nosetests nuxt oha packer
        pants parcel perldoc pg_dump pg_dumpall pgcli pip-audit pip-compile pip-sync pipdeptree plutil pm2 poe
        postgres prefect premake5 prettierd pry ptpython ptx pulumi pytype pyupgrade pyinstrument qsv qunit rails ranger repo
        robot rollup rq sam say sbt scala-cli scalene scons screencapture serverless sg shellharden shellspec
        sips skopeo slipcover snakemake snyk sphinx-build sqlite-utils sqldiff storybook streamlit stylua swc swiftc syft tap
        tape terragrunt textlint textutil tflint tfsec thor tofu trial truffleruby tshark tsup turbo typedoc usql uvicorn
        uvu vd vegeta viztracer waf ward wdio wrangler wrk xmake xsv yazi""".split()
    )
) - (PREFIXES | INTERPRETERS | PREFIX_SUBCOMMANDS.keys() | {"find"})
#: A file of the working directory. Many programs read options from a file that follows `@`.
_FILE = rf"(?!@){INSIDE}"
_COLOR = "color colour no-color"
_FIND_TESTS = (
    "amin anewer atime cmin cnewer ctime daystart depth empty executable false follow gid group ilname iname inum ipath iregex"
    " iwholename links lname ls maxdepth mindepth mmin mount mtime name newer nogroup noleaf not nouser nowarn path perm print"
    " print0 printf prune quit readable regex regextype samefile size true type uid used user warn wholename writable xdev xtype"
).split()
_RG_LONG = f"""
    after-context auto-hybrid-regex before-context binary block-buffered byte-offset case-sensitive column context
    context-separator count count-matches crlf encoding engine field-context-separator field-match-separator files
    files-with-matches files-without-match fixed-strings follow glob glob-case-insensitive heading hidden iglob ignore-case
    invert-match json line-buffered line-number line-regexp max-columns max-columns-preview max-count max-depth max-filesize mmap
    multiline multiline-dotall no-config no-filename no-heading no-hidden no-ignore no-ignore-dot no-ignore-exclude
    no-ignore-files no-ignore-global no-ignore-messages no-ignore-parent no-ignore-vcs no-line-number no-messages no-mmap
    no-require-git no-unicode null null-data one-file-system only-matching passthru path-separator pcre2 pretty quiet regexp
    replace smart-case sort sortr stats stop-on-nonmatch text threads trim type type-list type-not unrestricted version vimgrep
    with-filename word-regexp {_COLOR}
"""  # prose: verbatim
_FD_LONG = f"""
    absolute-path and base-directory case-sensitive changed-after changed-before changed-within changed-newer-than
    changed-older-than exclude exact-depth extension fixed-strings follow full-path glob hidden ignore-case max-depth max-results
    min-depth no-follow no-hidden no-ignore no-ignore-parent no-ignore-vcs no-require-git one-file-system owner path-separator
    print0 prune quiet regex relative-path search-path show-errors size strip-cwd-prefix threads type unrestricted version
    {_COLOR}
"""
_FD = Words(flags="0HIFLagipqsu1", valued="ESdejotc", long=_FD_LONG)
_DIGEST = Words(flags="bctwz", long="binary check ignore-missing quiet status strict tag text warn zero")
_TREE_LONG = """
    charset device dirsfirst du filelimit filesfirst gitignore ignore-case inodes matchdirs metafirst noreport nolinks prune si
    sort timefmt version
"""
#: Addresses and commands of sed that only print, or replace text in what is printed. No `w` and `e`, and no other files.
_SED_PART = r"(?:[^/\\\n\[]|\\[^\n])*"
_SED_ADDRESS = rf"(?:\d+|\$|/{_SED_PART}/)"
_SED_SCRIPT = rf"(?:{_SED_ADDRESS}(?:,(?:\+?\d+|\$|/{_SED_PART}/))?!?)?(?:[pdq=]|s/{_SED_PART}/{_SED_PART}/[gpi0-9]*)"
#: An address on the web, a header, a number, or a method that only reads. Other methods look like names of computers, and curl
#: takes the protocol from the beginning of such a name.
_CURL_WORD = (
    r"(?!@)(?!(?i:dict|ftp|imap|ldap|pop3|smtp)\.)"
    r"(?:[^:]*[./][^:]*|localhost|\d+|GET|HEAD|OPTIONS|(?i:https?)://.*|[A-Za-z-]+: .*|[A-Za-z0-9.-]+:\d+(?:/[^:]*)?"
    r"|\[[0-9A-Fa-f:]+\][^@]*)"
)
_CURL_LONG = """
    compressed connect-timeout fail fail-early fail-with-body get globoff head header http1.0 http1.1 http2 include insecure ipv4
    ipv6 location max-redirs max-time no-progress-meter retry retry-all-errors retry-connrefused retry-delay
    retry-max-time show-error silent tlsv1.2 tlsv1.3 verbose
"""
_DOCKER = Words(
    flags="aqsnflt",
    long="all digests filter follow format human latest last no-stream no-trunc quiet since size tail timestamps tree type until",
)
_KUBECTL = Words(
    flags="AwLpR",
    valued="nolc",
    long="""all-containers all-namespaces api-group containers container field-selector follow ignore-not-found label-columns
        limit-bytes namespace namespaced no-headers output output-watch-events-only previous recursive selector
        server-print show-events show-kind show-labels show-managed-fields since since-time sort-by tail timestamps
        verbs watch watch-only""",
)
_GH = Words(
    flags="Lacsrt",
    long="""all app assignee author base branch comments commit draft event exclude-drafts exclude-pre-releases head jq json
        label language limit log log-failed milestone name-only order patch search sort state template topic user
        verbose visibility workflow""",
)
_GH_LISTS = Words(subcommands=dict.fromkeys(("checks", "diff", "list", "status", "view"), _GH))
_CARGO = Words(
    flags="hqrv",
    long="""all all-features all-targets bench benches bin bins doc document-private-items example examples features frozen
        keep-going lib locked message-format no-default-features no-deps no-fail-fast no-run offline package profile
        quiet release test tests verbose workspace""",
    valued="pjF",
    free_after_dashes=True,
)
#: Tasks of the build, and options that name no other build. Maven loads a plugin for a word with a colon.
_GRADLE = Words(
    flags="imqsSvw",
    long="""build-cache console continue debug dry-run full-stacktrace info no-build-cache no-daemon no-parallel offline parallel
        quiet refresh-dependencies rerun-tasks stacktrace status stop tests version warn warning-mode""",
    operands=r"[A-Za-z0-9_:.*-]+",
)
_MAVEN = Words(
    flags="BVeoqvX",
    more="-(?:am|amd|fae|ff|fn|ntp)",
    long="batch-mode errors fail-at-end fail-fast fail-never no-transfer-progress offline quiet show-version version",
    operands=r"[A-Za-z0-9_-]+",
)
#: What follows `--` goes to the compiler, which takes names of files and of programs.
_CLIPPY = Words(flags="hqrv", valued="ADWFpj", long=_CARGO.long)
_RUFF_LONG = """
    color exit-zero ignore line-length no-cache no-fix output-format preview quiet range respect-gitignore select show-files
    silent statistics target-version verbose
"""
_ARCHIVE = Words(flags="lt", long="list test")
_NPM_READ = Words(flags="aglps", long="all depth global json long offline parseable production silent")
_NPM_RUN = Words(
    flags="s", long="if-present silent workspaces", operands=r"[A-Za-z0-9_@][A-Za-z0-9_:@./-]*", free_after_dashes=True
)
#: A script must be named before what goes to it. `npm run env` is built in: it runs the command that follows.
_NPM_SCRIPT = msgspec.structs.replace(_NPM_RUN, first=r"(?!env$).*", least=1)
_NPM = Words(
    subcommands=dict.fromkeys(("explain", "list", "ls", "outdated", "why"), _NPM_READ) | {"view": Words(long="json", most=1)},
    when_spelled={"run": _NPM_SCRIPT, "run-script": _NPM_SCRIPT, "t": _NPM_RUN, "test": _NPM_RUN},
    before="--version -v --silent -s",
)
_PIP = Words(
    subcommands={
        "check": Words(),
        "freeze": Words(flags="l", long="all exclude-editable local user"),
        "list": Words(flags="eloqv", long="editable exclude format local not-required outdated quiet uptodate user verbose"),
        "show": Words(flags="fqv", long="files quiet verbose"),
    },
    before="--version -V",
)
_GO = Words(
    more=r"--?(?:v|race|short|count|run|skip|timeout|cover|bench|benchmem|json|failfast|parallel|p|tags|n|x|a|m|u|f|test|deps)(?:=.*)?",
    operands=_FILE,
)

_PROGRAMS: dict[str, Words] = {
    "b2sum": _DIGEST,
    "base64": Words(flags="dDi", valued="w", long="decode ignore-garbage wrap"),
    "black": Words(
        flags="qv",
        valued="lt",
        long="check color diff fast line-length no-color preview quiet safe target-version verbose",
        first_word="--check|--diff",
        operands=_FILE,
    ),
    "cargo": Words(
        subcommands={
            "metadata": Words(flags="qv", long="format-version locked no-deps offline quiet verbose"),
            "tree": Words(
                flags="deiq", long="all-features charset depth duplicates edges features format invert locked offline prefix"
            ),
            "version": Words(flags="v", long="verbose"),
        },
        when_spelled=dict.fromkeys(("b", "bench", "build", "c", "check", "d", "doc", "r", "run", "t", "test"), _CARGO)
        | {"clippy": _CLIPPY, "fmt": Words(flags="qv", long="all check quiet verbose")},
        before="--version -V",
    ),
    "curl": Words(
        flags="46GILSfgiksv#X",
        valued="mH",
        value="[^@].*|",
        long=_CURL_LONG,
        more="(?:-[46GILSfgiksv#]*X|--request=)(?:GET|HEAD|OPTIONS)|--request",
        operands=_CURL_WORD,
    ),
    "date": Words(flags="uR", valued="dIr", long="date iso-8601 reference rfc-3339 rfc-email universal utc", operands=r"\+.*"),
    "diff": Words(
        flags="BEHNTZabcdeipqrstuwy",
        valued="CFIUWx",
        long=f"""brief context exclude expand-tabs ignore-all-space ignore-blank-lines ignore-case ignore-file-name-case
            ignore-matching-lines ignore-space-change ignore-tab-expansion ignore-trailing-space initial-tab label
            left-column minimal new-file no-dereference no-ignore-file-name-case normal recursive report-identical-files
            rcs show-c-function show-function-line side-by-side speed-large-files starting-file strip-trailing-cr
            suppress-blank-empty suppress-common-lines tabsize text unidirectional-new-file unified width {_COLOR}""",
    ),
    "docker": Words(
        subcommands=dict.fromkeys(
            ("diff", "history", "images", "info", "inspect", "logs", "port", "ps", "stats", "top", "version"), _DOCKER
        ),
        before="--version -v",
    ),
    "eslint": Words(
        long="color debug ext max-warnings no-color no-error-on-unmatched-pattern no-inline-config no-warn-ignored quiet version",
        operands=_FILE,
    ),
    "fd": _FD,
    "fdfind": _FD,
    "file": Words(
        flags="0EILNbhiknprsv",
        long="brief dereference keep-going mime mime-encoding mime-type no-buffer no-dereference no-pad raw",
    ),
    "find": Words(
        more=rf"-(?:[EHLPXdsx]+|[0-9]+[A-Za-z]?|[augo]+[+=-][rwxXst]+|O[0-3]|newer[aBcm][aBcmt]|{'|'.join(_FIND_TESTS)}|[ao]|and|or)"
    ),
    "gh": Words(
        subcommands=dict.fromkeys(("cache", "gist", "issue", "label", "pr", "release", "repo", "run", "workflow"), _GH_LISTS)
        | {"search": Words(subcommands=dict.fromkeys(("code", "commits", "issues", "prs", "repos"), _GH))},
        before="--version",
    ),
    "git": GIT,
    "go": Words(
        subcommands={"version": Words(flags="mv", most=0), "env": Words(operands="[A-Z0-9_]+"), "doc": Words()},
        when_spelled=dict.fromkeys(("build", "fmt", "test", "vet", "list"), _GO),
    ),
    "gradle": _GRADLE,
    "gradlew": _GRADLE,
    "hostname": Words(flags="AIadfisy", most=0),
    "iconv": Words(flags="cl", valued="ft", long="from-code list to-code"),
    "kubectl": Words(
        subcommands=dict.fromkeys(("api-resources", "api-versions", "describe", "explain", "get", "logs", "version"), _KUBECTL)
        | {"top": Words(subcommands=dict.fromkeys(("node", "nodes", "pod", "pods"), _KUBECTL))},
    ),
    "jest": Words(
        flags="biotw",
        long="""bail ci colors detectOpenHandles findRelatedTests forceExit listTests maxWorkers no-coverage noStackTrace
            onlyChanged passWithNoTests runInBand silent testNamePattern testPathPattern verbose version""",
        operands=_FILE,
    ),
    "json.tool": Words(long="compact json-lines no-ensure-ascii no-indent sort-keys tab", most=1),
    "make": Words(
        flags="Bikqsw",
        valued="j",
        value=r"\d*",
        long="always-make ignore-errors keep-going no-print-directory question silent",
        operands=r"(?!/)(?!(?:.*/)?\.\.(?:/|$))[A-Za-z0-9_./-]+",
    ),
    "man": Words(operands=r"[A-Za-z0-9][A-Za-z0-9_.+:-]*"),
    "md5sum": _DIGEST,
    "mvn": _MAVEN,
    "mvnw": _MAVEN,
    "mypy": Words(
        flags="v",
        valued="mp",
        value="[A-Za-z0-9_.]*",
        long="""check-untyped-defs disallow-any-generics disallow-untyped-defs explicit-package-bases follow-imports
            ignore-missing-imports namespace-packages no-color-output no-error-summary platform pretty python-version
            show-column-numbers show-error-codes show-error-context show-traceback strict strict-optional verbose version
            warn-redundant-casts warn-return-any warn-unreachable warn-unused-configs warn-unused-ignores""",
        operands=_FILE,
    ),
    "nm": Words(flags="ABCDPSagnoprsuvz", valued="ft", operands="(?!@).*"),
    "npm": _NPM,
    "objdump": Words(flags="CDSTadfhprstwx", valued="jM", operands="(?!@).*"),
    "pip": _PIP,
    "pnpm": _NPM,
    "prettier": Words(
        flags="clu",
        long="check color ignore-unknown list-different log-level no-color version",
        first_word="--check|-c|-l|--list-different|--version",
        operands=_FILE,
    ),
    "pytest": Words(
        flags="hlqsvx",
        valued="kmnr",
        long="""capture collect-only co durations exitfirst failed-first ff full-trace last-failed lf maxfail new-first nf
            no-header no-summary quiet setup-show showlocals stepwise sw tb verbose""",
        operands=rf"(?!(?:.*/)?\.\.::){_FILE}",
    ),
    "rg": Words(flags=".0FHILNPSUabchilnopqsuvwx", valued="ABCEMTdegjmrt", long=_RG_LONG),
    "ruff": Words(
        subcommands={
            "check": Words(flags="qsvn", long=_RUFF_LONG, operands=_FILE),
            "format": Words(flags="qsv", long=f"check diff {_RUFF_LONG}", first_word="--check|--diff", operands=_FILE),
            "rule": Words(long="all output-format"),
            "version": Words(most=0),
        },
        before="--version -V",
    ),
    "sed": Words(flags="Enruz", long="null-data quiet regexp-extended silent unbuffered", first=_SED_SCRIPT),
    "shuf": Words(flags="erz", valued="in", long="echo head-count input-range repeat zero-terminated"),
    "sort": Words(
        flags="CMRVbcdfghimnrsuz",
        valued="kt",
        long="""buffer-size check debug dictionary-order field-separator general-numeric-sort human-numeric-sort ignore-case
            ignore-leading-blanks ignore-nonprinting key merge month-sort numeric-sort parallel random-sort reverse sort
            stable unique version-sort zero-terminated""",
    ),
    "ss": Words(flags="046HOSTVZabdeilmnoprstuwxz"),
    "tar": Words(
        flags="JOajtvzf",
        long="bzip2 exclude file gzip list lzma to-stdout verbose xz zstd",
        value="[^:]*",
        operands="[^:]*",
        first_word="-.*|[JOajtvzf]+",
    ),
    "tarfile": _ARCHIVE,
    "tree": Words(flags="ACDFJNQSUXacdfghilnpqrstuvx", valued="ILP", long=_TREE_LONG),
    "tsc": Words(
        more=r"--?(?:noEmit|pretty|skipLibCheck|strict|listFiles|watch|w|version|v)",
        first_word="--?(?:noEmit|version)|-v",
        operands=rf"(?!(?i:true|false|null)$){_FILE}",  # `--noEmit false` is one option
    ),
    "uniq": Words(
        flags="Dcdiuz",
        valued="fsw",
        value=r"\d*",
        long="all-repeated check-chars count group ignore-case repeated skip-chars skip-fields unique zero-terminated",
        most=1,
    ),
    "unittest": Words(flags="bcfhpqstv", valued="k", long="buffer catch failfast locals quiet verbose", operands=_FILE),
    "unzip": Words(flags="Zclpqtvz", first_word="-(?:Z1?|c|l|p|t|v|z)", more="-Z1"),
    "xxd": Words(flags="abceipu", valued="lsgco", value=r"\d+", most=1),
    # `yarn run` also runs the programs of packages.
    "yarn": Words(
        when_spelled={"run": msgspec.structs.replace(_NPM_RUN, is_first_spelled=True), "test": _NPM_RUN},
        before="--version -v --silent -s",
    ),
    "yq": Words(flags="MNPCre", long="null-input prettyPrint unwrapScalar exit-status no-colors no-doc"),
    "zipfile": _ARCHIVE,
}
#: What a wildcard covers, by the name of the program.
PROGRAMS: Mapping[str, Words] = _PROGRAMS | {
    **{f"sha{size}sum": _DIGEST for size in (1, 224, 256, 384, 512)},
    "nerdctl": _PROGRAMS["docker"],
    "oc": _PROGRAMS["kubectl"],
    "podman": _PROGRAMS["docker"],
}
_KNOWN = PROGRAMS.keys() | PREFIX_SUBCOMMANDS.keys() | PREFIXES | INTERPRETERS | RUN_ANYTHING
_VERSION = re.compile(r"[0-9][0-9.]*[a-z]?$")


def program_name(program: str) -> str:
    """Return the name by which the lists know a program: without folder, version, and the `g` of GNU programs elsewhere."""
    name = program.rpartition("/")[2].lower().removesuffix(".exe")
    plain = _VERSION.sub("", name).rstrip("-.")
    names = (name, plain, name.removeprefix("g"), plain.removeprefix("g"))
    return next((each for each in names if each in _KNOWN), name)


def is_loader(name: str) -> bool:
    """Return whether this is the dynamic loader, which runs the program that its arguments name."""
    return LOADER.fullmatch(name) is not None
