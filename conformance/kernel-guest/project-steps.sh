# Clones the projects of the folder $origins, installs their packages and builds them, in the folder $place: on the share, as a guest sees it, or on a disk of
# this machine, as $mode says. `inside` runs words where this machine's programs are; $home is a folder there, with npm's cache, and $notes one here. Each check
# prints ok, or not ok with a reason.

check() { # name, words
  name="$1"; shift
  if "$@" > "$notes/said" 2>&1; then
    echo "ok $name, $mode"
  else
    echo "not ok $name, $mode - $(tail -n 4 "$notes/said" | tr '\n' '|')"
    echo "--- what $name said:"; tail -n 25 "$notes/said"
  fi
}

# npm is told not to ask for a newer npm, which it does when it is offline, too.
at() { # folder, words
  folder="$1"; shift
  inside env -i HOME="$home" PATH=/usr/bin:/bin LC_ALL=C.UTF-8 npm_config_update_notifier=false npm_config_offline=true \
    GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' sh -c "cd $place/$folder && $*"
}
there() { at project "$@"; }
in_real() { at multilane "$@"; }
in_build() { at multilane/conformance/page-build "$@"; }

cloned() { at . "git clone -q --no-hardlinks $origins/project/work project"; }
is_clean() { there 'git status --porcelain > ~/status && cat ~/status && [ ! -s ~/status ]'; }
links_are_links() { there 'git config --get core.symlinks; [ "$(readlink current)" = src/main.c ] && [ "$(readlink circle)" = circle ] \
  && [ "$(readlink absolute)" = /etc/hostname ] && [ "$(readlink "with space")" = "docs/v1/a b" ]'; }
follows() { there '[ "$(cat docs/latest/page)" = two ] && [ "$(cat docs/latest/up)" = one ] && [ "$(cat "with space")" = odd ] && cmp current src/main.c \
  && ! cat nowhere 2>/dev/null && ! cat circle 2>/dev/null && ls docs/latest/ | grep -qx page'; }
writes_through() { there 'echo three > docs/latest/new && [ "$(cat docs/v2/new)" = three ] && rm docs/latest/new && [ ! -e docs/v2/new ]'; }
installed() { there 'npm install --offline --no-audit --no-fund --loglevel=error && [ -L node_modules/.bin/greet ]'; }
uses_packages() { there '[ "$(node_modules/.bin/greet)" = "hello from npm" ]'; }
built() { there 'make -s && [ "$(./app-link)" = hello ] && [ "$(readlink app-link)" = app ]'; }
built_again() { there 'make -s clean && [ ! -e app-link ] && make -s && touch include/greeting.h && make -s && [ "$(./app)" = hello ]'; }
moved() { there 'mv docs/latest docs/newest && [ "$(readlink docs/newest)" = v2 ] && [ -d docs/v2 ] && git checkout -q . && rm docs/newest \
  && [ "$(readlink docs/latest)" = v2 ] && [ -e docs/v2/page ]'; }
replaced() { there 'ln -sfn v1 docs/latest && [ "$(cat docs/latest/page)" = one ] && rm docs/latest && echo file > docs/latest && [ "$(cat docs/latest)" = file ] \
  && git checkout -q . && [ "$(readlink docs/latest)" = v2 ]'; }
full_folders_stay() { there 'mkdir full && touch full/file && ! ln -sT x full 2>/dev/null && [ -f full/file ] && rm -r full'; }

real_cloned() { at . "git clone -q file://$origins/multilane.git multilane"; }
real_is_clean() { in_real 'git status --porcelain > ~/status && cat ~/status && [ ! -s ~/status ]'; }
goes_back_in_time() { in_real 'git checkout -q HEAD~25 && git status --porcelain > ~/status && [ ! -s ~/status ] && git checkout -q -'; }
real_installed() { in_build 'npm ci --no-audit --no-fund && [ -L node_modules/.bin/tsc ] && node_modules/.bin/semver 1.2.3'; }
real_built() { in_build 'npm run build'; }

# What came of it, for who compares: of each thing its path, and where it leads or a sum of what is in it. Without its path busybox' own find would run.
listed() {
  at . "/usr/bin/find project multilane -name .git -prune -o -type l -printf '%p -> %l\\n' -o -type d -printf '%p/\\n' > names" \
    && at . "/usr/bin/find project multilane -name .git -prune -o -type f -print0 | xargs -0 md5sum > sums"
}

worked() {
  check "git clones" cloned
  check "links are links" links_are_links
  check "links are followed" follows
  check "what is written through a link is where it leads" writes_through
  check "a link is moved as itself" moved
  check "a link is replaced" replaced
  check "a folder is not replaced by a link" full_folders_stay
  check "git finds nothing changed" is_clean
  check "npm installs" installed
  check "installed programs run" uses_packages
  check "make builds" built
  check "make builds again" built_again
  check "git clones a project with its history" real_cloned
  check "git checks out what was" goes_back_in_time
  check "git finds nothing changed there" real_is_clean
  check "npm installs what a lock file names" real_installed
  check "npm builds" real_built
  check "what came of it is listed" listed
}

worked
