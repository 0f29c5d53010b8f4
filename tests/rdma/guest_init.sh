#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# Process 1 of a guest. The kernel hands on what guest.py says on its command line: INDEX (0, 1), GUESTS (1, 2) and
# PAIR (0, 1). Serial ports: 1 words with guest.py, 2 and 3 stdout and stderr of the command.
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox --install -s /bin
for module in /modules/*; do insmod "$module" || echo "no $module"; done
until [ -e /dev/vport*p3 ]; do usleep 20000; done
port=$(echo /dev/vport*p3)
port=${port%3}
exec 7<>"${port}1"

fail() {
    echo "fail $*" >&7
    sleep 1000
}

# The host's files, which nobody can change; what is written stays in memory.
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 host /host || fail "no root of the host (9p)"
mount -t tmpfs -o mode=755 memory /memory
mkdir /memory/written /memory/work
mount -t overlay -o lowerdir=/host,upperdir=/memory/written,workdir=/memory/work over /tree || fail "no overlay"
mount -t proc proc /tree/proc
mount -t sysfs sys /tree/sys
mount --bind /dev /tree/dev
mkdir -p /dev/shm /dev/pts /dev/hugepages
mount -t tmpfs -o mode=1777 shm /tree/dev/shm
mount -t devpts -o ptmxmode=666 pts /tree/dev/pts
mount -t hugetlbfs huge /tree/dev/hugepages
mount -t tmpfs -o mode=755 run /tree/run
ln -sf /proc/self/fd /dev/fd
for n in 0:stdin 1:stdout 2:stderr; do ln -sf "/proc/self/fd/${n%:*}" "/dev/${n#*:}"; done
hostname "guest$INDEX"

# By env, or busybox takes its own `ip`.
on_host() { PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot /tree /usr/bin/env "$@"; }

# One NIC, d0, with rxe0 on it.
on_host ip link set lo up
if [ "$GUESTS" = 2 ]; then
    for nic in /sys/class/net/*; do [ -e "$nic/device" ] && on_host ip link set "${nic##*/}" name d0; done
else
    on_host ip link add d0 type dummy
fi
on_host ip link set d0 mtu 9000 up || fail "no NIC"
on_host ip addr add "10.9.0.$((INDEX + 1))/24" dev d0
on_host rdma link add rxe0 type rxe netdev d0 || fail "no rxe0"

# Two NICs of one kernel exchange frames only if it accepts its own addresses as sources; and as it does not answer its
# own ARP, the neighbours are written down.
if [ "$PAIR" = 1 ]; then
    on_host ip link add v1 mtu 9000 type veth peer name v2 mtu 9000 || fail "no veth"
    echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
    for k in 1 2; do
        echo 1 >/proc/sys/net/ipv4/conf/v$k/accept_local
        echo 0 >/proc/sys/net/ipv4/conf/v$k/rp_filter
        on_host ip addr add 10.9.1.$k/24 dev v$k
        on_host ip link set v$k up
    done
    for k in 1 2; do
        on_host ip neigh replace 10.9.1.$((3 - k)) dev v$k nud permanent lladdr "$(cat /sys/class/net/v$((3 - k))/address)"
        on_host rdma link add rxe$k type rxe netdev v$k || fail "no rxe$k"
    done
fi

# Who writes down, up or off into it moves the cable between two guests, or takes the other's power.
mkfifo /tree/run/cable
while :; do
    while read -r word; do echo "cable $word" >&7; done </tree/run/cable
done &

echo up >&7
read -r command <&7 # once every guest is up, in base64
echo "$command" | base64 -d >/tree/run/command
mkfifo /out /err
tee "${port}2" </out | wc -c >/out.count &
out=$!
tee "${port}3" </err | wc -c >/err.count &
err=$!
ulimit -l unlimited
ulimit -c 0
env -i INDEX="$INDEX" chroot /tree /bin/bash /run/command </dev/null >/out 2>/err 7>&-
status=$?
# What the command left behind would keep the pipes open.
for process in /proc/[0-9]*; do
    [ "$(readlink "$process/root")" = /tree ] && kill -9 "${process##*/}" 2>/dev/null
done
# What is written to a port may be under way still: the host is told how much to wait for.
wait $out $err
echo "exit $status $(cat /out.count) $(cat /err.count)" >&7
sleep 1000
