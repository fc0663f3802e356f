#!/bin/sh
# A node of the cluster, from a guest with containerd: images, network, name server, service proxy, and then the kubelet.
. /cluster/settings
hostname "$NODE"
say() { echo "$(cut -d. -f1 /proc/uptime) s: $*"; }
say "modules"
modprobe -a br_netfilter veth bridge nf_tables nf_conntrack nft_compat xt_comment xt_conntrack xt_mark xt_nat \
    xt_MASQUERADE xt_addrtype xt_statistic xt_multiport 2>&1
for setting in net/ipv4/ip_forward net/bridge/bridge-nf-call-iptables net/ipv4/conf/all/route_localnet; do
    echo 1 > /proc/sys/$setting
done
if [ "$ADDRESS" != 10.0.2.15 ]; then
    ip address add "$ADDRESS/24" dev eth1
    ip link set eth1 up
    ip route add "$PEER_PODS" via "$PEER"
fi
ip link set lo up
say "images"
for image in /cluster/images/*.tar; do
    ctr --namespace k8s.io images import "$image" || exit 1
    rm "$image"
done
/cluster/bin/varmor-guest proxy --listen 0.0.0.0:8132 > /var/log/door.log 2>&1 &
/cluster/bin/coredns -conf /cluster/Corefile > /var/log/coredns.log 2>&1 &
/cluster/bin/kube-proxy --config=/cluster/proxy.yaml --hostname-override="$NODE" > /var/log/kube-proxy.log 2>&1 &
say "kubelet"
/cluster/bin/kubelet --config=/cluster/kubelet.yaml --kubeconfig=/cluster/kubelet.kubeconfig \
    --hostname-override="$NODE" --node-ip="$ADDRESS" 2>&1
code=$?
say "the kubelet ended with $code"
exit $code
