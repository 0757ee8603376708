# Runs in the guest: mounts the share in several ways and works in each mount as programs do.
# $server, $port, $share, $user and $password come from the run. Each check prints ok, or not ok with a reason.

files=2000  # in the first mount; a tenth of it in the others, for the emulated processor's sake
data=6m

check() { # name, function
  name="$1"; shift
  if "$@" > /tmp/said 2>&1; then
    echo "ok $name, $mode"
  else
    echo "not ok $name, $mode - $(tail -n 4 /tmp/said | tr '\n' '|')"
    echo "--- what $name said:"; tail -n 25 /tmp/said
    echo "--- kernel:"; dmesg | tail -n 8
  fi
}

mounted() { # options
  mkdir -p /mnt
  mount.cifs "//$server/$share" /mnt -o "port=$port,username=$user,password=$password,vers=3.1.1,$1"
}

verified() { # extra fio words: random writes, then everything read back against its checksum
  rm -f /mnt/fio
  fio --name=job --filename=/mnt/fio --size=$data --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=7 \
    --end_fsync=1 --fallocate=none "$@"
}

random_writes() { verified --rw=randwrite --bs=4k; }
mixed_sizes() { verified --rw=randwrite --bsrange=512-128k --bs_unaligned; }
mapped() { verified --rw=randwrite --bs=4k --ioengine=mmap; }
direct() { verified --rw=randwrite --bs=64k --direct=1; }
sequential() { verified --rw=write --bs=1m; }
random_reads() { # of what sequential() left, with its checksums
  echo 3 > /proc/sys/vm/drop_caches
  fio --name=job --filename=/mnt/fio --size=$data --rw=randread --bs=1m --verify=crc32c --verify_fatal=1 --randseed=7
}

same() { # expected, seen
  [ "$1" = "$2" ] || { echo "expected $1, seen $2"; return 1; }
}

truncating() {
  dd if=/dev/urandom of=/tmp/t bs=1k count=300 && cp /tmp/t /mnt/t || return 1
  truncate -s 100000 /mnt/t && truncate -s 200000 /mnt/t || return 1
  truncate -s 100000 /tmp/t && truncate -s 200000 /tmp/t || return 1
  cmp /tmp/t /mnt/t && same 200000 "$(stat -c %s /mnt/t)" && rm /mnt/t
}

renaming_over() {
  echo new > /mnt/new && echo old > /mnt/old && mv /mnt/new /mnt/old || return 1
  same new "$(cat /mnt/old)" && [ ! -e /mnt/new ] && rm /mnt/old
}

renaming_while_open() {
  exec 5> /mnt/opened || return 1
  echo one >&5 && mv /mnt/opened /mnt/renamed && echo two >&5 && exec 5>&- || return 1
  same "one two" "$(echo $(cat /mnt/renamed))" && rm /mnt/renamed
}

deleting_while_open() {
  echo kept > /mnt/unlinked && exec 5< /mnt/unlinked && rm /mnt/unlinked || return 1
  read line <&5; exec 5<&-
  same kept "$line" && [ ! -e /mnt/unlinked ]
}

# cat uses sendfile, and in Linux 6.1 an uncached file's sendfile to a pipe can wait for ever.
contents() {
  if [ "$mode" = uncached ]; then grep -h "" "$@"; else cat "$@"; fi
}

many_files() {
  mkdir /mnt/many || return 1
  i=0
  while [ $i -lt $files ]; do echo $i > /mnt/many/file-$i || return 1; i=$((i + 1)); done
  same $files "$(ls /mnt/many | wc -l)" || return 1
  contents /mnt/many/file-* | sort -n > /tmp/numbers; seq 0 $((files - 1)) | cmp - /tmp/numbers || return 1
  rm -r /mnt/many && [ ! -e /mnt/many ]
}

whole_tree() {
  cp -r /lib/modules /mnt/tree && diff -r /lib/modules /mnt/tree || return 1
  same "$(find /lib/modules | wc -l)" "$(find /mnt/tree | wc -l)" && rm -r /mnt/tree
}

appending() {
  rm -f /mnt/log
  i=0
  while [ $i -lt 200 ]; do echo "line $i" >> /mnt/log || return 1; i=$((i + 1)); done
  same 200 "$(wc -l < /mnt/log)" && same "line 199" "$(tail -n 1 /mnt/log)" && rm /mnt/log
}

free_space() { df /mnt | tail -n 1 | grep -q /mnt; }
old_times() {
  touch -d "2001-02-03 04:05:06" /mnt/old-time && same "2001-02-03 04:05:06" "$(date -r /mnt/old-time '+%Y-%m-%d %H:%M:%S')" \
    && rm /mnt/old-time
}
odd_names() {
  for odd in "ä ö ü" "日本語" "with space" "trailing.dots.txt" "$(printf '%0200d' 7)"; do
    echo "$odd" > "/mnt/$odd" && same "$odd" "$(cat "/mnt/$odd")" && find /mnt | grep -qxF "/mnt/$odd" && rm "/mnt/$odd" || return 1
  done
}

everything() {
  check "random 4 KiB writes verify" random_writes
  check "writes of mixed sizes and odd offsets verify" mixed_sizes
  check "writes through a mapping verify" mapped
  check "direct I/O verifies" direct
  check "1 MiB writes verify" sequential
  check "random reads verify" random_reads
  check "truncate down and up" truncating
  check "rename over an existing file" renaming_over
  check "rename while open" renaming_while_open
  check "delete while open" deleting_while_open
  check "$files files in a folder" many_files
  check "copy a tree and compare" whole_tree
  check "append" appending
  check "times" old_times
  check "names" odd_names
  check "free space" free_space
}

# mode and mount options; the plain mount signs nothing unless the server asks for it.
while read -r mode options; do
  check "mount" mounted "$options"
  if grep -q ' /mnt cifs ' /proc/mounts; then
    everything
    check "unmount" umount /mnt
  fi
  files=200
done << MODES
plain nosharesock
signed nosharesock,sign
sealed nosharesock,seal
uncached nosharesock,cache=none
MODES
