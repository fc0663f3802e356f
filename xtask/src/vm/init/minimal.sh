#!/bin/sh
# PID 1 of a guest without containers. Serial ports: 0 the kernel's console, 1 the command's output, 2 what the
# lab reads (`ready`, `warned`, `exit CODE`).
export PATH=/bin:/sbin HOME=/root
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t tmpfs -o mode=755 run /run
mount -t bpf bpf /sys/fs/bpf
mount -t securityfs security /sys/kernel/security
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tracefs tracing /sys/kernel/tracing
mkdir -p /dev/pts /dev/shm /var/log /var/lib
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
ip link set lo up
. /vm/load
exec sh /vm/run
