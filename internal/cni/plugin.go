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

// target returns the configuration of a call, and the interface that the call is about.
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
	native, err := veth.prepare(c.address)
	if err == nil {
		err = c.Directory.Put(pods.Record{Network: c.Name, Container: args.ContainerID, Interface: args.IfName,
			Host: veth.host.Name, HostIndex: veth.host.Index, Address: c.address, Native: native})
	}
	if err != nil {
		err = errors.Join(err, veth.undo(c.address))
		return types.NewError(types.ErrIOFailure, "netcraq-cni: the pod cannot be led to the chain", err.Error())
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

// check compares what add did with what there is.
func (p Plugin) check(args *skel.CmdArgs) error {
	c, veth, err := target(args)
	if err != nil {
		return err
	}
	if err := veth.check(c.address); err != nil {
		return types.NewError(types.ErrUnknownContainer, "netcraq-cni: the pod is not as ADD left it", err.Error())
	}
	r, err := c.Directory.Get(args.ContainerID, args.IfName)
	if err != nil {
		return types.NewError(types.ErrUnknownContainer, "netcraq-cni: there is no record of the pod", err.Error())
	}
	if r.Host != veth.host.Name || r.HostIndex != veth.host.Index || r.Address != c.address {
		return types.NewError(types.ErrUnknownContainer, "netcraq-cni: the record of the pod is stale",
			fmt.Sprintf("it names %s (%d) and %v, and the pod has %s (%d) and %v", r.Host, r.HostIndex, r.Address,
				veth.host.Name, veth.host.Index, c.address))
	}
	switch a, err := c.Directory.Ask(context.Background(), args.ContainerID, args.IfName); {
	case err != nil:
		return types.NewError(types.ErrTryAgainLater, "netcraq-cni: it is not known whether the pod is served", err.Error())
	case a.Error != "":
		return types.NewError(types.ErrTryAgainLater, "netcraq-cni: the pod is not served", a.Error)
	}
	return nil
}

// del removes the route, the attachments and the record of a pod. It succeeds if they are gone, as the specification
// requires.
func (p Plugin) del(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	if args.Netns != "" {
		if veth, err := find(args.Netns, args.IfName); err == nil {
			if err := veth.undo(c.address); err != nil {
				p.say("the route of pod %s is left: %v", args.ContainerID, err)
			}
		}
	}
	if err := c.forget(args.ContainerID, args.IfName); err != nil {
		return types.NewError(types.ErrIOFailure, "netcraq-cni: something of the pod is left", err.Error())
	}
	return nil
}

// forget removes the record of an interface, and has its attachments removed.
func (c *config) forget(container, ifname string) error {
	r, err := c.Directory.Get(container, ifname)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if removed := c.Directory.Delete(container, ifname); removed != nil {
		return removed
	}
	if err != nil { // it cannot be read: the agent detaches what no record names
		r.Host = ""
	}
	_, asked := c.Directory.Ask(context.Background(), container, ifname)
	if asked == nil || r.Host == "" {
		return nil
	}
	others, err := c.Directory.List()
	if slices.ContainsFunc(others, func(o pods.Record) bool { return o.Host == r.Host }) {
		return err // a later pod has an interface of that name
	}
	return pods.Detach(c.Pins, r.Host)
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
			errs = append(errs, c.forget(r.Container, r.Interface))
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
