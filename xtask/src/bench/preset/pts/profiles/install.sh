#!/bin/sh
# Nothing is built and nothing fetched: the wrapper starts the programs of a distribution, in the folder where they were unpacked,
# under the system whose name is in a file. The suite may not pass its environment on.
cat > @PROFILE@ <<'WRAPPER'
#!/bin/sh
chroot @ROOM@ /varmor-guest bench under "$(cat @SYSTEM@)" -- /bin/sh /pts/@SUITE@.sh \
    "$@" "${NUM_CPU_CORES:-1}" "${NUM_CPU_PHYSICAL_CORES:-1}" > "$LOG_FILE" 2>&1
echo $? > ~/test-exit-status
WRAPPER
chmod +x @PROFILE@
echo $? > ~/install-exit-status
