package xdp

import (
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf/rlimit"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/platform/ethtool"
	"github.com/netcraq/netcraq/internal/platform/finding"
)

// oldestMajor, oldestMinor are the oldest kernel that the plane is tested on.
const oldestMajor, oldestMinor = 6, 1

// vmlinuxBTF is where the kernel describes its types, which the programs are relocated by.
const vmlinuxBTF = "/sys/kernel/btf/vmlinux"

// Examine finds what this machine lacks for the plane, by the checks that [Open] makes. It changes nothing: programs are loaded
// on trial, with small tables, and attached to no port. ports are as in [Options]. bad is the state of what Open would fail for.
func Examine(ports []string, o chain.Options, bad finding.State) []finding.Finding {
	list := []finding.Finding{kernel(bad), typeInfo(bad), bpfFileSystem(bad)}
	rights := Permitted()
	list = append(list, finding.Of("rights", "", bad, rights, "this process may load BPF programs"))
	if rights == nil {
		list = append(list, finding.Of("locked memory", "", bad, rlimit.RemoveMemlock(), "no limit for BPF tables"),
			finding.Of("boot clock", "", bad, checkClock(), "it is the kernel's"),
			finding.Of("programs", "", bad, tryLoad(o), "the kernel takes them"))
	} else {
		for _, check := range []string{"locked memory", "boot clock", "programs"} {
			list = append(list, finding.Finding{Check: check, State: finding.Unknown, Text: "these rights are missing"})
		}
	}
	return append(list, examinePorts(ports, o, bad)...)
}

func kernel(bad finding.State) finding.Finding {
	f := finding.Finding{Check: "kernel", State: finding.OK, Text: "Linux " + kernelRelease()}
	var major, minor int
	if _, err := fmt.Sscanf(kernelRelease(), "%d.%d", &major, &minor); err != nil {
		f.State = finding.Unknown
	} else if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		f.State, f.Remedy = bad, fmt.Sprintf("use Linux %d.%d or later, or --plane soft", oldestMajor, oldestMinor)
	}
	return f
}

func typeInfo(bad finding.State) finding.Finding {
	if _, err := os.Stat(vmlinuxBTF); err != nil {
		return finding.Finding{Check: "BTF", State: bad, Text: vmlinuxBTF + " is missing",
			Remedy: "use a kernel with CONFIG_DEBUG_INFO_BTF, or --plane soft"}
	}
	return finding.Finding{Check: "BTF", State: finding.OK, Text: "the kernel describes its types"}
}

func bpfFileSystem(bad finding.State) finding.Finding {
	f := finding.Finding{Check: "BPF file system", About: bpfFS, State: finding.OK, Text: "mounted"}
	switch mounted, err := bpfMounted(); {
	case err != nil:
		f.State, f.Text = bad, err.Error()
	case !mounted:
		f.State, f.Text, f.Remedy = finding.Warning, "not mounted; a node mounts it if it may", "mount -t bpf bpf "+bpfFS
	}
	return f
}

// trialRows is the size of tables of programs that are loaded on trial.
const trialRows = 64

// tryLoad has the kernel verify the programs.
func tryLoad(o chain.Options) error {
	o.MaxObjects, o.MaxSessions, o.ClientSessions = trialRows, trialRows, 0
	programs, err := load(o, constantsOf(anyNode, o), "", 0)
	if err == nil {
		programs.close()
	}
	return err
}

// examinePorts finds which interfaces would be ports, and how fast.
func examinePorts(names []string, o chain.Options, bad finding.State) (list []finding.Finding) {
	const check = "port"
	cards, err := readCards(names)
	if err != nil {
		return []finding.Finding{finding.Of(check, "", finding.Unknown, err, "")}
	}
	c := choose(names, cards, nil, o, nil)
	for _, left := range c.left {
		list = append(list, finding.Finding{Check: check, About: left.name, State: finding.Warning, Text: left.why})
	}
	if c.absent != "" {
		list = append(list, finding.Finding{Check: check, State: bad, Text: c.absent})
	}
	for _, at := range c.ports {
		list = append(list, examinePort(&at.card))
	}
	return list
}

func examinePort(at *card) finding.Finding {
	f := finding.Finding{Check: "port", About: at.name, State: finding.OK}
	p := port{name: at.name, index: at.index}
	features, err := xdpFeatures(at.index)
	const slower = "the node runs in generic mode there, which is slower"
	switch mute := p.mute(true); {
	case !at.up:
		f.State, f.Text, f.Remedy = finding.Broken, "the interface is down", "ip link set "+at.name+" up"
	case mute != "":
		f.State, f.Text, f.Remedy = finding.Warning, mute, slower
	case ethtool.LRO(at.name):
		f.State, f.Text = finding.Warning, "large receive offload is on, and drivers refuse native XDP with it"
		f.Remedy = "ethtool -K " + at.name + " lro off"
	case err != nil:
		f.Text = fmt.Sprintf("MTU %d; the kernel does not tell whether the driver has native XDP: a node finds out", at.mtu)
	case features&nativeFeatures != nativeFeatures:
		f.State, f.Text = finding.Warning, fmt.Sprintf("MTU %d; the driver of this %s has no native XDP", at.mtu, kindName(at.kind))
		f.Remedy = slower
	default:
		f.Text = fmt.Sprintf("MTU %d, native XDP", at.mtu)
	}
	return f
}

func kindName(kind string) string {
	if kind == "device" {
		return "network card"
	}
	return strings.TrimSpace(kind + " interface")
}
