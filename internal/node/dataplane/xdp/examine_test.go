package xdp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/netcraq/netcraq/internal/platform/finding"
)

// TestExamine: nothing is wrong with a machine on which nodes start. An interface that is a part of a bridge elsewhere, has a small
// MTU or is down is found, and so is one that does not exist; and nothing is attached.
func TestExamine(t *testing.T) {
	o := testOptions(t)
	inNamespace(t, func() error {
		find := func(ports ...string) []finding.Finding { return Examine(ports, o.Chain, finding.Broken) }
		all := find("near")
		if slices.ContainsFunc(all, func(f finding.Finding) bool { return f.State != finding.OK }) {
			return fmt.Errorf("%+v", all)
		}
		for _, check := range []string{"kernel", "BTF", "BPF file system", "rights", "locked memory", "boot clock", "programs", "port"} {
			if !slices.ContainsFunc(all, func(f finding.Finding) bool { return f.Check == check }) {
				return fmt.Errorf("no check of %s in %+v", check, all)
			}
		}
		near, err := netlink.LinkByName("near")
		if err != nil {
			return err
		}
		if near.Attrs().Xdp != nil && near.Attrs().Xdp.Attached {
			return fmt.Errorf("a program is attached: %+v", near.Attrs().Xdp)
		}
		expect := func(ports []string, state finding.State, text string) error {
			if all := find(ports...); !slices.ContainsFunc(all, func(f finding.Finding) bool {
				return f.Check == "port" && f.State == state && strings.Contains(f.Text, text)
			}) {
				return fmt.Errorf("want %s, %q in %+v", state, text, all)
			}
			return nil
		}
		if err := expect([]string{"none"}, finding.Broken, "there is no such interface"); err != nil {
			return err
		}
		if err := netlink.LinkSetMTU(near, need(o.Chain)-1); err != nil {
			return err
		}
		if err := expect([]string{"near"}, finding.Broken, fmt.Sprintf("raise it to %d", need(o.Chain))); err != nil {
			return err
		}
		if err := netlink.LinkSetMTU(near, need(o.Chain)); err != nil {
			return err
		}
		if err := netlink.LinkSetDown(near); err != nil {
			return err
		}
		return expect([]string{"near"}, finding.Broken, "the interface is down")
	})
}
