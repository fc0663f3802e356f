# Sysbench: sysbench-cpu EVENTS CORES, or sysbench-memory MIB CORES
set -e
column=$1 amount=$2 cores=$3
folder=/pts/sysbench
busybox mkdir -p "$folder"
case $column in
sysbench-cpu)
    sysbench --threads="$cores" --time=0 --events="$amount" cpu run > "$folder/said"
    result='/events per second:/ { print "varmor-result: " $NF }'
    ;;
sysbench-memory)
    sysbench --threads="$cores" --time=0 --memory-total-size="${amount}M" memory run > "$folder/said"
    result='/MiB transferred/ { gsub(/[(]/, "", $4); print "varmor-result: " $4 }'
    ;;
*)
    echo "sysbench has no column $column"
    exit 2
    ;;
esac
busybox cat "$folder/said"
busybox awk "$result" "$folder/said"
