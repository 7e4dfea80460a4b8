// Package memlimit finds out how much memory the process may use.
package memlimit

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Find returns the memory limit of the process's control group, or of one above it, the lowest. Without a limit it
// returns the memory of the machine, and limited is false. 0: not known.
func Find() (bytes int64, limited bool) { return find("/proc") }

func find(proc string) (bytes int64, limited bool) {
	total := machine(filepath.Join(proc, "meminfo"))
	lowest := total
	for _, g := range groups(proc) {
		for dir := g.dir; ; dir = filepath.Dir(dir) {
			if n, ok := limit(filepath.Join(dir, g.file)); ok && (lowest == 0 || n < lowest) {
				lowest = n
			}
			if dir == g.mount || len(dir) <= len(g.mount) {
				break
			}
		}
	}
	return lowest, lowest != 0 && lowest < total || total == 0 && lowest != 0
}

// group is where a control group of this process has its limit.
type group struct{ mount, dir, file string }

// groups returns the groups of this process that may limit memory: of version 1, of version 2, or of both.
func groups(proc string) (all []group) {
	paths := make(map[string]string) // by controller; "": version 2
	lines(filepath.Join(proc, "self", "cgroup"), func(line string) {
		if fields := strings.SplitN(line, ":", 3); len(fields) == 3 {
			for controller := range strings.SplitSeq(fields[1], ",") {
				paths[controller] = fields[2]
			}
		}
	})
	lines(filepath.Join(proc, "self", "mountinfo"), func(line string) {
		mount, how, ok := strings.Cut(line, " - ")
		fields, rest := strings.Fields(mount), strings.Fields(how)
		if !ok || len(fields) < 5 || len(rest) < 3 {
			return
		}
		g, path := group{mount: fields[4]}, ""
		switch {
		case rest[0] == "cgroup" && slices.Contains(strings.Split(rest[2], ","), "memory"):
			g.file, path = "memory.limit_in_bytes", paths["memory"]
		case rest[0] == "cgroup2":
			g.file, path = "memory.max", paths[""]
		default:
			return
		}
		below, err := filepath.Rel(fields[3], path) // a container sees its own group as the mount's root
		if err != nil || strings.HasPrefix(below, "..") {
			below = "."
		}
		if g.dir = filepath.Join(g.mount, below); !exists(g.dir) {
			g.dir = g.mount
		}
		all = append(all, g)
	})
	return all
}

func exists(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}

// noLimit is beyond what version 1 says if there is none.
const noLimit = 1 << 60

func limit(file string) (int64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" of version 2 is no number
	return n, err == nil && n > 0 && n < noLimit
}

// machine returns the machine's memory.
func machine(meminfo string) (bytes int64) {
	lines(meminfo, func(line string) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "MemTotal:" {
			if kib, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				bytes = kib << 10
			}
		}
	})
	return bytes
}

func lines(file string, do func(string)) {
	f, err := os.Open(file)
	if err != nil {
		return
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		do(s.Text())
	}
}
