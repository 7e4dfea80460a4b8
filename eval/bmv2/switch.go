package bmv2

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// switchName is the program of BMv2, which is looked for in PATH.
const switchName = "psa_switch"

const (
	thriftPort  = 9090 // in a network namespace of its own
	startWait   = 30 * time.Second
	startPoll   = 20 * time.Millisecond
	programFD   = 3 // the first that [exec.Cmd] passes on
	tapPrefix   = "nq"
	tunDevice   = "/dev/net/tun"
	ipv6Setting = "/proc/sys/net/ipv6/conf/default/disable_ipv6"
	// deviceBytes is the largest frame of a TAP device, platform_h included.
	deviceBytes = 4096
)

// psaSwitch is a running psa_switch.
type psaSwitch struct {
	command *exec.Cmd
	taps    [ports]*os.File
	calls   *client
	ended   chan error // gets the reason why psa_switch ended
}

// startSwitch runs a program on psa_switch, in a new network namespace that the calling thread stays in. The caller
// has locked its thread.
func startSwitch(program []byte) (*psaSwitch, error) {
	path, err := exec.LookPath(switchName)
	if err != nil {
		return nil, fmt.Errorf("%s is not in PATH: build BMv2 with Thrift (docs/p4.md)", switchName)
	}
	if err := leave(); err != nil {
		return nil, fmt.Errorf("namespaces for %s: %w: run as root", switchName, err)
	}
	// The kernel sends nothing of its own to the switch.
	if err := os.WriteFile(ipv6Setting, []byte("1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err := linkUp("lo", 0); err != nil {
		return nil, err
	}
	s := &psaSwitch{ended: make(chan error, 1)}
	arguments := []string{"--thrift-port", strconv.Itoa(thriftPort)}
	for i := range s.taps {
		name := fmt.Sprintf("%s%d", tapPrefix, i)
		if s.taps[i], err = openTap(name); err != nil {
			return nil, fmt.Errorf("TAP device %s: %w", name, err)
		}
		arguments = append(arguments, "-i", fmt.Sprintf("%d@%s", i, name))
	}
	file, err := inMemory(program)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s.command = exec.Command(path, append(arguments, fmt.Sprintf("/proc/self/fd/%d", programFD))...)
	s.command.ExtraFiles = []*os.File{file}
	s.command.Stderr = os.Stderr
	// The thread of the caller lives as long as this process.
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.command.Start(); err != nil {
		return nil, err
	}
	go func() { s.ended <- s.command.Wait() }()
	return s, s.connect(filepath.Base(path))
}

// leave moves the calling thread to a network namespace of its own, with the /sys that belongs to it: psa_switch looks
// there for the state of its ports.
func leave() error {
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount("sysfs", "/sys", "sysfs", 0, "")
}

// connect waits until psa_switch serves its control plane.
func (s *psaSwitch) connect(name string) error {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(thriftPort))
	for begin := time.Now(); time.Since(begin) < startWait; {
		var err error
		if s.calls, err = newClient(func() (net.Conn, error) { return net.Dial("tcp", address) }); err == nil {
			return nil
		}
		select {
		case err := <-s.ended:
			return fmt.Errorf("%s ended: %w", name, errors.Join(err, errors.New("its reasons, if any, are above")))
		case <-time.After(startPoll):
		}
	}
	return errors.Join(fmt.Errorf("%s does not start within %v", name, startWait), s.command.Process.Kill())
}

func inMemory(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(switchName, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), switchName)
	if _, err := f.Write(content); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// openTap makes a TAP device, which is up. The switch receives the frames that are written to it.
func openTap(name string) (*os.File, error) {
	// Go's poller takes the descriptor once it has a device: the kernel wakes nobody before.
	fd, err := eintr.Value(func() (int, error) {
		return unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tunDevice, err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err == nil {
		err = linkUp(name, deviceBytes)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// linkUp brings an interface up, with an MTU unless it is 0.
func linkUp(name string, mtu uint32) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if mtu > 0 {
		request.SetUint32(mtu)
		if err := unix.IoctlIfreq(fd, unix.SIOCSIFMTU, request); err != nil {
			return fmt.Errorf("MTU %d: %w", mtu, err)
		}
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}
