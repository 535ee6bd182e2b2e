#!/bin/sh
# Puts a text below a pull request of GitHub or a merge request of GitLab, in place of the one that an earlier run put there. Needs curl and jq.
#
#     comment.sh FILE
#
# GitHub: GITHUB_API_URL, GITHUB_REPOSITORY, GITHUB_TOKEN, and PULL_REQUEST, the number. GitLab: CI_API_V4_URL, CI_PROJECT_ID,
# CI_MERGE_REQUEST_IID, and GITLAB_TOKEN, a token that may write notes. All but the last of each are set by the service.
set -eu
marker='<!-- highwater -->'
if [ -n "${GITLAB_CI:-}" ]; then
  header="PRIVATE-TOKEN: $GITLAB_TOKEN"
  list="$CI_API_V4_URL/projects/$CI_PROJECT_ID/merge_requests/$CI_MERGE_REQUEST_IID/notes"
  single=$list change=PUT
else
  header="Authorization: Bearer $GITHUB_TOKEN"
  list="$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/issues/$PULL_REQUEST/comments"
  single="$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/issues/comments" change=PATCH
fi
ask() { curl --silent --show-error --fail --header "$header" --header 'Content-Type: application/json' "$@"; }

body=$(jq --raw-input --slurp '{body: .}' "$1")
old=$(ask "$list?per_page=100" | jq --arg marker "$marker" '[.[] | select(.body | startswith($marker)) | .id] | first // empty')
if [ -n "$old" ]; then
  printf %s "$body" | ask --request "$change" --data @- "$single/$old" >/dev/null
else
  printf %s "$body" | ask --request POST --data @- "$list" >/dev/null
fi
