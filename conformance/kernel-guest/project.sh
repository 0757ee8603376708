# The guest's part of a run with the steps of project-steps.sh: has them see this machine's programs, and the share.
# $server, $port, $share, $user, $password, $from, $npm_cache, and $tag come from the run.

modprobe 9pnet_virtio
modprobe 9p
mkdir -p /host
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 "$tag" /host || exit 1
# What the run has made may lie below folders that are mounted here.
mkdir -p /origins && mount -o bind "/host$from" /origins || exit 1
cp -r "/host$npm_cache" /npm-cache || exit 1
mount -t proc proc /host/proc
mount -t devtmpfs dev /host/dev
mount -t tmpfs tmpfs /host/tmp
mkdir -p /host/tmp/share /host/tmp/home /host/tmp/origins && mount -o bind /origins /host/tmp/origins || exit 1
mv /npm-cache /host/tmp/home/.npm
mount.cifs "//$server/$share" /host/tmp/share -o "port=$port,username=$user,password=$password,vers=3.1.1,file_mode=0755,dir_mode=0755" || exit 1

inside() { chroot /host "$@"; }
mode=share place=/tmp/share origins=/tmp/origins home=/tmp/home notes=/tmp
. /steps
dmesg | tail -n 8
umount /host/tmp/share && echo "ok the share is unmounted"
