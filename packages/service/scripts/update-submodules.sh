# Checks out submodules. It runs as a process of the agent, because an agent may have changed the clones.
# Arguments: per submodule, in the order in which they contain each other, the path of the repository that contains it,
# its own path in that, its name, a folder with objects that it may share, its URL at the gateway and its real URL.
# It prints a line for each submodule that could not be checked out: its path, a tab, and the reason.

workspace=$PWD
export GIT_LITERAL_PATHSPECS=1 GIT_LFS_SKIP_SMUDGE=1
git() { command git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 -c maintenance.auto=false "$@"; }

update() (
  parent=$1 path=$2 name=$3 objects=$4 gateway=$5 url=$6
  cd "$workspace/$parent" 2> /dev/null || return 0
  # The agent's branch may not have it.
  wanted=$(git ls-files -s -- "$path" | awk '$1 == "160000" { print $2 }')
  [ -n "$wanted" ] || return 0
  # In a folder without a repository, git would look at the one that contains it.
  if [ -e "$path/.git" ] && [ "$(git -C "./$path" rev-parse -q --verify HEAD 2> /dev/null)" = "$wanted" ]; then return 0; fi
  reason=$(
    {
      git config "submodule.$name.url" "$gateway" &&
        git submodule --quiet update --init --reference "$objects" -- "$path" &&
        git config "submodule.$name.url" "$url" &&
        git -C "./$path" config remote.origin.url "$url"
    } 2>&1
  ) && return 0
  git config "submodule.$name.url" "$url"
  printf '%s\t%s\n' "$path" "$(printf '%s' "$reason" | tr '\n\t' '  ' | tail -c 500)"
)

while [ $# -gt 0 ]; do
  update "$1" "$2" "$3" "$4" "$5" "$6" < /dev/null
  shift 6
done
exit 0
