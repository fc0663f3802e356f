# Runs the command and reports its exit code; sourced or executed by PID 1.
stty -F /dev/ttyS1 raw -echo
stty -F /dev/ttyS2 raw -echo
# A bad page (32), an oops (128), a warning (512).
tainted() { echo $(($(cat /proc/sys/kernel/tainted) & 672)); }
before=$(tainted)
echo ready > /dev/ttyS2
cd /
setsid sh /vm/command < /dev/null > /dev/ttyS1 2>&1
code=$?
sync
if [ -d /vm/out ] && stty -F /dev/ttyS3 raw -echo 2> /dev/null; then
    # tar itself refuses to write to a terminal.
    tar -C /vm/out -cf - . | cat > /dev/ttyS3
fi
if [ "$(tainted)" != "$before" ]; then
    dmesg | grep -A 50 'cut here\|BUG:\|Oops' > /dev/ttyS0
    echo warned > /dev/ttyS2
fi
# Closing a serial port waits until its bytes are out.
echo "exit $code" > /dev/ttyS2
for busybox in /vm/busybox /bin/busybox; do
    [ -x $busybox ] && exec $busybox poweroff -f
done
