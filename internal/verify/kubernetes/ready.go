package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// namespace is that of the manifests.
const namespace = "netcraq"

// awaitReady waits until the cluster's nodes are ready. It applies the manifests and waits until the chain serves.
func (s *state) awaitReady(ctx context.Context) error {
	a, err := NewAPI(s.Options.Name)
	if err != nil {
		return err
	}
	defer a.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errors.New("not in time"))
	defer cancel()
	s.Options.Progress("waiting for the API server and for nodes to be ready")
	if err := s.await(ctx, func(ctx context.Context) error { return s.nodesReady(ctx, a) }); err != nil {
		return err
	}
	if s.Options.Manifests == "" {
		return nil
	}
	s.Options.Progress("applying " + s.Options.Manifests)
	if err := s.apply(ctx); err != nil {
		return err
	}
	s.Options.Progress("waiting for controllers and nodes of the chain to be ready")
	return s.await(ctx, func(ctx context.Context) error { return s.podsReady(ctx, a) })
}

// await calls f until it succeeds, the context ends, or a machine has ended.
func (s *state) await(ctx context.Context, f func(context.Context) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	return await(ctx, func() error {
		for name, p := range s.Machines {
			if !p.Alive() {
				fail(fmt.Errorf("%s has ended: %s", name, lastLine(LogOf(s.Options.Name, name, "machine"))))
			}
		}
		return f(ctx)
	})
}

// nodesReady returns an error until all nodes are ready, by a heartbeat of the kubelet that runs now.
func (s *state) nodesReady(ctx context.Context, a *API) error {
	var nodes nodeList
	if err := a.Get(ctx, "/api/v1/nodes", &nodes); err != nil {
		return err
	}
	is := make(map[string]bool)
	for _, n := range nodes.Items {
		c, ok := ready(n.Status.Conditions)
		is[n.Metadata.Name] = ok && !c.LastHeartbeatTime.Before(s.started[n.Metadata.Name])
	}
	for _, h := range workerHosts() {
		if !is[h.name] {
			return fmt.Errorf("%s is not ready; its logs are in %s", h.name, filepath.Join(dirOf(s.Options.Name), h.name))
		}
	}
	return nil
}

// podsReady returns an error until a node of the chain is ready on every machine, and all controllers.
func (s *state) podsReady(ctx context.Context, a *API) error {
	var pods podList
	if err := a.Get(ctx, "/api/v1/namespaces/"+namespace+"/pods", &pods); err != nil {
		return err
	}
	is := make(map[string]int)
	for i := range pods.Items {
		p := &pods.Items[i]
		if !p.readySince(s.started[p.Spec.NodeName]) {
			return fmt.Errorf("pod %s on %s is not ready: kubectl --kubeconfig %s -n %s describe pod %s", p.Metadata.Name,
				p.Spec.NodeName, Kubeconfig(s.Options.Name), namespace, p.Metadata.Name)
		}
		if strings.HasPrefix(p.Metadata.Name, "netcraq-node-") {
			is[p.Spec.NodeName]++
		}
	}
	for _, h := range workerHosts() {
		if is[h.name] == 0 {
			return fmt.Errorf("no node of the chain runs on %s", h.name)
		}
	}
	return nil
}

// apply applies the manifests as they are.
func (s *state) apply(ctx context.Context) error {
	text, err := os.ReadFile(s.Options.Manifests)
	if err != nil {
		return err
	}
	head := "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + namespace + "}\n---\n"
	secrets, err := s.secrets(ctx)
	if err != nil {
		return err
	}
	cmd := s.kubectl(ctx, "apply", "--validate=strict", "--filename", "-")
	cmd.Stdin = strings.NewReader(head + secrets + string(text))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl apply: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

func (s *state) kubectl(ctx context.Context, args ...string) *exec.Cmd {
	program := filepath.Join(s.Options.Programs, "kubectl")
	return exec.CommandContext(ctx, program, append([]string{"--kubeconfig", Kubeconfig(s.Options.Name)}, args...)...)
}
