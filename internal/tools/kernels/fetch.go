package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// archive fetches Debian's packages of any architecture through apt, with a state of its own: the machine's stays as it is.
type archive struct {
	dir      string
	progress *console
	options  []string // of apt, once its lists are there
}

// sources lists the archives that have all of the kernels.
const sources = `deb [arch=amd64,arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %[1]s bookworm main
deb [arch=amd64,arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %[2]s bookworm-security main
`

// linux returns a kernel's package: of its series the newest, or one that was fetched before.
func (a *archive) linux(ctx context.Context, k kernel) (string, error) {
	suffix := "-cloud-" + k.arch + "-unsigned"
	if path := newest(a.dir, k.series+"*"+suffix+"_*.deb"); path != "" {
		return path, nil
	}
	if err := a.update(ctx); err != nil {
		return "", err
	}
	text, err := a.apt(ctx, "apt-cache", "pkgnames", k.series)
	if err != nil {
		return "", err
	}
	var names []string
	for _, name := range strings.Fields(text) {
		if strings.HasSuffix(name, suffix) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", fmt.Errorf("Debian has no package %s...%s any more", k.series, suffix)
	}
	return a.download(ctx, slices.MaxFunc(names, compareVersions), k.arch)
}

func (a *archive) busybox(ctx context.Context, arch string) (string, error) {
	if path := newest(a.dir, "busybox-static_*_"+arch+".deb"); path != "" {
		return path, nil
	}
	if err := a.update(ctx); err != nil {
		return "", err
	}
	return a.download(ctx, "busybox-static", arch)
}

// newest is of the files that match the one with the highest version in its name.
func newest(dir, pattern string) string {
	found, _ := filepath.Glob(filepath.Join(dir, pattern)) // fails for bad patterns only
	if len(found) == 0 {
		return ""
	}
	return slices.MaxFunc(found, compareVersions)
}

var digits = regexp.MustCompile(`\d+`)

// compareVersions compares names by the numbers in them.
func compareVersions(a, b string) int {
	numbers := func(s string) []int {
		var all []int
		for _, n := range digits.FindAllString(filepath.Base(s), -1) {
			i, _ := strconv.Atoi(n)
			all = append(all, i)
		}
		return all
	}
	return slices.Compare(numbers(a), numbers(b))
}

// mirrors returns the addresses of Debian's main and security archives: those below DEBIAN_MIRROR if it is set, else those
// that this machine's apt uses.
func mirrors(ctx context.Context) (main, security string, err error) {
	if m := strings.TrimSuffix(os.Getenv("DEBIAN_MIRROR"), "/"); m != "" {
		return m + "/debian", m + "/debian-security", nil
	}
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)").Output()
	if err != nil {
		return "", "", fmt.Errorf("apt-get indextargets: %w", err)
	}
	return archives(string(out))
}

// archives finds the main and the security archive among the addresses of repositories, one a line.
func archives(addresses string) (main, security string, err error) {
	for _, address := range strings.Fields(addresses) {
		address = strings.TrimSuffix(address, "/")
		switch {
		case strings.HasSuffix(address, "/debian"):
			main = address
		case strings.HasSuffix(address, "/debian-security"):
			security = address
		}
	}
	if main == "" || security == "" {
		return "", "", errors.New("apt's sources name no archives /debian and /debian-security: set DEBIAN_MIRROR to the " +
			"address of a mirror that has both")
	}
	return main, security, nil
}

// update fetches the lists of packages, once.
func (a *archive) update(ctx context.Context) error {
	if a.options != nil {
		return nil
	}
	a.progress.say("fetching Debian's lists of packages")
	root, err := filepath.Abs(filepath.Join(a.dir, "apt"))
	if err != nil {
		return err
	}
	for _, dir := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	main, security, err := mirrors(ctx)
	if err != nil {
		return err
	}
	list := filepath.Join(root, "sources.list")
	if err := os.WriteFile(list, fmt.Appendf(nil, sources, main, security), 0o644); err != nil {
		return err
	}
	for _, o := range []string{
		"Dir::State=" + filepath.Join(root, "state"), "Dir::State::Status=/dev/null",
		"Dir::Cache=" + filepath.Join(root, "cache"),
		"Dir::Etc::SourceList=" + list, "Dir::Etc::SourceParts=/dev/null", "Dir::Etc::Preferences=/dev/null",
		"Dir::Etc::PreferencesParts=/dev/null",
		"APT::Architecture=amd64", "APT::Architectures::=amd64", "APT::Architectures::=arm64", "APT::Sandbox::User=",
		"Acquire::Languages=none",
	} {
		a.options = append(a.options, "-o", o)
	}
	_, err = a.apt(ctx, "apt-get", "update", "-q")
	return err
}

func (a *archive) download(ctx context.Context, name, arch string) (string, error) {
	a.progress.say("fetching %s", name)
	if _, err := a.apt(ctx, "apt-get", "download", "-q", name+":"+arch); err != nil {
		return "", err
	}
	if path := newest(a.dir, name+"_*_"+arch+".deb"); path != "" {
		return path, nil
	}
	return "", fmt.Errorf("apt-get left no package %s", name)
}

// apt runs one of apt's commands in the archive's directory.
func (a *archive) apt(ctx context.Context, command string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, command, append(slices.Clone(a.options), args...)...)
	c.Dir = a.dir
	text, err := c.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return "", fmt.Errorf("%s %s: %w: %s", command, strings.Join(args, " "), err,
			strings.TrimSpace(string(failed.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s is part of Debian", err, command)
	}
	return string(text), nil
}

// build compiles the product and the plane's tests as static programs for the machine.
func build(ctx context.Context, arch string) (map[string]string, error) {
	programs := make(map[string]string)
	for name, args := range map[string][]string{
		"netcraq":     {"build", "-buildvcs=false", "-ldflags=-s -w", "./cmd/netcraq"},
		"netcraq-lab": {"build", "-buildvcs=false", "-ldflags=-s -w", "./cmd/netcraq-lab"},
		"xdp.test":    {"test", "-c", "-ldflags=-s -w", "./internal/node/dataplane/xdp"},
	} {
		path, err := filepath.Abs(filepath.Join(cache, name+"-"+arch))
		if err != nil {
			return nil, err
		}
		last := len(args) - 1
		c := exec.CommandContext(ctx, "go", append(slices.Clone(args[:last]), "-o", path, args[last])...)
		c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		if text, err := c.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, text)
		}
		programs[name] = path
	}
	return programs, nil
}
