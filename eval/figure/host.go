package figure

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/netcraq/netcraq/eval/bench"
)

// Host describes the machine on which a figure was made, and its load.
type Host struct {
	bench.Host
	MemoryGiB float64    `json:"memory_gib"`
	Governor  string     `json:"governor"` // of the clock's frequency; "" where the kernel does not say
	Load      [3]float64 `json:"load"`     // before: average number of processes that ran, over 1, 5 and 15 minutes
	Go        string     `json:"go"`
	System    string     `json:"system"` // distribution
}

// thisHost describes the machine now.
func thisHost() Host {
	m := Host{Host: bench.ThisHost(), Load: loadAverage(), Go: runtime.Version()}
	m.Governor = firstLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	for _, line := range lines("/proc/meminfo") {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "MemTotal:" {
			kib, err := strconv.ParseFloat(fields[1], 64)
			if err == nil {
				m.MemoryGiB = float64(int(kib/(1<<20)*10)) / 10
			}
		}
	}
	for _, line := range lines("/etc/os-release") {
		if name, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			m.System = strings.Trim(name, `"`)
		}
	}
	return m
}

// identity lists the properties that identify a machine.
func (m *Host) identity() string { return fmt.Sprint(m.CPU, m.CPUs, m.Kernel, m.JIT) }

// String describes the machine in one line.
func (m Host) String() string {
	governor := m.Governor
	if governor == "" {
		governor = "not told"
	}
	return fmt.Sprintf("%d × %s, %.1f GiB, Linux %s, %s, %s, governor %s", m.CPUs, m.CPU, m.MemoryGiB, m.Kernel,
		m.System, m.Go, governor)
}

func lines(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func firstLine(path string) string {
	if all := lines(path); len(all) > 0 {
		return all[0]
	}
	return ""
}

func loadAverage() (load [3]float64) {
	for i, field := range strings.Fields(firstLine("/proc/loadavg")) {
		if i == len(load) {
			break
		}
		if v, err := strconv.ParseFloat(field, 64); err == nil {
			load[i] = v
		}
	}
	return load
}

// stolen are the ticks in which another guest had this machine's CPUs, and all ticks, since it started.
func stolen() (steal, all float64) {
	const user, stealField, guest = 1, 8, 9
	fields := strings.Fields(firstLine("/proc/stat"))
	for i := user; i < min(len(fields), guest); i++ {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return 0, 0
		}
		all += v
		if i == stealField {
			steal = v
		}
	}
	return steal, all
}

// binary is a fingerprint of the program that runs.
func binary() (string, error) {
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// fingerprint changes with a figure's definition.
func (s *Spec) fingerprint(plan Plan) (string, error) {
	text, err := json.Marshal(struct {
		Name   string
		Plan   Plan
		Cells  []Cell
		Panels []Panel
	}{s.Name, plan, s.cells(plan), s.Panels})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}
