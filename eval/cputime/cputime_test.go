package cputime

import (
	"os"
	"os/exec"
	"testing"
)

// TestBelow: the CPU time of a child counts while it runs, unless it is left out.
func TestBelow(t *testing.T) {
	c := exec.Command("sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo; read -r _")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		if err := c.Wait(); err == nil {
			t.Error("sh read a line that nothing wrote")
		}
	}()
	if _, err := out.Read(make([]byte, 1)); err != nil { // it has counted
		t.Fatal(err)
	}
	child, err := Of(c.Process.Pid)
	if err != nil || child == 0 {
		t.Fatalf("%v of the child: %v", child, err)
	}
	if all, err := Below(os.Getpid()); err != nil || all < child {
		t.Errorf("%v of all children, %v of one: %v", all, child, err)
	}
	if none, err := Below(os.Getpid(), c.Process.Pid); err != nil || none >= child {
		t.Errorf("%v without the child: %v", none, err)
	}
	if own, err := Own(); err != nil || own < 0 {
		t.Errorf("%v of this process: %v", own, err)
	}
}
