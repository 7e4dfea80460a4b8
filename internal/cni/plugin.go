package cni

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/netcraq/netcraq/internal/node/pods"
	"github.com/netcraq/netcraq/internal/platform/thread"
)

// Plugin has the commands of CNI. A pod starts also if the chain cannot serve it yet: Log says why.
type Plugin struct{ Log io.Writer }

// Funcs are the commands as the library for plugins wants them.
func (p Plugin) Funcs() skel.CNIFuncs {
	return skel.CNIFuncs{Add: p.add, Check: p.check, Del: p.del, GC: p.gc, Status: p.status}
}

func (p Plugin) say(format string, args ...any) {
	fmt.Fprintf(p.Log, "netcraq-cni: "+format+"\n", args...)
}

// target returns the configuration of a call, and the interface that the call is about. The caller closes that.
func target(args *skel.CmdArgs) (*config, *pair, error) {
	c, err := parseChained(args.StdinData)
	if err != nil {
		return nil, nil, err
	}
	veth, err := find(args.Netns, args.IfName)
	return c, veth, err
}

// add prepares a pod. Called twice it does the same again, and a record that another interface left it replaces.
func (p Plugin) add(args *skel.CmdArgs) error {
	c, veth, err := target(args)
	if err != nil {
		return err
	}
	defer veth.close()
	r := pods.Record{Network: c.Name, Container: args.ContainerID, Interface: args.IfName, Pod: veth.end,
		Host: veth.host.Name, HostIndex: veth.host.Index, Address: c.address}
	if err := p.lead(c, veth, r); err != nil {
		_, err2 := c.remove(r, veth.netns)
		return types.NewError(types.ErrIOFailure, "netcraq-cni: the pod cannot be led to the chain",
			errors.Join(err, err2).Error())
	}
	switch a, err := c.Directory.Ask(context.Background(), args.ContainerID, args.IfName); {
	case err != nil:
		p.say("pod %s is served as soon as an agent looks at %s: %v", args.ContainerID, c.Directory, err)
	case a.Error != "":
		p.say("pod %s is not served: %s", args.ContainerID, a.Error)
	case a.Why != "":
		p.say("pod %s is served in %s mode: %s", args.ContainerID, a.Mode, a.Why)
	}
	return types.PrintResult(c.PrevResult, c.CNIVersion)
}

// lead gives a pod its way to the chain. The record is written before the way is made: DEL undoes what a record names.
func (p Plugin) lead(c *config, veth *pair, r pods.Record) error {
	return veth.inPod(func() error {
		w := way{veth.end.Index, c.address}
		r.Native = receive(w.index) == nil // else the agent attaches in generic mode
		if err := c.Directory.Put(r); err != nil {
			return err
		}
		if err := w.make(veth.host.HardwareAddr); err != nil {
			return err
		}
		if err := w.source(); err != nil {
			p.say("pod %s is not served: %v", r.Container, err)
		}
		return nil
	})
}

// check compares what add did with what there is.
func (p Plugin) check(args *skel.CmdArgs) error {
	c, veth, err := target(args)
	if err != nil {
		return err
	}
	defer veth.close()
	err = veth.inPod(func() error { return way{veth.end.Index, c.address}.check(veth.host.HardwareAddr) })
	if err != nil {
		return types.NewError(types.ErrUnknownContainer, "netcraq-cni: the pod is not as ADD left it", err.Error())
	}
	r, err := c.Directory.Get(args.ContainerID, args.IfName)
	if err != nil {
		return types.NewError(types.ErrUnknownContainer, "netcraq-cni: there is no record of the pod", err.Error())
	}
	if r.Pod == (pods.End{}) {
		r.Pod = veth.end // an earlier version of the plugin wrote the record
	}
	if r.Host != veth.host.Name || r.HostIndex != veth.host.Index || r.Address != c.address || r.Pod != veth.end {
		return types.NewError(types.ErrUnknownContainer, "netcraq-cni: the record of the pod is stale",
			fmt.Sprintf("it names %s (%d), %v and %v, and the pod has %s (%d), %v and %v", r.Host, r.HostIndex, r.Address,
				r.Pod, veth.host.Name, veth.host.Index, c.address, veth.end))
	}
	switch a, err := c.Directory.Ask(context.Background(), args.ContainerID, args.IfName); {
	case err != nil:
		return types.NewError(types.ErrTryAgainLater, "netcraq-cni: it is not known whether the pod is served", err.Error())
	case a.Error != "":
		return types.NewError(types.ErrTryAgainLater, "netcraq-cni: the pod is not served", a.Error)
	}
	return nil
}

// del removes the record, the attachments and the way of a pod. It succeeds if they are gone, as the specification
// requires. What it removes is what the record names: the path may lead to another pod by now, or to none.
func (p Plugin) del(args *skel.CmdArgs) error {
	args.NetnsOverride = "1" // the library would open the path, which may block, and refuse that of the machine
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	r, err := c.Directory.Get(args.ContainerID, args.IfName)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil { // it cannot be read: the agent detaches what no record names
		r = pods.Record{Container: args.ContainerID, Interface: args.IfName}
	}
	netns, err := thread.OpenNamespace(args.Netns)
	if err == nil {
		defer netns.Close()
	}
	left, err := c.remove(r, netns)
	if err != nil {
		return types.NewError(types.ErrIOFailure, "netcraq-cni: something of the pod is left", err.Error())
	}
	if left != nil {
		p.say("the route of pod %s is left: %v", args.ContainerID, left)
	}
	return nil
}

// remove removes a record and what it names, on the machine and, if netns is the namespace that it names, in the pod.
// left says what is left there, where it ends with the pod. Another record may name the same interfaces, of which it
// then removes nothing.
func (c *config) remove(r pods.Record, netns *os.File) (left, err error) {
	if err := c.Directory.Delete(r.Container, r.Interface); err != nil {
		return nil, err
	}
	others, err := c.Directory.List()
	if netns != nil && !slices.ContainsFunc(others, func(o pods.Record) bool { return o.Pod == r.Pod }) {
		left = inNamespace(netns, func() error {
			if own, err := namespaceCookie(); err != nil || own != r.Pod.Namespace {
				return err
			}
			return way{r.Pod.Index, r.Address}.undo()
		})
	}
	_, asked := c.Directory.Ask(context.Background(), r.Container, r.Interface)
	if asked == nil || r.Host == "" {
		return left, nil
	}
	if slices.ContainsFunc(others, func(o pods.Record) bool { return o.Host == r.Host }) {
		return left, err // a later pod has an interface of that name
	}
	return left, pods.Detach(c.Pins, r.Host)
}

// gc removes what DEL did not: the records of this network's interfaces that the runtime does not know.
func (p Plugin) gc(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	valid := make(map[types.GCAttachment]bool)
	for _, a := range c.ValidAttachments {
		valid[a] = true
	}
	records, err := c.Directory.List()
	errs := []error{err}
	for _, r := range records {
		if r.Network == c.Name && !valid[types.GCAttachment{ContainerID: r.Container, IfName: r.Interface}] {
			_, err := c.remove(r, nil)
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return types.NewError(types.ErrIOFailure, "netcraq-cni: something of pods that are gone is left", err.Error())
	}
	return nil
}

// status says whether ADD works. It does without an agent: to say otherwise would keep pods from starting, the agent's
// own among them.
func (p Plugin) status(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(string(c.Directory), 0o700); err != nil {
		return types.NewError(types.ErrPluginNotAvailable, "netcraq-cni: records of pods cannot be written", err.Error())
	}
	if _, err := c.Directory.Ask(context.Background(), "", ""); err != nil {
		p.say("pods start, and are served later: %v", err)
	}
	return nil
}
