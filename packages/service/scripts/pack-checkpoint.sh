# Packs what an agent would lose with its machine: its session and its unpushed work. It runs as a process of the agent,
# so programs that the agent has replaced only get the agent's rights. The agent's index, HEAD and branches are not
# changed: uncommitted files become a commit by means of a separate index and object folder. What reads files is a git
# without the agent's configuration and attributes (`raw`): it starts no filters, and stores every file as it is.
#
# The session and the commits come first, then files, the smallest first, until the archive is full. What is left out is
# listed in the archive, so that it can be listed when the archive is unpacked.
#
# Arguments: the fingerprint of the last checkpoint, the maximum size of an archive and of a diff in bytes, the session's
# files as patterns below HOME, the `find` arguments that exclude the repositories (`.` excludes everything); then, per
# repository, its key, its path, and the remote branch from which its own started.
#
# It prints lines of a word and values. `diff` and `archive` are followed by as many bytes as the last value says.
#   same                                        nothing has changed since the last checkpoint; last line
#   commits N / files N                         what is on no remote
#   note TEXT                                   work that is not in the archive
#   skipped TEXT                                what is never in an archive, if this has changed
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
# A program that the agent has replaced can't fill the disk. The unit is 512 bytes.
ulimit -f $((max / 32))
touch "$temp/state" "$temp/scan-notes" "$temp/skipped" "$temp/failed"
# Says that the uncommitted files are stored as they are.
echo raw > "$out/format"
# Objects that a partial clone lacks are not fetched.
export GIT_ALLOW_PROTOCOL=none GIT_NO_LAZY_FETCH=1
export GIT_OPTIONAL_LOCKS=0 GIT_AUTHOR_NAME=Muster GIT_AUTHOR_EMAIL=agent@muster.invalid
export GIT_COMMITTER_NAME=Muster GIT_COMMITTER_EMAIL=agent@muster.invalid LC_ALL=C

settings='-c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.quotePath=false -c log.showSignature=false'
git() { command git $settings "$@"; }
raw() { GIT_DIR=$raw GIT_WORK_TREE=$PWD command git $settings "$@"; }
tab=$(printf '\t')
note() { echo "$1" >> "$temp/notes"; }

# A file of records with a size and a name becomes one line: the largest first, and how many more there are. No name can
# break it.
listed() {
  [ -s "$2" ] || return 0
  sort -z -t "$tab" -k 1,1rn -k 2 "$2" | tr '\n' '?' | tr '\0' '\n' | tr '\001-\010\013-\037\177' '?' | text=$1 awk -F '\t' '
    function size(bytes) {
      return bytes < 1048576 ? int((bytes + 1023) / 1024) " KB" : int((bytes + 1048575) / 1048576) " MB"
    }
    NR > 5 { more += 1; bytes += $1; next }
    {
      name = substr($0, length($1) + 2)
      if (length(name) > 80) name = substr(name, 1, 77) "..."
      names = names (NR > 1 ? ", " : "") name ($1 > 0 ? " (" size($1) ")" : "")
    }
    END { if (NR) print ENVIRON["text"] ": " names (more ? " and " more " more" (bytes > 0 ? " (" size(bytes) ")" : "") : "") "." }'
}

# Makes the git folder of `raw` for the repository here, whose git folder is `own` and whose commit is `head`.
make_raw() {
  raw=$1
  rm -rf "$raw"
  command git init -q --bare --template= --object-format="$(git rev-parse --show-object-format)" "$raw" &&
    mkdir "$raw/info" || return 1
  [ -z "$head" ] || echo "$head" > "$raw/HEAD"
  echo '* -text -ident -filter !eol !working-tree-encoding' > "$raw/info/attributes"
  cp "$own/info/exclude" "$raw/info/exclude" 2> /dev/null
  use_raw "$raw"
  cp "$own/index" "$GIT_INDEX_FILE" 2> /dev/null
  return 0
}
use_raw() {
  raw=$1
  GIT_ALTERNATE_OBJECT_DIRECTORIES=$own/objects GIT_OBJECT_DIRECTORY=$temp/objects GIT_INDEX_FILE=$raw/index
  export GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_OBJECT_DIRECTORY GIT_INDEX_FILE
}

# Of nested repositories only the commits are compared: otherwise git starts another one in each, with its configuration.
changed() { raw status --porcelain --no-renames --untracked-files=all --ignore-submodules=dirty "$@" 2> /dev/null; }
nested_repositories() { awk '$1 == "160000"' | cut -f 2-; }

# Whether its parent, at the commit `head`, has it as it is here, and its remote has it too: then nothing of it has to be
# saved.
is_unchanged_submodule() (
  wanted=$(git --literal-pathspecs ls-tree "${head:-none}" -- "$1" 2> /dev/null | awk '{ print $3 }')
  unset GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_OBJECT_DIRECTORY GIT_INDEX_FILE
  cd "$1" && own=$(git rev-parse --absolute-git-dir) && head=$(git rev-parse -q --verify HEAD) &&
    [ "$head" = "$wanted" ] && [ "$(git rev-list --count --branches HEAD --not --remotes)" = 0 ] &&
    make_raw "$raw/inner" && lines=$(changed) && [ -z "$lines" ] || return 1
  raw ls-files --stage | nested_repositories | while read -r nested; do
    [ ! -e "$nested/.git" ] || is_unchanged_submodule "$nested" || exit 1
  done
)

# Prints the size and the name of each file and link. Other files of `raw` get what is missing, nested or unreadable.
sized() {
  xargs -0 -r /bin/sh -c '
    for file; do
      if [ -L "$file" ] || { [ -f "$file" ] && [ -r "$file" ]; }; then printf "%s\0" "$file"
      elif [ -d "$file" ]; then printf "0\t%s\0" "$file" >&3
      elif [ -e "$file" ]; then printf "0\t%s\0" "$file" >&4
      else printf "%s\0" "$file" >&5
      fi
    done' sh 3>> "$raw/nested" 4>> "$raw/unreadable" 5>> "$raw/deleted" | xargs -0 -r stat --printf='%s\t%n\0' -- 2> /dev/null
}

# Finds the uncommitted files of a repository.
scan_repository() (
  path=$3 raw=$temp/$1
  if ! cd "$workspace/$path" 2> /dev/null || ! own=$(git rev-parse --absolute-git-dir 2> /dev/null); then
    echo "$path is no longer a git repository." >> "$temp/scan-notes"
    return
  fi
  head=$(git rev-parse -q --verify HEAD)
  make_raw "$raw" || return 1
  if ! changed --ignored=matching > "$raw/all"; then
    rm -f "$GIT_INDEX_FILE"
    raw read-tree "${head:---empty}" && changed --ignored=matching > "$raw/all" || return 1
  fi
  grep -v '^!!' "$raw/all" > "$raw/changed"
  sed -n 's/^!! /0\t/p' "$raw/all" | tr '\n' '\0' > "$raw/ignored"
  listed "files of $path that git ignores" "$raw/ignored" >> "$temp/skipped"
  : > "$raw/list"
  [ -s "$raw/changed" ] || return 0
  raw update-index -q --refresh > /dev/null 2>&1
  differing() { raw diff-files -z --name-only --no-renames --ignore-submodules=all "$@"; }
  differing --diff-filter=D > "$raw/deleted"
  { differing --diff-filter=d; raw ls-files -z --others --exclude-standard; } | sized | sort -z -u | sort -z -n > "$raw/list"
  listed "unreadable files of $path" "$raw/unreadable" >> "$temp/scan-notes"
  listed "separate git repositories in $path" "$raw/nested" >> "$temp/scan-notes"
  cp "$raw/index" "$raw/scanned" 2> /dev/null
  return 0
)

# Adds the files that were chosen, the first of the list. Nested repositories are set to the commits they are at: of
# those, too, git would start another one.
add_files() {
  rm -f "$raw/index"
  [ ! -e "$raw/scanned" ] || cp "$raw/scanned" "$raw/index" || return 1
  raw update-index --force-remove -z --stdin < "$raw/deleted" || return 1
  head -z -n "$1" "$raw/list" | cut -z -f 2- | sort -z |
    raw update-index --add --remove --replace -z --stdin || return 1
  raw ls-files -z --stage | sed -nz 's/^160000 [^\t]*\t//p' | raw update-index --add --remove -z --stdin
}

pack_repository() (
  index=$1 key=$2 path=$3 base_branch=$4
  [ -e "$temp/$index/changed" ] && cd "$workspace/$path" && own=$(git rev-parse --absolute-git-dir) || return 0
  use_raw "$temp/$index"
  head=$(git log -1 --format='%H %T' 2> /dev/null)
  head_tree=${head#* } head=${head% *}
  on=$(git symbolic-ref -q HEAD)
  stash=''
  [ ! -e "$own/logs/refs/stash" ] || stash=$(git reflog show --format=%H refs/stash 2> /dev/null)

  # The uncommitted files.
  work='' files=$(wc -l < "$raw/changed")
  if [ "$files" -gt 0 ]; then
    add_files "$(chosen "$index")" > /dev/null 2>&1 || note "Some files of $path could not be read."
  fi
  tree=$(raw write-tree) || return 1
  if [ "$files" -gt 0 ] && [ "$tree" != "$head_tree" ]; then
    work=$(echo 'Files that were not committed' | raw commit-tree "$tree" ${head:+-p "$head"}) || return 1
  fi
  if [ -n "$work" ] || [ -e .gitmodules ]; then
    raw ls-tree -r "$tree" | nested_repositories | while read -r nested; do
      [ ! -e "$nested/.git" ] || is_unchanged_submodule "$nested" || printf '0\t%s\0' "$nested"
    done > "$raw/submodules"
    listed "changed submodules of $path" "$raw/submodules" >> "$temp/notes"
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
  # Git may have changed the line ends of the files that it checked out.
  line_ends=$(raw ls-files -- '*.gitattributes' | head -n 1)
  difference() {
    [ "$base $tree" = "$head $head_tree" ] ||
      raw diff --no-ext-diff --no-textconv --no-color ${line_ends:+--ignore-cr-at-eol} "$@" "$base" "$tree"
  }
  stat=$(difference --shortstat | awk '
    { for (i = 2; i <= NF; i++) count[substr($i, 1, 3)] = $(i - 1) }
    END { print count["fil"] + 0, count["ins"] + 0, count["del"] + 0 }')
  # As much context as the service may ask for; of a diff that is too long with it, git's own.
  difference -U100 | head -c "$max_diff" > "$temp/diff"
  [ "$(wc -c < "$temp/diff")" -lt "$max_diff" ] || difference | head -c "$max_diff" > "$temp/diff"
  { echo "diff $key $stat $(wc -c < "$temp/diff")"; cat "$temp/diff"; } >> "$temp/diffs"
  echo "$(wc -l < "$temp/commits") $files" >> "$temp/counts"
)

each_repository() {
  action=$1 index=0
  shift
  while [ $# -gt 0 ]; do
    index=$((index + 1))
    $action "$index" "$1" "$2" "$3" || echo "$2 could not be packed." >> "$temp/failed"
    shift 3
  done
}

# How many files of each list fit, the smallest of all first. Each also needs space for its name.
choose() {
  for list in "$temp"/*/list; do
    list_of=${list%/list}
    [ ! -s "$list" ] || cut -z -f 1 "$list" | tr '\0' '\n' | sed "s,\$, ${list_of##*/},"
  done | sort -n | awk -v left="$1" '
    { left -= $1 + 512; count[left < 0 ? "none" : $2] += 1 }
    END { for (list in count) print list, count[list] }' > "$temp/chosen"
  : > "$temp/left"
  [ "$(chosen none)" -eq 0 ] || for list in "$temp"/*/list; do
    list_of=${list%/list}
    tail -z -n "+$(($(chosen "${list_of##*/}") + 1))" "$list" >> "$temp/left"
  done
}
chosen() {
  chosen=0
  while read -r list count; do [ "$list" != "$1" ] || chosen=$count; done < "$temp/chosen"
  echo "$chosen"
}

outside() { [ "$exclusions" = . ] || (cd "$workspace" && eval "find . -mindepth 1 $exclusions $1"); }

# Collects what goes into the archive, with files of at most this many bytes.
collect() {
  rm -rf "$out/repos" "$out/files.tar"
  mkdir "$out/repos"
  for file in notes diffs counts; do : > "$temp/$file"; done
  choose "$1"
  shift
  each_repository pack_repository "$@"
  if [ "$(chosen 0)" -gt 0 ]; then
    head -z -n "$(chosen 0)" "$temp/0/list" | cut -z -f 2- |
      tar -cf "$out/files.tar" -C "$workspace" --no-recursion --null -T - 2> /dev/null
  fi
}
# Makes the archive, and returns whether it is small enough.
compress() {
  {
    cat "$temp/scan-notes" "$temp/notes" "$temp/failed"
    listed 'too large' "$temp/left"
  } | sort -u > "$temp/left-out"
  cat "$temp/left-out" "$temp/skipped" > "$out/left-out"
  # Without an entry for the folder itself, which would change the owner of the folder where it is unpacked.
  (cd "$out" && tar -cf "$temp/archive" ./*) && gzip -1 -f "$temp/archive" || exit 1
  bytes=$(wc -c < "$temp/archive.gz")
  [ "$bytes" -le "$max" ]
}

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

each_repository scan_repository "$@"
mkdir "$temp/0"
outside "-type f ! -readable -fprintf '$temp/0/unreadable' '0\\t%p\\0' -o -printf '%s\\t%p\\0'" |
  sort -z -n > "$temp/0/list"
listed 'unreadable files' "$temp/0/unreadable" >> "$temp/scan-notes"
# Without caches and what belongs to a harness.
set -f
for pattern in $patterns; do own_names="$own_names ! -name ${pattern%%/*}"; done
find . -mindepth 1 -maxdepth 1 ! -name .claude* ! -name .codex* ! -name .cache ! -name .muster-* ! -name run ! -name tmp $own_names \
  -printf '0\t%f\0' > "$temp/home"
set +f
listed 'files in the home folder' "$temp/home" >> "$temp/skipped"

collect $((max * 4)) "$@"
[ ! -e "$out/files.tar" ] || cksum < "$out/files.tar" >> "$temp/state"
{ cat "$temp/scan-notes" "$temp/notes" "$temp/failed"; cut -z -f 2- "$temp/left"; } >> "$temp/state"
fingerprint=$(cksum < "$temp/state" | tr ' ' -)
if [ "$fingerprint" = "$last" ]; then
  echo same
  exit
fi
cp "$temp/diffs" "$temp/all-diffs"
if ! compress; then
  collect 0 "$@"
  if compress; then
    collect $(((max - bytes) / 10 * 9)) "$@"
    compress || { collect 0 "$@"; compress; }
  else
    # Even the session and the commits are too large together.
    : > "$temp/dropped"
    if [ -d "$out/home" ] && [ "$(tar -cf - -C "$out" home | gzip -1 | wc -c)" -gt "$max" ]; then
      printf '%s\tthe session\0' "$bytes" >> "$temp/dropped"
      rm -rf "$out/home"
      compress
    fi
    (cd "$out/repos" && find . -name '*.bundle' -printf '%s\t%P\n' | sort -rn) |
      while [ "$bytes" -gt "$max" ] && read -r size file; do
        bytes=$((bytes - size))
        printf '%s\t%s\0' "$size" "unpushed commits of ${file%.bundle}" >> "$temp/dropped"
        rm "$out/repos/$file"
      done
    listed 'too large' "$temp/dropped" >> "$temp/scan-notes"
    compress
  fi
fi
awk '{ commits += $1; files += $2 } END { print "commits", commits + 0; print "files", files + 0 }' "$temp/counts"
shown() { [ ! -s "$2" ] || head -n 20 "$2" | cut -c 1-600 | sed "s/^/$1 /"; }
shown note "$temp/left-out"
noted=$HOME/.muster-skipped
if ! cmp -s "$temp/skipped" "$noted"; then
  shown skipped "$temp/skipped"
  rm -rf "$noted"
  cp "$temp/skipped" "$noted"
fi
cat "$temp/all-diffs"
if [ "$bytes" -gt "$max" ]; then
  echo "large $bytes"
  exit
fi
echo "fingerprint $fingerprint"
echo "archive $bytes"
cat "$temp/archive.gz"
