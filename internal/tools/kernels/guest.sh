#!/bin/busybox sh
# The first process of a machine that `make test-kernels` boots: makes it a Linux, runs the steps, and says how they ended on
# the console, in lines that start with @@.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup /sys/fs/cgroup
for module in /modules/*; do insmod "$module"; done
ip link set lo up
echo "@@ release $(uname -r)"

# step NAME COMMAND...: its standard output goes into one line.
step() {
	local name=$1
	shift
	echo "@@ begin $name"
	"$@" >/tmp/out
	local status=$?
	echo "@@ output $name $(tr -d '\n' </tmp/out | tail -c 2000)"
	echo "@@ end $name $status"
}

step processed xdp.test -test.run '^TestProcessed$' -test.v
step conformance netcraq conformance --plane xdp --random "$packets" --json
step threads xdp.test -test.run 'TestNoLostUpdate|TestNoTornRead|TestObjectIsWhole|TestBarriersAreBarriers|TestNearby|TestLeastRights' -test.timeout 20m
step check netcraq lab check --loss 2 --dup 2 --seconds 10 --seed 1 --json
echo "@@ done"
poweroff -f
