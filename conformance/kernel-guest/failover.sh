# Runs in the guest: copies a file to the share while the server is killed and comes back, and compares.
# $server, $port, $share, $user and $password come from the run.

mkdir -p /mnt
options="port=$port,username=$user,password=$password,vers=3.1.1,hard,nosharesock"
# Uncached: Linux 6.1 loses pages that it could not send in the background (now and then, with EBADF, where many
# writes are under way), and then breaks down in umount.
if ! mount.cifs "//$server/$share" /mnt -o "$options,cache=none,wsize=65536"; then
  echo "not ok mount - $(dmesg | tail -n 4 | tr '\n' '|')"
  exit 1
fi
grep -q persistenthandles /proc/mounts && echo "ok the client uses persistent handles" \
  || echo "not ok the client uses persistent handles - $(grep ' /mnt ' /proc/mounts)"

dd if=/dev/urandom of=/tmp/source bs=1M count=48 2> /dev/null
# One open for the whole copy.
if dd if=/tmp/source of=/mnt/copy bs=16k conv=fsync > /tmp/said 2>&1; then
  echo "ok the copy goes on"
else
  echo "not ok the copy goes on - $(tail -n 3 /tmp/said | tr '\n' '|') $(dmesg | tail -n 6 | tr '\n' '|')"
fi
umount /mnt && mount.cifs "//$server/$share" /mnt -o "$options"
if cmp /tmp/source /mnt/copy; then echo "ok the bytes are right"; else echo "not ok the bytes are right - $(ls -l /mnt/copy)"; fi
umount /mnt
dmesg | grep -i cifs | tail -n 30
echo "sum $(sha256sum < /tmp/source | cut -d ' ' -f 1)"
