#!/bin/sh
# PID 1 until the disk is there: loads its drivers, mounts it, adds this run's files, and goes on from it.
export PATH=/bin:/sbin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
. /vm/load
tries=0
until [ -b /dev/vda ] && [ -b /dev/vdb ]; do
    tries=$((tries + 1))
    [ $tries -gt 200 ] && echo "no disk" > /dev/ttyS0 && poweroff -f
    usleep 50000
done
mount -t ext4 -o noatime /dev/vda /newroot
mkdir -p /newroot/lib/modules/$(uname -r) /newroot/vm
mount -t ext4 -o ro /dev/vdb /newroot/lib/modules/$(uname -r)
cp -a /vm/init /vm/run /vm/command /newroot/vm/
cp -a /bin/busybox /newroot/vm/busybox
[ -d /vm/share ] && cp -a /vm/share/. /newroot/
umount /proc
mount --move /dev /newroot/dev
exec switch_root /newroot /vm/init
