"""Hostile command lines against the rules that docs/approvals.md shows, and against rules that people write.

A line that the rules allow is run, with real programs, in a scratch folder. Then nothing outside that folder may have changed,
and no program that the line names may have run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fairlead.config.settings import ApprovalRule
from fairlead.policy.approvals import PatternContext, Policy, Subject

DOCS = Path(__file__).parents[2] / "docs" / "approvals.md"
COMMANDS = DOCS.with_name("command-rules.md")
#: Rules that people write for programs that they take for harmless.
PROGRAMS = """
    git find fd fdfind rg grep sort uniq tar sed awk gawk mawk curl wget tree date file diff man less more jq yq xxd base64 iconv
    shuf split csplit zip unzip 7z rsync ssh scp tee dd xargs env timeout nice nohup watch vim view ex ed make cargo npm pnpm yarn
    go pytest python3 node perl ruby php docker kubectl gh openssl sqlite3 gdb strace hostname install gpg busybox
    pip uv ld.so man bash sh nm objdump ldd bat batcat bsdtar ss gcc cc clang xmllint pandoc zless zdiff xzgrep just tox
    eslint prettier ruff black mypy tsc jest pylint http https xh duckdb mongosh vitest mocha rspec rubocop flake8 isort gofmt
    golangci-lint clang-tidy clang-format cppcheck ctest stylelint dmesg sysctl zstdcat mlr ffprobe pdftotext semgrep
    conda rustup mise nix op flatpak docker-compose podman-compose volta minikube lerna gradle ./gradlew mvn ./mvnw aws xsv
    esbuild flask streamlit k6 pg_dump dtrace
""".split()
#: What an attacker tries. CANARY is a file outside the folder, OUTSIDE its folder, EVIL a program.
HOSTILE = [
    "git diff --no-index --output=CANARY /dev/null a.txt",
    "git diff --output=CANARY",
    "git diff --output CANARY HEAD",
    "git diff --outp=CANARY",
    "git diff -p --output=CANARY -- a.txt",
    "git diff --cached --output=CANARY",
    "git diff -- --output=CANARY",
    "git diff --ext-diff",
    "git diff --textconv",
    "git diff --no-index /etc/passwd a.txt",
    "git diff /etc/passwd a.txt",
    "git diff sub/../../outside a.txt",
    "git diff -O/etc/passwd",
    "git diff -SO --output=CANARY",
    "git diff -G --output=CANARY",
    "git diff --submodule=diff",
    "git status -c core.fsmonitor=EVIL",
    "git status -vO EVIL",
    "git status --ex=EVIL",
    "git -c core.fsmonitor=EVIL status",
    "git -ccore.fsmonitor=EVIL status",
    "git -c alias.x=!EVIL x",
    "git -c core.pager=EVIL -p log",
    "git -p log",
    "git --paginate log",
    "git --config-env=core.fsmonitor=X status",
    "git --exec-path=. status",
    "git --exec-path . status",
    "git --git-dir=hostile status",
    "git --git-dir hostile status",
    "git -C hostile status",
    "git -Chostile status",
    "git --work-tree=/ status",
    "git --no-pager -c core.fsmonitor=EVIL status",
    "git log --output=CANARY",
    "git log -1 --output CANARY",
    "git log -p --ext-diff",
    "git show --output=CANARY",
    "git show --ext-diff HEAD",
    "git reflog --output=CANARY",
    "git reflog expire --expire=now --all",
    "git grep -OEVIL a",
    "git grep -O EVIL a",
    "git grep -nO a",
    "git grep --open-files-in-pager=EVIL a",
    "git grep --open=EVIL a",
    "git grep --no-index a /etc",
    "git grep -f /etc/passwd",
    "git blame --contents /etc/passwd a.txt",
    "git fetch --upload-pack=EVIL .",
    "git fetch --upload-pack EVIL origin",
    "git fetch 'ext::EVIL'",
    "git fetch ext::EVIL",
    "git fetch hostile",
    "git pull --rebase --exec EVIL",
    "git push --receive-pack=EVIL .",
    "git push --exec=EVIL .",
    "git push hostile",
    "git push ext::EVIL",
    "git ls-remote --upload-pack=EVIL .",
    "git ls-remote ext::EVIL",
    "git remote add x ext::EVIL",
    "git remote update",
    "git clone -c core.fsmonitor=EVIL . b",
    "git clone -u EVIL . b",
    "git clone --template=hostile . b",
    "git rebase -x EVIL HEAD",
    "git rebase --exec=EVIL HEAD",
    "git bisect run EVIL",
    "git submodule foreach EVIL",
    "git filter-branch --tree-filter EVIL",
    "git difftool -x EVIL HEAD",
    "git difftool --extcmd=EVIL HEAD",
    "git mergetool --tool=EVIL",
    "git archive --output=CANARY HEAD",
    "git archive -o CANARY HEAD",
    "git archive --remote=. --exec=EVIL HEAD",
    "git format-patch -o OUTSIDE HEAD",
    "git format-patch --output=CANARY HEAD",
    "git bundle create CANARY HEAD",
    "git config core.fsmonitor EVIL",
    "git config --global core.fsmonitor EVIL",
    "git config set core.fsmonitor EVIL",
    "git config edit",
    "git config -e",
    "git config --file CANARY a.b c",
    "git init OUTSIDE/x",
    "git worktree add OUTSIDE/x",
    "git apply",
    "git apply change.patch -- --check",
    "git apply -p --check change.patch",
    "git apply -R change.patch",
    "git stash",
    "git stash -- list",
    "git stash -u -- list",
    "git stash drop",
    "git branch -D main",
    "git branch --edit-description",
    "git tag -d v1",
    "git checkout -- .",
    "git reset --hard",
    "git clean -fdx",
    "git rm -r .",
    "git commit -F /etc/passwd",
    "git commit -t /etc/passwd",
    "git commit -m x -S",
    "git commit -e -m x",
    "git commit --gpg-sign=x -m x",
    "git add -e",
    "git add -i",
    "git add --pathspec-from-file=/etc/passwd",
    "git apply --check --apply --unsafe-paths x.patch",
    "git apply x.patch",
    "git apply --directory=OUTSIDE x.patch",
    "git notes edit",
    "git replace --edit HEAD",
    "git help -m log",
    "git help -w log",
    "git log --help",
    "git upload-pack .",
    "git upload-archive .",
    "git daemon --base-path=/",
    "git credential fill",
    "git send-email x",
    "git gui",
    "git hook run x",
    "git cat-file --textconv HEAD:a.txt",
    "git cat-file --filters HEAD:a.txt",
    "git evil",
    "git rev-parse --output=CANARY evil; git diff --output=CANARY",
    "find . -exec EVIL ;",
    "find . -exec EVIL '{}' +",
    "find . -execdir EVIL ';'",
    "find . -ok EVIL ';'",
    "find . -okdir EVIL ';'",
    "find OUTSIDE -delete",
    "find . -fprint CANARY",
    "find . -fprint0 CANARY",
    "find . -fprintf CANARY x",
    "find . -fls CANARY",
    "find . -name -fprint CANARY",
    "find -files0-from /etc/passwd",
    "fd . -x EVIL",
    "fd . -xEVIL",
    "fd -HX EVIL",
    "fdfind . --exec EVIL",
    "fdfind . --exec=EVIL",
    "fdfind . -X EVIL",
    "fdfind . -Hx EVIL",
    "fdfind --exec-batch EVIL",
    "fdfind -- . -x EVIL",
    "rg --pre EVIL a",
    "rg --pre=EVIL a",
    "rg --hostname-bin EVIL --hyperlink-format default a",
    "rg -z a",
    "rg -nz a",
    "rg --search-zip a",
    "rg -f /etc/passwd",
    "rg -- a --pre=EVIL",
    "sort -o CANARY a.txt",
    "sort -oCANARY a.txt",
    "sort -uo CANARY a.txt",
    "sort a.txt -o CANARY",
    "sort --output=CANARY a.txt",
    "sort --outp CANARY a.txt",
    "sort --o=CANARY a.txt",
    "sort --compress-program=EVIL a.txt",
    "sort --compress EVIL -S 1b big.txt",
    "sort -T OUTSIDE a.txt",
    "sort -k1 -t, -oCANARY a.txt",
    "sort -- -o CANARY",
    "uniq a.txt CANARY",
    "uniq -c a.txt CANARY",
    "tar -cf CANARY a.txt",
    "tar cf CANARY a.txt",
    "tar xf a.tar -C OUTSIDE",
    "tar -tf a.tar --to-command=EVIL",
    "tar -xf a.tar --to-command=EVIL",
    "tar -tf a.tar --checkpoint=1 --checkpoint-action=exec=EVIL",
    "tar -tf a.tar --checkpoint=1 --checkpoint-act=exec=EVIL",
    "tar -tf a.tar -I EVIL",
    "tar -tIEVIL -f a.tar",
    "tar -tf a.tar --use-compress-program=EVIL",
    "tar -tf a.tar --use=EVIL",
    "tar tIf EVIL a.tar",
    "tar -tf host:a.tar --rsh-command=EVIL",
    "tar -tf host:a.tar",
    "tar -tf x -F EVIL -M",
    "tar -tf a.tar --info-script=EVIL",
    "tar --index-file=CANARY -tvf a.tar",
    "tar -tf a.tar --rmt-command=EVIL",
    "sed -i s/a/b/ CANARY",
    "sed -n -i p CANARY",
    "sed -ni p CANARY",
    "sed --in-place p CANARY",
    "sed --in-pl p CANARY",
    "sed -n 'w CANARY' a.txt",
    "sed -n '1w CANARY' a.txt",
    "sed '1e EVIL' a.txt",
    "sed 's/a/EVIL/e' a.txt",
    "sed 's/.*/EVIL/e' a.txt",
    "sed 's/a/b/w CANARY' a.txt",
    "sed 's/a/b/gw CANARY' a.txt",
    "sed 's,a,EVIL,e' a.txt",
    "sed 's/a/b/;w CANARY' a.txt",
    "sed '1!G;w CANARY' a.txt",
    "sed 'p\nw CANARY' a.txt",
    "sed -e 'w CANARY' a.txt",
    "sed -f script.sed a.txt",
    "sed --file=script.sed a.txt",
    "sed --expression='w CANARY' a.txt",
    "sed -n p --expression='w CANARY' a.txt",
    "sed 'a\\\nx' a.txt",
    "sed '/[/]x/w CANARY' a.txt",
    "sed 'W CANARY' a.txt",
    "sed 'r /etc/passwd' a.txt",
    "sed e a.txt",
    "awk 'BEGIN{system(\"EVIL\")}'",
    "awk 'BEGIN{print > \"CANARY\"}'",
    "awk -f script.awk",
    "gawk 'BEGIN{system(\"EVIL\")}'",
    "mawk 'BEGIN{system(\"EVIL\")}'",
    "curl -o CANARY http://127.0.0.1:9/x",
    "curl -oCANARY http://127.0.0.1:9/x",
    "curl -so CANARY http://127.0.0.1:9/x",
    "curl --output CANARY http://127.0.0.1:9/x",
    "curl -O http://127.0.0.1:9/x",
    "curl -JO http://127.0.0.1:9/x",
    "curl --remote-name http://127.0.0.1:9/x",
    "curl --output-dir OUTSIDE -O http://127.0.0.1:9/x",
    "curl -K config http://127.0.0.1:9/x",
    "curl --config config",
    "curl -q -K config",
    "curl -T a.txt http://127.0.0.1:9/x",
    "curl -d @/etc/passwd http://127.0.0.1:9/x",
    "curl -d@/etc/passwd http://127.0.0.1:9/x",
    "curl --data-binary @/etc/passwd http://127.0.0.1:9/x",
    "curl -F x=@/etc/passwd http://127.0.0.1:9/x",
    "curl -H @/etc/passwd http://127.0.0.1:9/x",
    "curl -H@/etc/passwd http://127.0.0.1:9/x",
    "curl -sH@/etc/passwd http://127.0.0.1:9/x",
    "curl --header @/etc/passwd http://127.0.0.1:9/x",
    "curl -c CANARY http://127.0.0.1:9/x",
    "curl -D CANARY http://127.0.0.1:9/x",
    "curl -w '%output{CANARY}x' file:///etc/passwd",
    "curl --trace CANARY http://127.0.0.1:9/x",
    "curl --trace-ascii CANARY http://127.0.0.1:9/x",
    "curl --stderr CANARY http://127.0.0.1:9/x",
    "curl --libcurl CANARY http://127.0.0.1:9/x",
    "curl --etag-save CANARY http://127.0.0.1:9/x",
    "curl --hsts CANARY http://127.0.0.1:9/x",
    "curl --alt-svc CANARY http://127.0.0.1:9/x",
    "curl --engine ./evil.so http://127.0.0.1:9/x",
    "curl file:///etc/passwd",
    "curl FILE:///etc/passwd",
    "curl file:/etc/passwd",
    "curl gopher://127.0.0.1:9/x",
    "curl -x socks5://a http://127.0.0.1:9/x",
    "curl --next -o CANARY http://127.0.0.1:9/x",
    "wget -O CANARY http://127.0.0.1:9/x",
    "wget --use-askpass=EVIL http://127.0.0.1:9/x",
    "wget -o CANARY http://127.0.0.1:9/x",
    "wget -e output_document=CANARY http://127.0.0.1:9/x",
    "tree -o CANARY",
    "tree -ao CANARY",
    "tree -R -H x -L 1",
    "date -s 2001-01-01",
    "date --set=2001-01-01",
    "date --s 2001-01-01",
    "date 010100002001",
    "date -f /etc/passwd",
    "hostname evil",
    "hostname -F /etc/hostname",
    "file -C -m magic",
    "file -bC",
    "file -z a.gz",
    "file -m magic a.txt",
    "diff -l a.txt b.txt",
    "diff --paginate a.txt b.txt",
    "man -P EVIL ls",
    "man --pager=EVIL ls",
    "man -H EVIL ls",
    "man ./evil.1",
    "man -C config ls",
    "less a.txt",
    "less -o CANARY a.txt",
    "less '+!EVIL' a.txt",
    "more '+!EVIL' a.txt",
    "yq -i .a=1 CANARY",
    "yq -Pi .a=1 CANARY",
    "yq --inplace .a=1 CANARY",
    "yq -s .a a.yml",
    "xxd a.txt CANARY",
    "xxd -r a.txt CANARY",
    "xxd a.txt -b",
    "uniq a.txt -c",
    "xxd -p a.txt CANARY",
    "base64 -o CANARY a.txt",
    "iconv -o CANARY a.txt",
    "iconv -f utf8 --output=CANARY a.txt",
    "shuf -o CANARY a.txt",
    "shuf -eo CANARY a",
    "shuf --output=CANARY a.txt",
    "split --filter=EVIL a.txt",
    "split a.txt OUTSIDE/x",
    "csplit a.txt 1 -f OUTSIDE/x",
    "zip x.zip a.txt -T -TT EVIL",
    "zip CANARY a.txt",
    "unzip -o a.zip -d OUTSIDE",
    "unzip a.zip",
    "7z a CANARY a.txt",
    "7z x a.7z",
    "rsync -e EVIL a.txt x:y",
    "rsync a.txt CANARY",
    "rsync --rsh=EVIL a.txt x:y",
    "ssh -o ProxyCommand=EVIL x",
    "ssh -F config x",
    "scp -S EVIL a.txt x:y",
    "tee CANARY",
    "dd of=CANARY",
    "xargs EVIL",
    "xargs -I x EVIL",
    "env EVIL",
    "env A=b EVIL",
    "env -S EVIL",
    "timeout 5 EVIL",
    "timeout -s KILL 5 EVIL",
    "nice EVIL",
    "nice -n 5 EVIL",
    "nohup EVIL",
    "watch EVIL",
    "vim -c '!EVIL' a.txt",
    "vim -es -c '!EVIL' -c q",
    "view -c '!EVIL' a.txt",
    "ex -c '!EVIL' a.txt",
    "ed a.txt",
    "make SHELL=EVIL",
    "make --eval='x:;EVIL'",
    "make --eval 'x:;EVIL'",
    "make -f evil.mk",
    "make -fevil.mk",
    "make --file=evil.mk",
    "make --makefile=evil.mk",
    "make -C hostile",
    "make -skC hostile",
    "make --directory=hostile",
    "make -I hostile",
    "make -E 'x:;EVIL'",
    "make OUTSIDE/evil",
    "make CC=EVIL",
    "make .SHELLFLAGS=x",
    "make -j4 -f evil.mk",
    "cargo --config target.runner=EVIL run",
    "cargo install evil",
    "cargo test",
    "cargo run",
    "cargo -C hostile -Z unstable-options build",
    "cargo +evil build",
    "cargo evil",
    "npm exec EVIL",
    "npm run x",
    "npm run env EVIL",
    "npm run -- env EVIL",
    "npm install evil",
    "npm --script-shell=EVIL test",
    "npm ls --prefix hostile",
    "npm config set script-shell EVIL",
    "npm x -c EVIL",
    "pnpm exec EVIL",
    "pnpm dlx evil",
    "yarn evil",
    "yarn run evil",
    "vitest run --config evil.js",
    "mocha -r ./evil",
    "rspec -r ./evil",
    "rubocop -A",
    "flake8 --output-file=CANARY",
    "isort a.py",
    "gofmt -cpuprofile=CANARY a.go",
    "golangci-lint run --fix",
    "clang-tidy --load=evil.so a.c",
    "clang-format -i a.c",
    "cppcheck --addon=evil a.c",
    "ctest --build-and-test . x --build-makeprogram EVIL",
    "stylelint --custom-formatter evil a.css",
    "dmesg -C",
    "sysctl -w kernel.x=1",
    "zstdcat -o CANARY a.zst",
    "mlr -n put 'end{system(\"evil\")}'",
    "ffprobe -o CANARY a.mp4",
    "pdftotext a.pdf CANARY",
    "semgrep --config evil.yml --output CANARY",
    "yarn ls",
    "go run evil",
    "go test -exec EVIL ./...",
    "go build -toolexec EVIL ./...",
    "go vet -vettool=EVIL ./...",
    "go env -w GOFLAGS=-exec=EVIL",
    "go generate",
    "pytest -p evil",
    "pytest -c evil.ini",
    "pytest -o addopts=x",
    "pytest --rootdir=/",
    "pytest --basetemp=OUTSIDE",
    "pytest OUTSIDE/test_x.py",
    "pytest ../test_x.py",
    "pytest --junitxml=CANARY",
    "pytest @args",
    "python3 -c EVIL",
    "python3 evil.py",
    "python3 -m timeit x",
    "python3",
    "bash",
    "sh -s",
    "bash -c EVIL",
    "node -e EVIL",
    "node",
    "perl -e EVIL",
    "perl -pi -e x CANARY",
    "ruby -e EVIL",
    "php -r EVIL",
    "docker run -v /:/x evil",
    "docker exec c EVIL",
    "docker -H tcp://evil ps",
    "docker --config hostile ps",
    "docker build hostile",
    "docker cp c:/x CANARY",
    "docker evil",
    "kubectl exec pod EVIL",
    "kubectl get pods --kubeconfig=hostile",
    "kubectl --kubeconfig hostile get pods",
    "kubectl apply -f evil.yml",
    "kubectl evil",
    "kubectl cp pod:/x CANARY",
    "gh api -X DELETE x",
    "gh alias set x '!EVIL'",
    "gh extension exec evil",
    "gh pr view -w",
    "gh pr view --web",
    "gh release download -O CANARY",
    "gh evil",
    "openssl enc -out CANARY",
    "openssl dgst -engine ./evil.so a.txt",
    "sqlite3 x '.shell EVIL'",
    "gdb -batch -ex '!EVIL'",
    "strace -o '|EVIL' ls",
    "strace EVIL",
    "install --strip-program=EVIL -s a b",
    "install a.txt CANARY",
    "gpg -o CANARY a",
    "busybox sh",
    "busybox env EVIL",
    "pip install evil",
    "pip --python EVIL list",
    "pip download evil",
    "pip config edit --editor EVIL",
    "uv run EVIL",
    "uv pip install evil",
    "unzip a.zip -l '*'",
    "unzip -q a.zip -l '*'",
    "unzip -- -l a.zip",
    "nm --plugin=./evil.so a.txt",
    "objdump --plugin ./evil.so a.txt",
    "ldd ./evil",
    "bat --paging=always --pager=EVIL a.txt",
    "batcat --pager EVIL a.txt",
    "bsdtar -tf a.tar --use-compress-program=EVIL",
    "ss -D CANARY",
    "ss --diag=CANARY",
    "gcc -wrapper EVIL a.c",
    "gcc-12 -o CANARY a.c",
    "clang -fplugin=./evil.so a.c",
    "xmllint --output CANARY a.xml",
    "pandoc --lua-filter=evil.lua a.md",
    "zless a.txt",
    "just --command EVIL",
    "tox exec -- EVIL",
    "pytest ..::evil",
    "pytest sub/..::evil",
    "curl -X DELETE http://127.0.0.1:9/x",
    "curl -XPUT http://127.0.0.1:9/x",
    "curl --request=DELETE http://127.0.0.1:9/x",
    "curl --request=POST http://127.0.0.1:9/x",
    "curl --request PUT http://127.0.0.1:9/x",
    "curl smtp.evil.test:9/x",
    "curl FTP.evil.test/x",
    "eslint --fix a.js",
    "eslint -c evil.js a.js",
    "eslint --rulesdir=hostile a.js",
    "eslint -f ./evil.js a.js",
    "eslint -o CANARY a.js",
    "eslint --output-file=CANARY a.js",
    "eslint --resolve-plugins-relative-to=hostile a.js",
    "prettier -w a.js",
    "prettier --check a.js --write",
    "prettier --check a.js --plugin=./evil.js",
    "ruff check --fix",
    "ruff check -o CANARY",
    "ruff check --config=hostile/ruff.toml",
    "ruff --config hostile/ruff.toml check",
    "ruff format a.py",
    "black a.py",
    "black --check --config=evil.toml a.py",
    "mypy --python-executable=EVIL a.py",
    "mypy --config-file=evil.ini a.py",
    "mypy --install-types --non-interactive a.py",
    "mypy --html-report=OUTSIDE a.py",
    "mypy @args",
    "tsc",
    "tsc --outDir OUTSIDE",
    "tsc --noEmit --outFile CANARY",
    "jest --config=evil.js",
    "jest --outputFile=CANARY",
    "jest --rootDir=/",
    "pylint --init-hook=EVIL",
    "http --download -o CANARY http://127.0.0.1:9/x",
    "duckdb -c '.shell EVIL'",
    "curl -sXPOST http://127.0.0.1:9/x",
    "curl --request delete http://127.0.0.1:9/x",
    "python3 --version EVIL",
    "python3 -V",
    "sh --version",
    "/usr/bin/git diff --output=CANARY",
    "/usr/bin/../bin/git diff --output=CANARY",
    "./git diff --output=CANARY",
    "GIT diff --output=CANARY",
    "gsort -o CANARY a.txt",
    "python3.11 -c EVIL",
    "pip3.11 install evil",
    "/lib64/ld-linux-x86-64.so.2 EVIL",
    "nm @args",
    "nm -C @args",
    "objdump -d @args",
    "ruff check @args",
    "ruff format --check @args",
    "tsc --noEmit @args",
    "tsc --noEmit false a.ts",
    "tsc --noEmit False",
    "eslint @args",
    "jest @args",
    "conda run EVIL",
    "conda run -n base EVIL",
    "rustup run stable EVIL",
    "mise exec -- EVIL",
    "mise x EVIL",
    "nix run nixpkgs#x",
    "nix --quiet shell nixpkgs#x",
    "op run -- EVIL",
    "flatpak run x",
    "docker-compose run x EVIL",
    "podman-compose exec x EVIL",
    "volta run EVIL",
    "minikube ssh EVIL",
    "lerna exec EVIL",
    "gradle -I evil.gradle help",
    "gradle --init-script=evil.gradle help",
    "gradle -p hostile build",
    "gradle build -Dorg.gradle.jvmargs=-javaagent:evil.jar",
    "./gradlew -b OUTSIDE/build.gradle",
    "./gradlew -g OUTSIDE build",
    "mvn exec:exec",
    "mvn test -Dmaven.ext.class.path=evil.jar",
    "mvn -f hostile/pom.xml test",
    "./mvnw -s evil.xml test",
    "./mvnw evil.group:evil:1.0:run",
    "aws configure set credential_process EVIL",
    "aws s3 cp a.txt CANARY",
    "xsv sort -o CANARY a.txt",
    "esbuild --outfile=CANARY a.js",
    "flask --app evil run",
    "streamlit run evil.py",
    "k6 run evil.js",
    "pg_dump -f CANARY",
    "dtrace -c EVIL",
]
#: What people allow these rules for.
WANTED = [
    "git status",
    "git status -sb",
    "git status --porcelain=v1 -uno",
    "git diff",
    "git diff HEAD -- a.txt",
    "git diff --stat --cached",
    "git diff -U5 -w main..HEAD",
    "git diff HEAD~1 -- a.txt",
    "git diff --name-only HEAD",
    "git log --oneline -5",
    "git log -n 3 --format='%h %s' -- a.txt",
    "git --no-pager log -1 -p",
    "git show HEAD:a.txt",
    "git show --stat",
    "git blame -L 1,2 a.txt",
    "git grep -n 'a b'",
    "git branch -a",
    "git ls-files -m",
    "git rev-parse --abbrev-ref HEAD",
    "git stash list",
    "git stash show -p",
    "git apply --check -p1 change.patch",
    "git remote -v",
    "git config --get user.name",
    "git add -A",
    "git commit -am 'Say what changed'",
    "ls -la",
    "find . -name '*.py' -type f -not -path './x/*'",
    "find . -size -10k -mtime -1 -perm -u+x",
    "fdfind -e py -H",
    "rg -n --hidden -g '*.py' 'def ' .",
    "sort -u a.txt",
    "sort -t, -k2,2n a.txt",
    "uniq -c a.txt",
    "tar -tf a.tar",
    "tar tvf a.tar",
    "unzip -l a.zip",
    "sed -n 1,5p a.txt",
    "sed -n '/a/,/b/p' a.txt",
    "sed 's/a/b/g' a.txt",
    "curl -sSL https://127.0.0.1:9/x",
    "curl -sSXGET -m 5 localhost:9/x",
    "curl -s -X GET -H 'Accept: application/json' http://127.0.0.1:9/x",
    "tree -L 2 -a",
    "date +%s",
    "file a.txt",
    "nm -C a.o",
    "ss -tlnp",
    "diff -u a.txt b.txt",
    "make",
    "make -j4 test",
    "pytest -x -q -k name tests",
    "npm ls --depth=0",
    "docker ps -a",
    "kubectl get pods -n x -o wide",
    "gh pr list --limit 5",
    "go version",
    "python3 --version",
    "pip list",
    "git diff @",
    "npm ls @scope/name",
    "conda list",
    "rustup show",
    "docker-compose ps",
    "tsc --noEmit -w",
    "./gradlew test --tests '*.AppTest' --info",
    "gradle :app:build -q",
    "./mvnw -B -q test",
    "mvn clean verify",
]


def shown_rules() -> list[ApprovalRule]:
    """Return the rules of the first JSON example in the section about rules."""
    example = re.search(r"## Rules\n.*?```json\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert example is not None
    return [ApprovalRule(**rule) for rule in json.loads(example[1])["approvals"]["rules"]]


def section(path: Path, title: str) -> str:
    found = re.search(rf"^#+ {title}\n(.*?)^#", path.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def recommended_rules() -> list[ApprovalRule]:
    """Return a rule for each pattern in the table of what a wildcard covers, and for each in an example of code."""
    rows = [line for line in section(COMMANDS, "What a wildcard covers").splitlines() if line.startswith("|")]
    patterns = [text for row in rows for text in re.findall(r"`([^`]*\*[^`]*)`", row)]
    patterns += [text for page in DOCS.parent.rglob("*.md") for text in re.findall(r"NewRule\(\"(.*?)\"", page.read_text())]
    assert {"git *", "git push origin *", "cargo test *", "python tool.py *"} <= set(patterns)
    return [ApprovalRule("allow", "bash", pattern) for pattern in dict.fromkeys(patterns)]


def documented_verdicts() -> list[tuple[str, str]]:
    """Return the lines in the table that says what happens with the rules of the example, and what it says."""
    rows = [line.split("|") for line in COMMANDS.read_text().partition("\n## ")[0].splitlines() if line.startswith("| `")]
    words = {"runs": "allow", "asks": "ask", "refused": "deny"}
    return [(line, words[said.split()[0].strip(":")]) for _, lines, said, _ in rows for line in re.findall(r"`([^`]*)`", lines)]


def rules_of_people() -> list[ApprovalRule]:
    return [
        ApprovalRule("allow", "bash", f"{name} *") for name in (*PROGRAMS, "ls", "gsort", "python3.11", "pip3.11", "*/git", "GIT")
    ]


def action(line: str, rules: list[ApprovalRule], cwd: Path) -> str:
    around = PatternContext(str(cwd), str(cwd))
    return Policy("ask", rules).verdict("bash", harmless=False, subject=Subject("command", line), around=around).action


class Scene:
    """A repository, a file outside it that nothing may change, and a program that nothing may run."""

    def __init__(self, path: Path) -> None:
        self.outside, self.cwd, self.ran = path / "outside", path / "project", path / "ran"
        programs = path / "programs"
        for folder in (self.outside, self.cwd, programs):
            folder.mkdir()
        self.canary = self.outside / "canary"
        self.canary.write_text("untouched\n")
        evil = programs / "evil"
        evil.write_text(f'#!/bin/sh\necho "$@" >> {self.ran}\n')
        evil.chmod(0o755)
        self.env = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(path),
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        for name in ("a.txt", "b.txt"):
            (self.cwd / name).write_text("a\nb\n")
        (self.cwd / "Makefile").write_text("all test:\n\t@true\n")
        (self.cwd / "script.sed").write_text(f"w {self.canary}\n")
        for command in (
            ["git", "init", "-q"],
            ["git", "add", "."],
            ["git", "commit", "-qm", "x"],
            ["tar", "cf", "a.tar", "a.txt"],
        ):
            subprocess.run(command, cwd=self.cwd, env=self.env, check=True)
        (self.cwd / "a.txt").write_text("c\n")
        self.before = self.contents()

    def contents(self) -> dict[str, str]:
        return {str(path): path.read_text() for path in self.outside.rglob("*") if path.is_file()}

    def line(self, text: str) -> str:
        return text.replace("CANARY", str(self.canary)).replace("OUTSIDE", str(self.outside)).replace("EVIL", "evil")

    def run(self, line: str) -> None:
        subprocess.run(
            ["bash", "-c", line],
            cwd=self.cwd,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
        )

    def assert_harmless(self, line: str) -> None:
        assert self.contents() == self.before, line
        assert not self.ran.exists(), line


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("scene"))


@pytest.mark.parametrize("line", HOSTILE)
def test_no_wildcard_covers_a_line_that_writes_or_runs_something_else(scene: Scene, line: str) -> None:
    assert action(scene.line(line), rules_of_people(), scene.cwd) == "ask"


@pytest.mark.parametrize("line", HOSTILE)
def test_commands_allowed_by_documented_rules_are_harmless(scene: Scene, line: str) -> None:
    rules = shown_rules()
    for prefix in ("", "git status; ", "ls | "):
        text = prefix + scene.line(line)
        if action(text, rules, scene.cwd) == "allow":
            scene.run(text)
            scene.assert_harmless(text)


@pytest.mark.parametrize("line", HOSTILE)
def test_commands_allowed_by_recommended_rules_are_harmless(scene: Scene, line: str) -> None:
    text = scene.line(line)
    if action(text, recommended_rules(), scene.cwd) == "allow":
        scene.run(text)
        scene.assert_harmless(text)


@pytest.mark.parametrize(("line", "verdict"), documented_verdicts())
def test_the_table_of_examples_is_true(scene: Scene, line: str, verdict: str) -> None:
    assert action(line, shown_rules(), scene.cwd) == verdict


@pytest.mark.parametrize("line", WANTED)
def test_wildcards_cover_what_people_mean(scene: Scene, line: str) -> None:
    assert action(line, rules_of_people(), scene.cwd) == "allow"
    program = line.split()[0]
    if shutil.which(program) and program not in ("docker", "kubectl", "gh", "npm", "pip", "pytest", "curl"):
        scene.run(line)
        scene.assert_harmless(line)


@pytest.mark.parametrize("line", ["git diff --output=CANARY", "find . -delete", "python3 -c EVIL", "sort -o CANARY a.txt"])
def test_a_rule_that_spells_the_whole_command_allows_it(scene: Scene, line: str) -> None:
    text = scene.line(line)
    assert action(text, [ApprovalRule("allow", "bash", text)], scene.cwd) == "allow"


@pytest.mark.parametrize(
    ("pattern", "allowed", "asked"),
    [
        ("git push origin *", "git push origin main", "git push origin --receive-pack=EVIL"),
        ("git push *", "git push", "git push hostile"),
        ("git checkout *", "git checkout -b x", "git checkout --pathspec-from-file=/x"),
        ("git stash *", "git stash pop", "git stash push --output=CANARY"),
        ("git -C sub status *", "git -C sub status -s", "git -C sub status -c x=y"),
        ("git -C sub *", "git -C sub log", "git -C sub -c x=y log"),
        ("cargo test *", "cargo test name -- --nocapture", "cargo test --config target.runner=EVIL"),
        ("cargo clippy *", "cargo clippy --all-targets -- -D warnings", "cargo clippy -- -Clinker=EVIL --emit=link"),
        ("npm test *", "npm test -- --watch=false", "npm test --script-shell=EVIL"),
        ("npm run *", "npm run build", "npm run build --node-options=EVIL"),
        ("npm run *", "npm run build -- --watch", "npm run env -- EVIL"),
        ("npm run *", "npm run", "npm run -- env EVIL"),
        ("npm run-script *", "npm run-script envs", "npm run-script env EVIL"),
        ("npm test *", "npm test -- --watch", "npm run env EVIL"),
        ("pnpm run *", "pnpm run build", "pnpm run env EVIL"),
        ("yarn run *", "yarn run", "yarn run evil -- CANARY"),
        ("yarn run build *", "yarn run build -- --x", "yarn run evil"),
        ("python3 tool.py *", "python3 tool.py --anything -c x", "python3 other.py"),
        ("python3 -m pytest *", "python3 -m pytest -x", "python3 -m pytest -p evil"),
        ("python3 -m json.tool *", "python3 -m json.tool a.json", "python3 -m json.tool a.json CANARY"),
        ("python3 -m unittest *", "python3 -m unittest discover -s tests", "python3 -m unittest discover -s /elsewhere"),
        ("python3 -m zipfile *", "python3 -m zipfile -l a.zip", "python3 -m zipfile -e a.zip OUTSIDE"),
        ("timeout 60 git *", "timeout 60 git status", "timeout 60 git diff --output=CANARY"),
        ("env *", "env", "env git status"),
        ("env -i A=b git *", "env -i A=b git log", "env -i A=b git -c x=y log"),
        ("uv run pytest *", "uv run pytest -x", "uv run pytest -p evil"),
        ("npx tsc *", "npx tsc --noEmit", "npx other"),
        ("conda run -n base pytest *", "conda run -n base pytest -x", "conda run -n base pytest -p evil"),
        ("mise exec *", "mise exec", "mise exec -- EVIL"),
        ("tar -xf *", "tar -xf a.tar", "tar -xf a.tar -C /"),
        ("find . -exec ls *", "find . -exec ls", "find . -exec ls ';' -delete"),
        ("g?t *", "git status", "git diff --output=CANARY"),
        ("* status", "git status", "git -c x=y status"),
        ("./scripts/*", "./scripts/x --any", "./scripts/../../bin/x"),
        ("mytool *", "mytool --output=x", "other"),
    ],
)
def test_a_rule_decides_its_literal_part_but_not_its_wildcard(pattern: str, allowed: str, asked: str) -> None:
    rules = [ApprovalRule("allow", "bash", pattern)]
    assert action(allowed, rules, Path("/there")) == "allow"
    assert action(asked, rules, Path("/there")) == "ask"
