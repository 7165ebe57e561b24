# Packs what an agent would lose with its machine: its session and its unpushed work. It runs as a process of the agent,
# so programs and hooks that the agent has installed only get the agent's rights. The agent's index, HEAD, branches and
# hooks are not changed: uncommitted files become a commit by means of a separate index and object folder.
#
# Arguments: the fingerprint of the last checkpoint, the maximum size of an archive and of a diff in bytes, the session's
# files as patterns below HOME, the `find` arguments that exclude the repositories (`.` excludes everything); then, per
# repository, its key, its path, and the remote branch from which its own started.
#
# It prints lines of a word and values. `diff` and `archive` are followed by as many bytes as the last value says.
#   same                                        nothing has changed since the last checkpoint; last line
#   commits N / files N                         what is on no remote
#   note TEXT                                   something that is not in the archive
#   diff KEY FILES INSERTIONS DELETIONS BYTES   the working tree compared with the start of the branch
#   large BYTES                                 too large for an archive; last line
#   fingerprint TEXT / archive BYTES

last=$1 max=$2 max_diff=$3 patterns=$4 exclusions=$5
shift 5
workspace=$PWD
temp=$HOME/.muster-checkpoint
out=$temp/out
rm -rf "$temp"
mkdir -p "$out/repos" "$temp/objects" || exit 1
trap 'rm -rf "$temp"' EXIT
touch "$temp/state" "$temp/notes" "$temp/diffs" "$temp/counts" "$out/format"
export GIT_OPTIONAL_LOCKS=0 GIT_AUTHOR_NAME=Muster GIT_AUTHOR_EMAIL=agent@muster.invalid
export GIT_COMMITTER_NAME=Muster GIT_COMMITTER_EMAIL=agent@muster.invalid

git() { command git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.quotePath=false "$@"; }
note() { echo "$1" >> "$temp/notes"; }
bytes_of() { xargs -0 wc -c 2> /dev/null | awk '$2 != "total" { bytes += $1 } END { print bytes + 0 }'; }

# Whether HEAD has it as it is here, and its remote has it too: then nothing of it has to be saved.
is_unchanged_submodule() (
  wanted=$(git --literal-pathspecs ls-tree "${head:-none}" -- "$1" 2> /dev/null | awk '{ print $3 }')
  unset GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_OBJECT_DIRECTORY GIT_INDEX_FILE
  cd "$1" && [ -n "$wanted" ] && [ "$(git rev-parse -q --verify HEAD)" = "$wanted" ] &&
    [ -z "$(git status --porcelain 2>&1)" ] && [ "$(git rev-list --count --branches HEAD --not --remotes)" = 0 ]
)

pack_repository() (
  key=$1 path=$2 base_branch=$3
  if ! cd "$workspace/$path" 2> /dev/null || ! own=$(git rev-parse --absolute-git-dir 2> /dev/null); then
    note "$path is no longer a git repository."
    return
  fi
  head=$(git log -1 --format='%H %T' 2> /dev/null)
  head_tree=${head#* } head=${head% *}
  on=$(git symbolic-ref -q HEAD)
  stash=''
  [ ! -e "$own/logs/refs/stash" ] || stash=$(git reflog show --format=%H refs/stash 2> /dev/null)

  # The uncommitted files.
  GIT_ALTERNATE_OBJECT_DIRECTORIES=$own/objects GIT_OBJECT_DIRECTORY=$temp/objects GIT_INDEX_FILE=$temp/index
  export GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_OBJECT_DIRECTORY GIT_INDEX_FILE
  rm -f "$GIT_INDEX_FILE"
  cp "$own/index" "$GIT_INDEX_FILE" 2> /dev/null
  changed() { git status --porcelain --no-renames --untracked-files=all 2> /dev/null; }
  if ! changed > "$temp/changed"; then
    rm -f "$GIT_INDEX_FILE"
    git read-tree "${head:---empty}" && changed > "$temp/changed" || return 1
  fi
  large=0 work='' files=$(wc -l < "$temp/changed")
  if [ "$files" -gt 0 ]; then
    large=$(git ls-files -z --others --modified --exclude-standard | bytes_of)
    if [ "$large" -le $((max * 4)) ]; then
      large=0
      git -c advice.addEmbeddedRepo=false add --all --ignore-errors . > /dev/null 2>&1 ||
        note "Some files of $path could not be read."
    fi
  fi
  tree=$(git write-tree) || return 1
  if [ "$files" -gt 0 ] && [ "$tree" != "$head_tree" ]; then
    work=$(echo 'Files that were not committed' | git commit-tree "$tree" ${head:+-p "$head"}) || return 1
  fi
  if [ -n "$work" ] || [ -e .gitmodules ]; then
    git ls-tree -r "$tree" | awk '$1 == "160000"' | cut -f 2- | while read -r nested; do
      [ -e "$nested/.git" ] && ! is_unchanged_submodule "$nested" || continue
      note "$nested in $path is a separate git repository."
      echo "$nested" >> "$temp/state"
    done
  fi

  # The branches, and where each is on the remote.
  git for-each-ref --format='%(objectname) %(refname)' refs/heads refs/remotes/origin | awk '
    $2 ~ "^refs/heads/" { here[substr($2, 12)] = $1 }
    $2 ~ "^refs/remotes/" { there[substr($2, 21)] = $1 }
    END { for (name in here) print here[name], "refs/heads/" name, (name in there ? there[name] : "-") }
  ' | sort > "$temp/branches"
  case $key in */*) mkdir -p "$out/repos/${key%/*}" ;; esac
  { echo "${on:-$head}"; cat "$temp/branches"; } > "$out/repos/$key.refs"
  { cat "$out/repos/$key.refs"; echo "$tree $stash"; } >> "$temp/state"

  # The unpushed commits.
  git for-each-ref --format='^%(objectname)' refs/remotes > "$temp/pushed"
  { cut -d ' ' -f 1 "$temp/branches"; echo "$head"; cat "$temp/pushed"; } | grep . |
    git rev-list --stdin > "$temp/commits"
  {
    if [ -s "$temp/commits" ]; then
      awk 'NR == FNR { new[$1]; next } $1 in new { print $1, $2 }' "$temp/commits" "$temp/branches"
      [ -n "$on" ] || grep -x "$head" "$temp/commits" | sed 's,$, refs/muster/head,'
      git for-each-ref --format='%(objectname) %(refname) %(*objectname)' refs/tags |
        awk 'NR == FNR { new[$1]; next } ($1 in new) || ($3 in new) { print $1, $2 }' "$temp/commits" -
    fi
    [ -z "$stash" ] || echo "$stash" | awk '{ print $1, "refs/muster/stash/" NR - 1 }'
    [ -z "$work" ] || echo "$work refs/muster/work"
  } > "$temp/tips"
  if [ -s "$temp/tips" ]; then
    { cut -d ' ' -f 1 "$temp/tips"; cat "$temp/pushed"; } > "$temp/revisions"
    {
      echo '# v2 git bundle'
      git rev-list --boundary --stdin < "$temp/revisions" | grep '^-'
      cat "$temp/tips"
      echo
      git pack-objects --revs --thin --delta-base-offset --stdout -q < "$temp/revisions"
    } > "$out/repos/$key.bundle" || return 1
  fi

  # The changes of the working tree since the start of the branch.
  base=$(git merge-base "refs/remotes/origin/$base_branch" "${head:-none}" 2> /dev/null) ||
    base=$(git hash-object -t tree /dev/null)
  difference() {
    [ "$base $tree" = "$head $head_tree" ] || git diff --no-ext-diff --no-textconv --no-color "$@" "$base" "$tree"
  }
  stat=$(difference --shortstat --no-renames | awk '
    { for (i = 2; i <= NF; i++) count[substr($i, 1, 3)] = $(i - 1) }
    END { print count["fil"] + 0, count["ins"] + 0, count["del"] + 0 }')
  difference | head -c "$max_diff" > "$temp/diff"
  { echo "diff $key $stat $(wc -c < "$temp/diff")"; cat "$temp/diff"; } >> "$temp/diffs"
  echo "$(wc -l < "$temp/commits") $files $large" >> "$temp/counts"
)

while [ $# -gt 0 ]; do
  pack_repository "$1" "$2" "$3" || note "$2 could not be packed."
  shift 3
done

# The files outside the repositories.
cd "$workspace" || exit 1
outside() { [ "$exclusions" = . ] || eval "find . -mindepth 1 $exclusions $1 -print0"; }
large=$(outside '-type f' | bytes_of)
if [ "$large" -gt $((max * 4)) ]; then
  echo "0 0 $large" >> "$temp/counts"
elif [ -n "$(outside '' | head -c 1 | tr '\0' x)" ]; then
  outside '' | tar -cf "$out/files.tar" --no-recursion --null -T - 2> /dev/null
  cksum < "$out/files.tar" >> "$temp/state"
fi

# The session, without an incomplete last line.
cd "$HOME" || exit 1
for file in $patterns; do
  [ -e "$file" ] || continue
  mkdir -p "$out/home/${file%/*}"
  cp -R "$file" "$out/home/${file%/*}/"
done
if [ -d "$out/home" ]; then
  find "$out/home" -type f -name '*.jsonl' | while read -r file; do
    [ -z "$(tail -c 1 "$file" | tr '\0' x)" ] || { sed '$d' "$file" > "$file.cut" && mv "$file.cut" "$file"; }
  done
  find "$out/home" -type f -exec cksum {} + | sort >> "$temp/state"
fi

fingerprint=$(cksum < "$temp/state" | tr ' ' -)
if [ "$fingerprint" = "$last" ]; then
  echo same
  exit
fi
awk '{ commits += $1; files += $2; bytes += $3 }
  END { print "commits", commits + 0; print "files", files + 0; exit bytes > 0 }' "$temp/counts"
is_large=$?
[ ! -s "$temp/notes" ] || head -n 20 "$temp/notes" | cut -c 1-300 | sed 's/^/note /'
cat "$temp/diffs"
if [ $is_large = 1 ]; then
  bytes=$(awk '{ bytes += $3 } END { print bytes + 0 }' "$temp/counts")
else
  # Without an entry for the folder itself, which would change the owner of the folder where it is unpacked.
  (cd "$out" && tar -cf "$temp/archive" ./*) || exit 1
  gzip -1 "$temp/archive" || exit 1
  bytes=$(wc -c < "$temp/archive.gz")
fi
if [ "$bytes" -gt "$max" ]; then
  echo "large $bytes"
  exit
fi
echo "fingerprint $fingerprint"
echo "archive $bytes"
cat "$temp/archive.gz"
