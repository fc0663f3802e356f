# Apache's httpd serves one page to wrk: apache-CONNECTIONS REQUESTS CORES
set -e
connections=${1#apache-} cores=$3
# Ten thousand requests stand for a second, as in the native engine.
seconds=$((($2 + 9999) / 10000))
# wrk refuses more threads than connections.
threads=$((cores < connections ? cores : connections))
folder=/pts/apache
busybox rm -rf "$folder"
busybox mkdir -p "$folder/pages"
line='<p>A line of a page.</p>'
{
    echo '<html><body>'
    for _ in $(busybox seq 200); do echo "$line"; done
} | busybox head -c 4096 > "$folder/pages/test.html"
echo 'text/html html' > "$folder/mime.types"
{
    echo "ServerRoot $folder"
    echo 'Listen 127.0.0.1:8088'
    echo 'ServerName localhost'
    for name in mpm_event authn_file authn_core authz_host authz_groupfile authz_user authz_core access_compat \
        auth_basic reqtimeout filter mime env headers setenvif status autoindex dir alias; do
        echo "LoadModule ${name}_module /usr/lib/apache2/modules/mod_$name.so"
    done
    echo 'User nobody'
    echo 'Group nogroup'
    echo "PidFile $folder/pid"
    echo "TypesConfig $folder/mime.types"
    echo "ErrorLog $folder/error_log"
    echo 'LogFormat "%h %l %u %t \"%r\" %>s %b" common'
    echo "CustomLog $folder/access_log common"
    echo "DocumentRoot $folder/pages"
    echo '<Directory />'
    echo '  Require all denied'
    echo '</Directory>'
    echo "<Directory $folder/pages>"
    echo '  Require all granted'
    echo '</Directory>'
} > "$folder/httpd.conf"
apache2 -f "$folder/httpd.conf" -D FOREGROUND > "$folder/log" 2>&1 &
server=$!
trap 'kill $server || true; wait $server || true' EXIT
busybox sleep 5
wrk -t "$threads" -d "${seconds}s" -c "$connections" http://127.0.0.1:8088/test.html > "$folder/said"
busybox cat "$folder/said"
if busybox grep -q -e 'Non-2xx' -e 'connect [1-9]' "$folder/said"; then
    echo 'requests failed'
    exit 1
fi
busybox awk '/^Requests\/sec:/ { print "varmor-result: " $2 }' "$folder/said"
