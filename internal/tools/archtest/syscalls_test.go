package archtest

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// interruptible are the system calls that may fail with EINTR, by the manual, as the packages unix and syscall call
// them. Close is missing: it must not be called again.
var interruptible = strings.Fields(`Accept Accept4 ClockNanosleep Connect EpollPwait EpollWait Fallocate FcntlFlock Flock
	Fstatfs Fsync Ftruncate Getrandom Nanosleep Open Openat Openat2 Poll Ppoll Pread Preadv Pselect Pwrite Pwritev
	RawSyscall RawSyscall6 Read Readv Recvfrom Recvmsg RecvmsgBuffers Select Sendfile Sendmsg SendmsgBuffers SendmsgN
	Sendto Splice Statfs Syscall Syscall6 Tee Truncate Wait4 Waitid Write Writev`)

// Go's runtime sends signals to threads all the time, and these must not make a system call fail. So calls that a signal
// can interrupt run inside a function that package eintr repeats. Locks that do not wait are exempt.
func TestInterruptedCallsAreRepeated(t *testing.T) {
	met := 0
	for _, s := range sources(t) {
		if s.generated() || s.dir() == platform+"/eintr" {
			continue
		}
		inside := repeated(s.syntax)
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !interrupts(call, s.text, s.syntax) {
				return true
			}
			met++
			for _, function := range inside {
				if function.Pos() <= call.Pos() && call.End() <= function.End() {
					return true
				}
			}
			t.Errorf("%s:%d: a signal may interrupt this call: make it with eintr.Retry or eintr.Value",
				s.path, s.line(call.Pos()))
			return true
		})
	}
	if met == 0 {
		t.Error("no call that a signal may interrupt was found: does this test still know the project?")
	}
}

// repeated finds the functions that are given to package eintr.
func repeated(file *ast.File) (functions []ast.Node) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		fun := call.Fun
		if typed, ok := fun.(*ast.IndexExpr); ok {
			fun = typed.X
		}
		if pkg, _, ok := selected(fun); ok && pkg == "eintr" && len(call.Args) == 1 {
			functions = append(functions, call.Args[0])
		}
		return true
	})
	return functions
}

// interrupts reports whether a call is a direct one of the kernel that may fail with EINTR.
func interrupts(call *ast.CallExpr, text []byte, file *ast.File) bool {
	pkg, name, ok := selected(call.Fun)
	if !ok || pkg != "unix" && pkg != "syscall" || !slices.Contains(interruptible, name) {
		return false
	}
	arguments := string(text[call.Lparen-file.FileStart : call.Rparen-file.FileStart])
	return !strings.Contains(arguments, "LOCK_NB")
}

// selected splits pkg.Name.
func selected(e ast.Expr) (pkg, name string, ok bool) {
	selector, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", "", false
	}
	of, ok := selector.X.(*ast.Ident)
	if !ok {
		return "", "", false
	}
	return of.Name, selector.Sel.Name, true
}
