package p4

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/verify/enginetest"
)

// longestFrame is what a buffer of the engine has room for: BUFFER_BYTES less HEADROOM in p4/engine/engine.h.
const longestFrame = 4096 - 512

// checkedEngine compiles the engine with a check of every access to memory, and makes tests use it.
func checkedEngine(t *testing.T) {
	t.Helper()
	enginetest.Need(t)
	libraries, err := exec.Command("pkg-config", "--cflags", "--libs", "libdpdk").Output()
	sources, _ := filepath.Glob("../../../../p4/engine/*.c")
	path := filepath.Join(t.TempDir(), "engine")
	if err == nil {
		arguments := append([]string{"-g", "-fsanitize=address", "-DALLOW_EXPERIMENTAL_API", "-o", path}, sources...)
		var text []byte
		if text, err = exec.Command("gcc", append(arguments, strings.Fields(string(libraries))...)...).CombinedOutput(); err != nil {
			t.Logf("%s", text)
		}
	}
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("compiling the engine with AddressSanitizer: %v", err)
	default:
		t.Skipf("compiling the engine with AddressSanitizer: %v", err)
	}
	t.Setenv("ASAN_OPTIONS", "detect_leaks=0") // the engine ends with its process
	t.Setenv(EngineVariable, path)
}

// keepsRest is a program with a header of variable length, 64 bytes at most, in which it keeps what follows the
// platform's header. It sends the headers in another order, so that SWX copies them.
const keepsRest = `struct platform_h {
	bit<64> now
	bit<16> bytes
	bit<8> from
	bit<8> port
	bit<32> more
}
struct rest_h {
	varbit<512> bytes
}
struct mark_h {
	bit<64> mark
}
header platform instanceof platform_h
header rest instanceof rest_h
header mark instanceof mark_h
struct m_t {
	bit<32> in
	bit<32> out
	bit<32> bytes
}
metadata instanceof m_t
apply {
	rx m.in
	extract h.platform
	mov m.bytes h.platform.bytes
	extract h.rest m.bytes
	validate h.mark
	mov h.mark.mark 0x1
	emit h.rest
	emit h.mark
	emit h.platform
	mov m.out 0xE
	tx m.out
}
`

// TestLongestFrames: SWX checks no length when a program extracts a header of variable length. So the engine has memory
// for the longest frame that it takes, whatever length the program declares.
func TestLongestFrames(t *testing.T) {
	checkedEngine(t)
	sw, err := StartSWX([]byte(keepsRest), EngineMegabytes)
	if err != nil {
		t.Fatal(err)
	}
	defer sw.Close()
	for _, length := range []int{64, 65, 1500, longestFrame} {
		frame := bytes.Repeat([]byte{0xa5}, length)
		left, err := sw.Try(0, frame)
		if err != nil {
			t.Fatalf("a frame of %d bytes: %v", length, err)
		}
		if len(left) != 1 || left[0].Port != PortHost || !bytes.HasPrefix(left[0].Frame, frame) {
			t.Errorf("a frame of %d bytes: %d frames left", length, len(left))
		}
	}
	if err := sw.Put(0, make([]byte, longestFrame+1)); err == nil {
		t.Errorf("a frame of %d bytes is taken", longestFrame+1)
	}
}
