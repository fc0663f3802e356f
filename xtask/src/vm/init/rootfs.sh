#!/bin/sh
# PID 1 of a guest with containers: what a Debian node has after its boot, without systemd.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t bpf bpf /sys/fs/bpf
mount -t securityfs security /sys/kernel/security
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tracefs tracing /sys/kernel/tracing
mount --make-rshared /
hostname varmor-guest
ip link set lo up
modprobe -a overlay virtio_net 2> /dev/ttyS0
ip address add 10.0.2.15/24 dev eth0 2> /dev/ttyS0 && ip link set eth0 up && ip route add default via 10.0.2.2
for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
    echo "+$controller" > /sys/fs/cgroup/cgroup.subtree_control
done
mkdir -p /var/log
containerd > /var/log/containerd.log 2>&1 &
tries=0
until [ -S /run/containerd/containerd.sock ] && ctr version > /dev/null 2>&1; do
    tries=$((tries + 1))
    if [ $tries -gt 300 ]; then
        tail -20 /var/log/containerd.log > /dev/ttyS0
        break
    fi
    sleep 0.1
done
. /vm/run
