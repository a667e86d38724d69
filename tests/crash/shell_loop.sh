#!/bin/sh
# What a careful engineer writes instead of an orchestrator: a worktree for each task, one merge each, and it can be
# started again. A task whose merge is on the branch is skipped; what an earlier start left of a task is removed.
#
#   shell_loop.sh TASKS       each line of TASKS: a name, and the command that does it
set -eu
branch=result
work=$PWD/.work

git show-ref --quiet --verify "refs/heads/$branch" || git branch -q "$branch" main
git worktree prune
if [ -d "$work/$branch" ]; then
    git -C "$work/$branch" reset -q --hard
else
    git worktree add -q "$work/$branch" "$branch"
fi
while read -r task command; do
    if git log --first-parent --format=%s "main..$branch" | grep -qx "Land $task"; then
        continue
    fi
    git worktree remove --force "$work/$task" 2> /dev/null || rm -rf "${work:?}/$task"
    git worktree prune
    git branch -q -D "task/$task" 2> /dev/null || true
    git worktree add -q -b "task/$task" "$work/$task" "$branch"
    (cd "$work/$task" && sh -c "$command" && git add -A && git commit -q --allow-empty -m "$task") < /dev/null
    git -C "$work/$branch" merge -q --no-ff -m "Land $task" "task/$task" < /dev/null
    git worktree remove --force "$work/$task"
    git branch -q -D "task/$task"
done < "$1"
git worktree remove --force "$work/$branch"
