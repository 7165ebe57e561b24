# Turns the clones of a prepared copy into those of an agent: on the agent's own branch, with the refs that their remotes
# have now. It runs as a process of the agent, because set-up commands may have changed the clones.
# Arguments: the branch, then, per repository, its path, the commit at which the branch starts (empty: none), the commit
# from which the copy was made, `pushed` if the remote has the branch, and a file with the refs of its remote.

branch=$1
shift
temp=$(mktemp -d) || exit 1
trap 'rm -rf "$temp"' EXIT
git() { command git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 -c maintenance.auto=false "$@"; }

adopt() (
  path=$1 start=$2 base=$3 pushed=$4 refs=$5
  cd "$path" && git rev-parse --git-dir > /dev/null || return 1
  git for-each-ref --format='%(objectname) %(refname)' refs/remotes/origin refs/tags |
    grep -v ' refs/remotes/origin/HEAD$' > "$temp/known"
  awk 'FILENAME == ARGV[1] { now[$2]; next } !($2 in now) { print "delete", $2 }' "$refs" "$temp/known" |
    git update-ref --stdin || return 1
  awk 'FILENAME == ARGV[1] { known[$2] = $1; next } known[$2] != $1 { print "update", $2, $1 }' "$temp/known" "$refs" |
    git update-ref --stdin || return 1

  head=$(git rev-parse -q --verify 'HEAD^{commit}')
  if [ -n "$start" ] && [ "$start" != "$base" ]; then
    # Keeps what set-up changed in tracked files, unless the branch changes the same files.
    git update-index -q --refresh
    git read-tree -m -u HEAD "$start" 2> /dev/null || git reset -q --hard "$start" || return 1
    head=$start
  fi
  [ -z "$head" ] || git update-ref "refs/heads/$branch" "$head" || return 1
  git symbolic-ref HEAD "refs/heads/$branch" || return 1
  git update-ref -d refs/heads/muster/prepared
  [ "$pushed" != pushed ] || {
    git config "branch.$branch.remote" origin && git config "branch.$branch.merge" "refs/heads/$branch"
  }
)

while [ $# -gt 0 ]; do
  adopt "$1" "$2" "$3" "$4" "$5" || exit 1
  shift 5
done
