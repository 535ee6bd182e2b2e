#!/bin/sh
# Records a test suite, checks its memory budget, and compares it with recordings of the main branch.
#
#     memory.sh OUT BASELINES -- PROGRAM ARGS…
#
# OUT gets run.hw (with run.children), budget.xml for JUnit, comment.md for the pull request and, on GitLab, codequality.json. BASELINES is a folder
# of recordings, which may be missing or empty. The exit code is that of the program, or 1 if it succeeded and a limit is broken or cannot be checked.
# comment.md is written in any case.
#
#     HIGHWATER          the command [default: highwater]
#     HIGHWATER_BUDGET   the budget [default: highwater.toml]
#     HIGHWATER_ALLOW    by how much figures may exceed those of the baselines [default: +5%,64KiB,10]
set -u
if [ $# -lt 4 ] || [ "$3" != -- ]; then
  echo "usage: memory.sh OUT BASELINES -- PROGRAM ARGS…" >&2
  exit 2
fi
highwater=${HIGHWATER:-highwater}
budget=${HIGHWATER_BUDGET:-highwater.toml}
out=$1 baselines=$2
shift 3
mkdir -p "$out" || exit
# Those of an earlier run would be taken for this one's.
rm -f "$out/comment.md" "$out/budget.txt" "$out/budget.xml" "$out/codequality.json" "$out/annotations.txt" || exit

# The comment: a heading, and a text from standard input.
comment() {
  {
    printf '<!-- highwater -->\n### Memory: %s\n' "$1"
    cat
  } >"$out/comment.md"
}

status=0
"$highwater" record --force --keep-children 0 -o "$out/run.hw" -- "$@" || status=$?
if [ $status -ne 0 ]; then
  printf '\nIts exit code is %s.\n' $status | comment 'not checked, the test suite failed'
  exit $status
fi

set -- --budget "$budget"
newest=
for file in "$baselines"/*.hw; do
  [ -f "$file" ] || continue
  [ -n "$newest" ] || set -- "$@" --allow "${HIGHWATER_ALLOW:-+5%,64KiB,10}"
  set -- "$@" --baseline "$file"
  newest=$file
done

set -- "$@" --verdict junit="$out/budget.xml"
[ -z "${GITHUB_ACTIONS:-}" ] || set -- "$@" --verdict github="$out/annotations.txt"
[ -z "${GITLAB_CI:-}" ] || set -- "$@" --verdict gitlab="$out/codequality.json"

"$highwater" check "$out/run.hw" "$@" >"$out/budget.txt" 2>"$out/problems.txt" || status=$?
cat "$out/budget.txt"
cat "$out/problems.txt" >&2
if [ ! -s "$out/budget.txt" ]; then
  # A budget with a mistake, a baseline of another program: there is no verdict.
  [ $status -ne 0 ] || status=1
  {
    printf '\n```text\n'
    cat "$out/problems.txt"
    printf '```\n'
  } | comment 'nothing was judged'
  exit $status
fi
[ ! -f "$out/annotations.txt" ] || cat "$out/annotations.txt"

if [ $status -eq 0 ]; then
  heading='all limits are kept'
elif grep -q '^broken ' "$out/budget.txt"; then
  heading='a limit is broken'
else
  heading='not everything could be judged'
fi
{
  if [ -n "$newest" ]; then
    printf '\nAt the peak, against the main branch:\n\n'
    "$highwater" diff "$newest@peak" "$out/run.hw@peak" --format markdown
  fi
  printf '\n<details><summary>Limits</summary>\n\n```text\n'
  cat "$out/budget.txt"
  printf '```\n\n</details>\n'
} | comment "$heading"
exit $status
