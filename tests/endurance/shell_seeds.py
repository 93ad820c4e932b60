"""Parts of command lines that run `bad`, or may: the seeds of `fuzz_shell`."""

from __future__ import annotations

from tests.policy.test_command_lines import PARTS

#: In the texts below, three blanks or a line end separate two seeds, and these characters stand for those that have no sign.
_SIGNS = str.maketrans({"⏎": "\n", "⇥": "\t", "␍": "\r", "·": " "})


def _listed(text: str) -> list[str]:
    seeds = [seed for line in text.strip("\n").split("\n") for seed in line.split("   ")]
    return [seed.translate(_SIGNS) for seed in seeds]


#: Parts that make a line when they are joined. None defines a function: a line that calls itself would fill the machine with
#: processes.
HOSTILE_PARTS = [part for part in PARTS if part not in ("f() ", "; f")] + _listed(r"""
ok·   ok;   bad&   ~+   \bad   b''ad   "b"ad   b\ad   b$()ad   ba?   [b]ad   {b,}ad   $'bad'   ⇥   <(bad)   >(bad)
${x:-bad}   ${x:=$(bad)}   $((a[$(bad)]))   ((a[$(bad)]))   coproc bad   |& bad   !bad   time -p bad   command -p bad
builtin eval bad   nice bad   env -i bad   env A=1 bad   xargs bad   <<<$(bad)   BASH_ENV=bad·   PS4='$(bad)'·   set -x;
IFS=a;   x=(bad);   "${x[@]}"   alias ok=bad⏎   % bad
""")
#: Spellings of `bad`.
SPELLINGS = _listed(r"""
bad   bad x   \bad   b'a'd   "bad"   b\ad   $'bad'   $'\x62ad'   b$()ad   ./../programs/bad   {bad,x}   ba[d]
""")
#: What runs the line in it. `{}` stands for the line.
AROUND_A_LINE = _listed(r"""
env {}   env A=1 {}   env -S '{}'   command {}   exec {}   nice {}   nice -n 1 {}   time {}   ! {}   builtin {}
bash -c '{}'   bash -c "{}"   sh -c '{}'   bash -ec '{}'   bash -o errexit -c '{}'   eval '{}'   eval {}   eval "{}"
bash <<< '{}'   bash <<E⏎{}⏎E   bash -s <<E⏎{}⏎E⏎   echo '{}' | bash   echo {} | sh   bash /dev/stdin <<< '{}'
. /dev/stdin <<< '{}'   source /dev/fd/0 <<< '{}'   bash <(echo '{}')   trap '{}' EXIT   x='{}'; $x   x='{}'; eval $x
$({})   ok $({})   ok "$({})"   ok `{}`   x=$({})   ok ${{x:-$({})}}   ok "${{x:=`{}`}}"   ok <({})   ok >({})
ok <<< $({})   ok <<E⏎$({})⏎E   if {}; then ok; fi   if ok; then {}; fi   while {}; do break; done
until ok; do ok; done; {}   (({}))   for x in 1; do {}; done   for x in $({}); do ok; done   case a in a) {};; esac
case $({}) in *) ok;; esac   {{ {}; }}   ({})   ok && {}   ok; {}   ok | {}   ok |& {}   ok & {}   ok⏎{}   ok || ok; {}
ok #⏎{}   # ok⏎{}   ok \⏎;{}   {} # ok   {} &   [[ -v 'a[$({})]' ]]   test -v 'a[$({})]'   [ -v 'a[$({})]' ]
((a[$({})]))   let 'a[$({})]=1'   declare -i x='a[$({})]'   printf -v 'a[$({})]' x   read 'a[$({})]' <<< x
x='a[$({})]'; ok $((x))   unset 'a[$({})]'   export 'a[$({})]=1'   A=1 {}   a[$({})]=1   x=([$({})]=1)   declare x=$({})
local x=$({})   coproc {}   coproc X {{ {}; }}   ok >/dev/null; {}   >/dev/null {}   </dev/null {}   2>&1 {}
&>/dev/null {}   ok &>/dev/null {}   ok 2>&1; {}   select x in a; do {}; done <<< 1   set -- {}; "$@"
PS4='$({})' bash -xc ok   BASH_ENV=<({}) bash -c ok   x={}; ${{x}}   x=({}); "${{x[@]}}"   alias z='{}'⏎z   ok;⇥{}
ok␍⏎{}   shopt -s expand_aliases⏎alias z='{}'⏎z   type -t {}   exec -a x {}   command -p {}   bash --norc -c '{}'
bash -c -- '{}'   mapfile -C '{}' -c 1 <<< x   ok {{x,$({})}}   ok $[a[$({})]]   ok ${{a[$({})]}}   ok "${{x:-'$({})'}}"
[[ x =~ $({}) ]]   IFS=_; x=b_; {}
""")
