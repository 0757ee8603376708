# Runs in the guest: fsx in mounts of several kinds, with and without another client that wants the file too; then two clients in one tree.
# $server, $port, $share, $user, $password, $seconds (of each part), $seed and $multichannel come from the run.

check() { # name, function, and its words
  name="$1"; shift
  if "$@" > /tmp/said 2>&1; then
    echo "ok $name"
  else
    echo "not ok $name - $(tail -n 4 /tmp/said | tr '\n' '|')"
    echo "--- what $name said:"; tail -n 40 /tmp/said
    echo "--- kernel:"; dmesg | tail -n 12
  fi
}

mounted() { # place, options
  mkdir -p $1
  mount.cifs "//$server/$share" $1 -o "port=$port,username=$user,password=$password,vers=3.1.1,nosharesock,$2"
}

common='flen = 262144
[opsize]
max = 65536
[weights]
close_open = 1.0
invalidate = 1.0
read = 10.0
write = 10.0
truncate = 4.0
fsync = 1.0
'
echo "${common}mapread = 10.0
mapwrite = 10.0" > /tmp/mapped.toml
echo "${common}mapread = 0.0
mapwrite = 0.0" > /tmp/unmapped.toml
ran=0

exercised() { # configuration, file: runs of another seed each until the time is over
  end=$(($(date +%s) + seconds))
  while [ "$(date +%s)" -lt $end ]; do
    seed=$((seed + 1))
    # fsx empties the file; removing it where the other client has it open would leave a name that nobody can open until that is closed.
    fsx -S $seed -N 500 -f /tmp/$1.toml -P /tmp "$2" || { echo "fsx -S $seed -f $1.toml ended with $?"; return 1; }
    ran=$((ran + 500))
  done
}

wanted() { # file: reads it, and now and then writes its own first bytes back as they are not: it only opens to write
  while [ ! -e /tmp/enough ]; do
    dd if="$1" of=/dev/null bs=64k 2> /dev/null
    : >> "$1"
    usleep 20000
  done
}

exercise() { # name, mount options, configuration
  check "mount, $1" mounted /mnt "$2"
  check "fsx, $1" exercised $3 /mnt/exercised
  check "unmount, $1" umount /mnt
  echo "fsx, $1: $ran operations so far, the last seed is $seed"
}

exercise "as it is" "echo_interval=10" mapped
exercise "direct" "cache=none" unmapped
exercise "sealed" "seal" mapped
[ -n "$multichannel" ] && exercise "several channels" "multichannel,max_channels=$multichannel" mapped

check "a second client mounts" mounted /mnt2 "actimeo=0"
rm -f /tmp/enough
wanted /mnt2/exercised &
exercise "another client wants the file" "actimeo=1" unmapped
touch /tmp/enough
wait
check "unmount, the second client" umount /mnt2

# Otherwise the kernel believes for a second that a name is not there, which the other client has just made.
echo 0 > /proc/fs/cifs/LookupCacheEnabled
check "one client mounts" mounted /mnt "actimeo=0"
check "and another" mounted /mnt2 "actimeo=0"
verified() {
  for each in /mnt /mnt2; do
    fio --name=job --directory=$each --filename=fio${each#/} --size=4m --rw=randwrite --bsrange=512-64k --bs_unaligned --verify=crc32c --verify_fatal=1 \
      --do_verify=1 --randseed=$seed --fallocate=none --end_fsync=1 > /tmp/fio${each#/} 2>&1 &
    eval "job${each#/}=$!"
  done
  wait $jobmnt && wait $jobmnt2 || { cat /tmp/fiomnt /tmp/fiomnt2; return 1; }
  cmp /mnt/fiomnt /mnt2/fiomnt && cmp /mnt/fiomnt2 /mnt2/fiomnt2
}
check "two clients write, with checksums, beside each other" verified
check "two clients in one tree see what either has done" churn /mnt /mnt2 $seed $seconds
cat /tmp/said
check "unmount, one client" umount /mnt
check "unmount, the other" umount /mnt2
check "a third client mounts" mounted /mnt ""
(cd /mnt && find . -type d | sed 's/^/folder /' && find . -type f -exec sha256sum {} + | sed 's/^/file /')
umount /mnt
