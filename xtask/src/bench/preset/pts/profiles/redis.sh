# Redis and its own benchmark: redis-COMMAND-CLIENTS REQUESTS CORES PHYSICAL-CORES
set -e
column=${1#redis-} requests=$2 physical=$4
command=${column%-*} clients=${column#*-}
folder=/pts/redis
busybox rm -rf "$folder"
busybox mkdir -p "$folder"
redis-server --bind 127.0.0.1 --port 7379 --io-threads "$physical" --io-threads-do-reads yes \
    --tcp-keepalive 0 --save '' --dir "$folder" > "$folder/log" 2>&1 &
server=$!
trap 'kill $server || true; wait $server || true' EXIT
# As long as the profile behind the comparison waits.
busybox sleep 6
redis-benchmark -p 7379 -n "$requests" -P 1024 -q -d 4 --csv -t "$command" -c "$clients" > "$folder/said"
busybox cat "$folder/said"
busybox awk -F '"' -v "command=$command" 'tolower($2) == command { print "varmor-result: " $4 }' "$folder/said"
