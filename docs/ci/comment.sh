#!/bin/sh
# Puts a text below a pull request of GitHub or a merge request of GitLab, in place of the one that an earlier run put there. Needs curl and jq.
#
#     comment.sh FILE
#
# GitHub: GITHUB_API_URL, GITHUB_REPOSITORY, GITHUB_TOKEN, and PULL_REQUEST, the number; COMMENT_AUTHOR is the user of the token, if it is not that of
# the job [default: github-actions[bot]]. GitLab: CI_API_V4_URL, CI_PROJECT_ID, CI_MERGE_REQUEST_IID, and GITLAB_TOKEN, a token that may write notes.
set -eu
marker='<!-- highwater -->'
# GitHub takes 65,536 characters.
most=60000
ask() { curl --silent --show-error --fail --header "$header" --header 'Content-Type: application/json' "$@"; }

if [ -n "${GITLAB_CI:-}" ]; then
  header="PRIVATE-TOKEN: $GITLAB_TOKEN"
  list="$CI_API_V4_URL/projects/$CI_PROJECT_ID/merge_requests/$CI_MERGE_REQUEST_IID/notes"
  single=$list change=PUT
  author=$(ask "$CI_API_V4_URL/user" | jq --raw-output .username)
else
  header="Authorization: Bearer $GITHUB_TOKEN"
  list="$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/issues/$PULL_REQUEST/comments"
  single="$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/issues/comments" change=PATCH
  author=${COMMENT_AUTHOR:-github-actions[bot]}
fi

# Cut at the end of a line; what is open there is closed.
body=$(jq --raw-input --slurp --argjson most $most '
  if length <= $most then . else
    (.[0:$most] | sub("\n[^\n]*$"; "\n")) as $start
    | $start
    + (if ($start | split("\n```") | length) % 2 == 0 then "```\n" else "" end)
    + (if ($start | contains("<details>")) then "\n</details>\n" else "" end)
    + "\n… cut: the whole text is in the artefact of the job.\n"
  end | {body: .}' "$1")

# Anyone may write a comment that begins with the marker: only our own is replaced.
old= page=1
while [ -z "$old" ]; do
  comments=$(ask "$list?per_page=100&page=$page")
  old=$(printf %s "$comments" | jq --arg marker "$marker" --arg author "$author" \
    '[.[] | select((.user.login // .author.username) == $author and (.body | startswith($marker))) | .id] | first // empty')
  [ "$(printf %s "$comments" | jq length)" -eq 100 ] || break
  page=$((page + 1))
done
if [ -n "$old" ]; then
  printf %s "$body" | ask --request "$change" --data @- "$single/$old" >/dev/null
else
  printf %s "$body" | ask --request POST --data @- "$list" >/dev/null
fi
