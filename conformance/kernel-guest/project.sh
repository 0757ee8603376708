# Runs in the guest: clones a project, installs its packages and builds it, on a disk of the guest's own and on the share, with this machine's programs.
# $server, $port, $share, $user, $password, $origin and $tag come from the run. Each check prints ok, or not ok with a reason.

check() { # name, words
  name="$1"; shift
  if "$@" > /tmp/said 2>&1; then
    echo "ok $name, $mode"
  else
    echo "not ok $name, $mode - $(tail -n 4 /tmp/said | tr '\n' '|')"
    echo "--- what $name said:"; tail -n 25 /tmp/said
    echo "--- kernel:"; dmesg | tail -n 8
  fi
}

there() { # words, in the project's folder, as one who sees this machine's files
  chroot /host env -i HOME=/tmp/home PATH=/usr/bin:/bin LC_ALL=C.UTF-8 sh -c "cd /tmp/$mode/project && $*"
}

cloned() {
  chroot /host env -i HOME=/tmp/home PATH=/usr/bin:/bin GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' \
    git clone -q --no-hardlinks "$origin" "/tmp/$mode/project"
}
is_clean() { there 'git -c safe.directory="*" status --porcelain > /tmp/status && cat /tmp/status && [ ! -s /tmp/status ]'; }
links_are_links() { there 'git -c safe.directory="*" config --get core.symlinks; [ "$(readlink current)" = src/main.c ] && [ "$(readlink circle)" = circle ] \
  && [ "$(readlink absolute)" = /etc/hostname ] && [ "$(readlink "with space")" = "docs/v1/a b" ]'; }
follows() { there '[ "$(cat docs/latest/page)" = two ] && [ "$(cat docs/latest/up)" = one ] && [ "$(cat "with space")" = odd ] && cmp current src/main.c \
  && ! cat nowhere 2>/dev/null && ! cat circle 2>/dev/null && ls docs/latest/ | grep -qx page'; }
writes_through() { there 'echo three > docs/latest/new && [ "$(cat docs/v2/new)" = three ] && rm docs/latest/new && [ ! -e docs/v2/new ]'; }
installed() { there 'npm install --offline --no-audit --no-fund --loglevel=error && [ -L node_modules/.bin/greet ]'; }
uses_packages() { there '[ "$(node_modules/.bin/greet)" = "hello from npm" ]'; }
built() { there 'make -s && [ "$(./app-link)" = hello ] && [ "$(readlink app-link)" = app ]'; }
built_again() { there 'make -s clean && [ ! -e app-link ] && make -s && touch include/greeting.h && make -s && [ "$(./app)" = hello ]'; }
moved() { there 'mv docs/latest docs/newest && [ "$(readlink docs/newest)" = v2 ] && [ -d docs/v2 ] && git -c safe.directory="*" checkout -q . && rm docs/newest \
  && [ "$(readlink docs/latest)" = v2 ] && [ -e docs/v2/page ]'; }
replaced() { there 'ln -sfn v1 docs/latest && [ "$(cat docs/latest/page)" = one ] && rm docs/latest && echo file > docs/latest && [ "$(cat docs/latest)" = file ] \
  && git -c safe.directory="*" checkout -q . && [ "$(readlink docs/latest)" = v2 ]'; }
full_folders_stay() { there 'mkdir full && touch full/file && ! ln -sT x full 2>/dev/null && [ -f full/file ] && rm -r full'; }

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
  there 'find . -path ./.git -prune -o -printf "%P|%y|%l\n" | sort' | while IFS="|" read -r path kind target; do
    [ -n "$path" ] || continue
    sum=$target
    # What is made may say when.
    case "$path" in *.o|app|*package-lock.json) ;; *) [ "$kind" = f ] && sum=$(md5sum < "/host/tmp/$mode/project/$path") ;; esac
    echo "$mode $(echo "$path" | tr ' ' '_') $kind $sum"
  done
}

modprobe 9pnet_virtio
modprobe 9p
mkdir -p /host
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 "$tag" /host || exit 1
# The project lies in a folder of that name there, which may be below one that is mounted here.
mkdir -p /origin && mount -o bind "/host$origin" /origin || exit 1
mount -t proc proc /host/proc
mount -t devtmpfs dev /host/dev
mount -t tmpfs tmpfs /host/tmp
mkdir -p /host/tmp/local /host/tmp/share /host/tmp/home "/host$origin" && mount -o bind /origin "/host$origin" || exit 1
mount.cifs "//$server/$share" /host/tmp/share -o "port=$port,username=$user,password=$password,vers=3.1.1,file_mode=0755,dir_mode=0755" || exit 1
for mode in local share; do worked; done
umount /host/tmp/share && echo "ok the share is unmounted"
