"""Lists the subcommands and options of git that a wildcard in an "allow" rule covers. See `fairlead.policy.wildcards`.

No listed option writes a file, names a program, or makes git read configuration from elsewhere. What git runs by itself stays:
the hooks, filters, pagers and drivers that the configuration of the user and of the repository names.
"""

from __future__ import annotations

from fairlead.policy.patterns import Words

#: A path or a revision below the working directory. With paths elsewhere, `git diff` compares any two files.
INSIDE = r"(?!/)(?!(?:.*/)?\.\.(?:/|$)).*"
_NUMBER = r"-\d+"
_DIFF_LONG = """
    abbrev binary break-rewrites cached cc check color color-moved color-words combined-all-paths compact-summary cumulative
    diff-algorithm diff-filter diff-merges dirstat exit-code find-copies find-copies-harder find-object find-renames first-parent
    full-index function-context histogram ignore-all-space ignore-blank-lines ignore-cr-at-eol ignore-matching-lines
    ignore-space-at-eol ignore-space-change ignore-submodules indent-heuristic inter-hunk-context irreversible-delete
    ita-invisible-in-index merge-base minimal name-only name-status no-color no-ext-diff no-indent-heuristic no-patch no-prefix
    no-renames no-textconv numstat patch patch-with-raw patch-with-stat patience pickaxe-all pickaxe-regex quiet raw relative
    rename-empty shortstat staged stat summary text unified word-diff word-diff-regex ws-error-highlight
"""
_LOG_LONG = f"""{_DIFF_LONG} abbrev-commit after all all-match ancestry-path author author-date-order basic-regexp before
    boundary branches cherry cherry-mark cherry-pick children clear-decorations committer date date-order decorate
    decorate-refs decorate-refs-exclude dense exclude expand-tabs extended-regexp fixed-strings follow format full-diff
    full-history glob graph grep grep-reflog invert-grep left-only left-right log-size max-count max-parents merges
    min-parents no-abbrev no-abbrev-commit no-decorate no-expand-tabs no-graph no-max-parents no-merges no-min-parents
    no-notes no-walk notes oneline parents perl-regexp pretty reflog regexp-ignore-case remotes remove-empty reverse
    right-only show-notes show-pulls simplify-by-decoration simplify-merges since skip source sparse tags topo-order
    until walk-reflogs"""
_DIFF = Words(flags="RabcdpqrsuwzDW", valued="BCGMSUX", long=_DIFF_LONG, operands=INSIDE)
_LOG = Words(flags="EFPRabcdgimpqrstuwzDW", valued="BCGLMSUXn", long=_LOG_LONG, more=_NUMBER, operands=INSIDE)
#: A name of a branch or tag, or a revision. `git push x:y` and `git fetch ext::program` name other places.
_REVISION = r"[^-:+][^:]*"


#: Those that only read.
_READING = {
    "annotate": Words(
        flags="bceflnpstw", valued="CLM", long="abbrev date line-porcelain porcelain root since show-email show-name"
    ),
    "apply": Words(
        flags="Rqvz",
        more=r"-[Cp]\d+",
        long="check numstat quiet recount reverse stat summary verbose",
        first_word="--check|--numstat|--stat",
    ),
    "blame": Words(
        flags="bceflnpstw", valued="CLM", long="abbrev color-by-age color-lines date line-porcelain porcelain root since"
    ),
    "branch": Words(
        flags="alqrvi",
        long="""all abbrev color column contains format ignore-case list merged no-color no-column no-contains no-merged
            omit-empty points-at quiet remotes show-current sort verbose""",
        most=0,
    ),
    "cat-file": Words(flags="epst", long="batch batch-all-objects batch-check allow-unknown-type buffer unordered"),
    "check-attr": Words(flags="az", long="all cached stdin"),
    "check-ignore": Words(flags="qvnz", long="no-index non-matching quiet stdin verbose"),
    "cherry": Words(flags="v", long="abbrev"),
    "config": Words(
        flags="lz",
        long="""bool bool-or-int get get-all get-regexp get-urlmatch global includes int list local name-only no-includes
            null path show-names show-origin show-scope system type worktree""",
        operands=r"[A-Za-z0-9-]+\..*",
        most=1,
    ),
    "count-objects": Words(flags="vH", long="human-readable verbose"),
    "describe": Words(long="abbrev all always broken candidates contains dirty exact-match exclude first-parent long match tags"),
    "diff": _DIFF,
    "diff-files": _DIFF,
    "diff-index": Words(flags="Rabcdmpqrsuwz", valued="BCGMSU", long=_DIFF_LONG),
    "diff-tree": Words(
        flags="Rabcdmpqrstuvwz", valued="BCGMSU", long=f"{_DIFF_LONG} root stdin always pretty format no-commit-id"
    ),
    "for-each-ref": Words(
        long="color contains count exclude format ignore-case merged no-contains no-merged omit-empty points-at sort start-after"
    ),
    "grep": Words(
        flags="EFGHILPachilnopqrvwWz",
        valued="ABCem",
        more=_NUMBER,
        long="""after-context all-match and basic-regexp before-context break cached color column context count
            exclude-standard extended-regexp files-with-matches files-without-match fixed-strings full-name
            function-context heading ignore-case invert-match line-number max-count max-depth name-only no-color
            no-exclude-standard no-recursive not null only-matching or perl-regexp quiet recursive show-function text
            untracked word-regexp""",  # prose: verbatim
        operands=INSIDE,
    ),
    "log": _LOG,
    "ls-files": Words(
        flags="cdikmostuvxz",
        long="""abbrev cached debug deduplicate deleted directory eol error-unmatch exclude exclude-standard format full-name
            ignored killed modified no-empty-directory others resolve-undo sparse stage unmerged""",
    ),
    "ls-tree": Words(flags="dlrtz", long="abbrev format full-name full-tree long name-only name-status object-only"),
    "merge-base": Words(flags="a", long="all fork-point independent is-ancestor octopus"),
    "name-rev": Words(long="all always exclude name-only no-undefined refs tags"),
    "range-diff": Words(flags="bsw", valued="U", long=f"{_DIFF_LONG} creation-factor left-only no-dual-color right-only"),
    "reflog": Words(
        flags="EFPRabcdgimpqrstuwzDW",
        valued="BCGLMSUXn",
        long=_LOG_LONG,
        more=_NUMBER,
        operands=INSIDE,
        first="show|list|exists",
    ),
    "remote": Words(flags="v", long="verbose", most=0),
    "rev-list": Words(
        flags="EFPgin", valued="n", long=f"{_LOG_LONG} bisect-all count disk-usage header objects timestamp", more=_NUMBER
    ),
    "rev-parse": Words(more="-.*"),
    "shortlog": Words(flags="cens", valued="w", long=_LOG_LONG + " email group numbered summary"),
    "show": _LOG,
    "show-branch": Words(
        flags="ar", long="all color current date-order independent list merge-base more no-name remotes sha1-name"
    ),
    "show-ref": Words(flags="dqs", valued="s", long="abbrev branches dereference hash head heads quiet tags verify exists"),
    "stash": Words(flags="pu", long="include-untracked name-only name-status numstat oneline patch stat", first_word="list|show"),
    "status": Words(
        flags="bsvz",
        valued="u",
        long="""ahead-behind branch column find-renames ignored ignore-submodules long no-ahead-behind no-column no-renames
            null porcelain renames short show-stash untracked-files verbose""",
    ),
    "symbolic-ref": Words(flags="q", long="quiet short no-recurse", most=1),
    "tag": Words(
        flags="lin",
        long="color column contains format ignore-case list merged no-column no-contains no-merged points-at sort",
        most=0,
    ),
    "var": Words(flags="l"),
    "version": Words(long="build-options", most=0),
    "whatchanged": _LOG,
    "worktree": Words(flags="vz", long="porcelain verbose", first="list", least=1),
}
#: Those that change something.
_CHANGING = {
    "add": Words(
        flags="AfNnuv",
        long="""all chmod dry-run force ignore-errors ignore-missing ignore-removal intent-to-add no-all refresh renormalize
            sparse update verbose""",
    ),
    "branch": Words(
        flags="DMadfilmqrv",
        long="""all abbrev color column contains delete force format ignore-case list merged move no-color no-column
            no-contains no-merged no-track points-at quiet remotes set-upstream-to show-current sort track
            unset-upstream verbose""",
    ),
    "checkout": Words(
        flags="bBdfqt", long="detach force guess no-guess no-overlay no-progress no-track ours overlay quiet theirs track orphan"
    ),
    "commit": Words(
        flags="anoqsvz",
        valued="m",
        long="""all allow-empty allow-empty-message amend author branch cleanup date dry-run fixup include message no-edit
            no-gpg-sign no-signoff no-status null only porcelain quiet reset-author reuse-message short signoff squash
            status trailer untracked-files verbose""",
    ),
    "fetch": Words(
        flags="afkpqtv46",
        long="all append depth deepen dry-run force jobs keep no-tags progress prune prune-tags quiet tags unshallow verbose",
        operands=_REVISION,
        is_first_spelled=True,
    ),
    "mv": Words(flags="fknv", long="dry-run force verbose"),
    "push": Words(
        flags="dfnquv46",
        long="""all atomic delete dry-run follow-tags force force-if-includes force-with-lease no-progress no-thin porcelain
            progress prune quiet set-upstream tags thin verbose""",
        operands=r"[^-:][^:]*(?::[^:]*)?|:[^:]+",
        is_first_spelled=True,
    ),
    "reset": Words(flags="Nq", long="hard intent-to-add keep merge mixed no-refresh quiet refresh soft"),
    "restore": Words(
        flags="SWqs", long="ignore-unmerged no-overlay no-progress ours overlay progress quiet source staged theirs worktree"
    ),
    "rm": Words(flags="fnqr", long="cached dry-run force ignore-unmatch quiet sparse"),
    "stash": Words(
        flags="akqum",
        long="""all include-untracked index keep-index message name-only name-status no-keep-index numstat oneline quiet
            staged stat""",
    ),
    "switch": Words(flags="Ccdfqt", long="create detach force force-create guess no-guess no-track orphan quiet track"),
    "tag": Words(
        flags="adfilnm",
        long="""annotate color column contains create-reflog delete force format ignore-case list merged message no-column
            no-contains no-merged points-at sort""",
    ),
}

GIT = Words(
    # `git *` also covers what records something and destroys nothing. A rule must spell the rest, as in `git push origin *`.
    subcommands=_READING | {name: _CHANGING[name] for name in ("add", "commit", "fetch")},
    when_spelled=_CHANGING,
    # None of these names a place, a program or a setting.
    before="--no-pager -P --no-optional-locks --no-lazy-fetch --no-replace-objects --literal-pathspecs --version -v",
    before_valued="-C -c --git-dir --work-tree --namespace --exec-path --config-env --super-prefix --attr-source",
)
