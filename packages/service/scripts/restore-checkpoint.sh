# Unpacks a checkpoint from its standard input into the fresh folders of an agent. It runs as a process of the agent.
# Arguments: `all` or `session`, then, per repository, its key and its path. It prints one line for each thing that could
# not be restored exactly.

what=$1
shift
workspace=$PWD
temp=$HOME/.muster-checkpoint
saved=refs/muster/saved
rm -rf "$temp"
mkdir -p "$temp" || exit 1
trap 'rm -rf "$temp"' EXIT
tar -xzf - --no-same-owner -C "$temp" || exit 1

# Checkpoints of an earlier version of the runner contain only a session.
for folder in "$temp/home" "$temp/.claude" "$temp/.codex"; do
  case $folder in */home) from=$folder/. ;; *) from=$folder ;; esac
  [ ! -e "$folder" ] || cp -R "$from" "$HOME/" || exit 1
done
[ "$what" = all ] && [ -e "$temp/format" ] || exit 0
[ ! -e "$temp/files.tar" ] || tar -xf "$temp/files.tar" --no-same-owner -C "$workspace" || exit 1

# The files of LFS are downloaded later.
export GIT_LFS_SKIP_SMUDGE=1
git() { command git -c core.hooksPath=/dev/null -c gc.auto=0 -c maintenance.auto=false "$@"; }
commit_of() { git rev-parse -q --verify "$1^{commit}"; }
is_ancestor() { git merge-base --is-ancestor "$1" "$2" 2> /dev/null; }

# Writes the uncommitted files as they are: in a git folder where no attribute changes them.
write_work() (
  # An earlier version of the runner stored them as git would commit them.
  [ -s "$temp/format" ] || { git read-tree -u --reset "$1"; return; }
  own=$(git rev-parse --absolute-git-dir)
  rm -rf "$temp/git"
  git init -q --bare --template= --object-format="$(git rev-parse --show-object-format)" "$temp/git" &&
    mkdir "$temp/git/info" || return 1
  echo '* -text -ident -filter !eol !working-tree-encoding' > "$temp/git/info/attributes"
  export GIT_DIR="$temp/git" GIT_WORK_TREE="$PWD" GIT_INDEX_FILE="$own/index" GIT_OBJECT_DIRECTORY="$own/objects"
  git read-tree -u --reset "$1"
)

restore_repository() (
  key=$1 path=$2
  refs=$temp/repos/$key.refs bundle=$temp/repos/$key.bundle
  [ -e "$refs" ] && cd "$workspace/$path" 2> /dev/null || {
    echo "The checkpoint does not contain $path."
    return
  }
  if [ -e "$bundle" ] && ! git fetch -q --no-tags --no-write-fetch-head "$bundle" "+refs/*:$saved/*" 2> /dev/null; then
    echo "The unpushed work of $path could not be restored: its remote no longer has the commits it is based on."
    return
  fi

  sed 1d "$refs" | while read -r commit ref remote; do
    name=${ref#refs/heads/}
    pushed=$(commit_of "refs/remotes/origin/$name")
    if ! git cat-file -e "$commit^{commit}" 2> /dev/null; then
      echo "The commit $commit of branch $name in $path no longer exists."
    elif [ -z "$pushed" ] || [ "$pushed" = "$remote" ] || is_ancestor "$pushed" "$commit"; then
      git update-ref "$ref" "$commit"
    elif is_ancestor "$commit" "$pushed"; then
      git update-ref "$ref" "$pushed"
    else
      git update-ref "$ref" "$pushed"
      git update-ref "refs/heads/saved/$name" "$commit"
      echo "Branch $name in $path was pushed after the checkpoint; its earlier state is on branch saved/$name."
    fi
  done
  head=$(head -n 1 "$refs")
  case $head in
    refs/*) git symbolic-ref HEAD "$head" ;;
    ?*) git update-ref --no-deref HEAD "$head" || echo "The commit $head, which was checked out in $path, no longer exists." ;;
  esac
  now=$(commit_of HEAD)
  if [ -n "$now" ]; then git reset -q --hard; else git read-tree -u --reset "$(git hash-object -t tree -w /dev/null)"; fi

  work=$(commit_of "$saved/muster/work")
  if [ -n "$work" ]; then
    if [ "$now" = "$(commit_of "$work^")" ]; then
      write_work "$work" && git read-tree "${now:---empty}" && git update-index -q --refresh
    else
      git update-ref refs/heads/saved/uncommitted "$work"
      echo "The branch of $path has newer commits; the uncommitted files are on branch saved/uncommitted."
    fi
  fi

  git for-each-ref --format='%(objectname) %(refname)' "$saved/tags" | while read -r tag ref; do
    git update-ref "refs/tags/${ref#"$saved/tags/"}" "$tag"
  done
  git for-each-ref --sort=-version:refname --format='%(objectname) %(subject)' "$saved/muster/stash" |
    while read -r commit subject; do git stash store -q -m "$subject" "$commit"; done
  git for-each-ref --format='delete %(refname)' "$saved" | git update-ref --stdin
)

[ ! -s "$temp/left-out" ] || head -n 20 "$temp/left-out" | cut -c 1-600 | sed 's/^/Not restored, because it is not in the checkpoint: /'
while [ $# -gt 0 ]; do
  restore_repository "$1" "$2" < /dev/null
  shift 2
done
exit 0
