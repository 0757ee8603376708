# Runs in the guest: mounts the share over all cards, and writes and reads while one card's cable is out.
# $server, $port, $share, $user, $password and $cards come from the run; the second serial line leads to its operator.

# Linux asks after a server that is silent so long, and gives its connection up after three times as long.
patience=2
recovery=20

exec 3<> /dev/ttyS1
stty -F /dev/ttyS1 raw -echo
ask() { echo "$*" >&3 && read -r answer <&3 && echo "$answer"; }

check() { # name, function
  name="$1"; shift
  if "$@" > /tmp/said 2>&1; then
    echo "ok $name"
  else
    echo "not ok $name - $(tail -n 4 /tmp/said | tr '\n' '|')"
    echo "--- what $name said:"; tail -n 25 /tmp/said
    echo "--- the client:"; cat /proc/fs/cifs/DebugData
    echo "--- connections:"; netstat -tn
    echo "--- kernel:"; dmesg | grep -i cifs | tail -n 20
  fi
}

same() { # expected, seen
  [ "$1" = "$2" ] || { echo "expected $1, seen $2"; return 1; }
}

mounted() {
  card=1
  while [ $card -lt $cards ]; do
    ip link set eth$card up && ip addr add 10.0.$((card + 2)).15/24 dev eth$card || return 1
    card=$((card + 1))
  done
  mkdir -p /mnt
  # Uncached, so that fio and not the kernel hears of an error, and every byte crosses a channel.
  options="port=$port,username=$user,password=$password,vers=3.1.1,hard,nosharesock,cache=none"
  mount.cifs "//$server/$share" /mnt -o "$options,multichannel,max_channels=$cards,echo_interval=$patience"
}

connected() { netstat -tn | awk -v port=":$port\$" '$6 == "ESTABLISHED" && $5 ~ port { print $5 }' | sort -u | wc -l; }

client_has_all() {
  same $((cards - 1)) "$(awk '/Extra Channels:/ { print $3 }' /proc/fs/cifs/DebugData)" || return 1
  # Those that live are in TCP status 1; the first channel is listed as the connection itself.
  same $cards "$(grep -c 'TCP status: 1 ' /proc/fs/cifs/DebugData)" && same $cards "$(connected)" \
    && ! grep DISCONNECTED /proc/fs/cifs/DebugData
}

server_has_all() { same $cards "$(ask channels)"; }
shards_share_them() { same "$shards" "$(ask shards)"; }
all_carry_requests() { requests="$(ask fewest-requests)"; [ "$requests" -gt 20 ] || same "more than 20 requests on each" "$requests"; }

pulled() { # card: its cable goes out under fio, and comes back when the client has noticed and worked on without it
  # Linux 6.1 sends a write that a channel lost on that channel again and no other, so fio cannot end before the cable is back.
  fio --directory=/mnt --name="card$1" --numjobs=$((cards - 1)) --size=4m --rate=300k --rw=randwrite --bs=16k --direct=1 \
    --randseed=7 --verify=crc32c --verify_fatal=1 --do_verify=1 --fallocate=none --group_reporting &
  job=$!
  sleep 3
  same done "$(ask link $1 down)" && noticed
  noticed=$?
  before="$(ask requests)"
  sleep 2
  after="$(ask requests)"
  same done "$(ask link $1 up)" || return 1
  wait $job || { echo "fio ended with $?"; return 1; }
  same 0 $noticed && [ "$after" -gt "$before" ] || same "more than $before requests while the cable was out" "$after"
}

noticed() {
  tries=0
  until grep DISCONNECTED /proc/fs/cifs/DebugData; do
    [ $((tries = tries + 1)) -lt $recovery ] || { echo "the client does not notice"; return 1; }
    sleep 1
  done
}

all_again() {
  tries=0
  until client_has_all && server_has_all; do
    [ $((tries = tries + 1)) -lt $recovery ] || return 1
    ls /mnt > /dev/null
    sleep 1
  done
}

check "mount" mounted
check "the client has $cards channels, each over its own card" client_has_all
check "the server sees $cards channels" server_has_all
check "the channels are on $shards shards" shards_share_them
check "fio has no error and right bytes while a card's cable is out" pulled 2
check "there are $cards channels after the cable is back" all_again
check "every channel carries requests" all_carry_requests
check "fio has no error and right bytes while the first card's cable is out" pulled 0
check "there are $cards channels after the first card's cable is back" all_again
check "unmount" umount /mnt
dmesg | grep -i cifs | tail -n 30
