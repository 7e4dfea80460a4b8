package kubernetes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/netcraq/netcraq/internal/cluster/security"
)

const (
	// identitiesDir has the certificates of a cluster with tags, below the cluster's directory.
	identitiesDir = "certs"
	// identityPath is where machines have them, by the values of deploy/manifests/tags.
	identityPath = "/etc/netcraq/identity"
)

// writeIdentities makes the certificates of a cluster with tags.
func (s *state) writeIdentities(dir string) error {
	if !s.Options.Tags {
		return nil
	}
	return security.Make(filepath.Join(dir, identitiesDir), strings.Split(chainControllers(), ","), validFor)
}

// linkIdentities gives the certificates of gateways to a machine.
func (s *state) linkIdentities() error {
	if !s.Options.Tags {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(identityPath), 0o755); err != nil {
		return err
	}
	return link(filepath.Join(inside, identitiesDir), identityPath)
}

// secrets are the Secrets of the manifests with tags, as docs/kubernetes.md makes them.
func (s *state) secrets(ctx context.Context) (string, error) {
	if !s.Options.Tags {
		return "", nil
	}
	var all strings.Builder
	for _, role := range []security.Role{security.Controller, security.Node} {
		cmd := s.kubectl(ctx, "--namespace", namespace, "create", "secret", "generic", "netcraq-"+string(role),
			"--from-file", filepath.Join(dirOf(s.Options.Name), identitiesDir, string(role)),
			"--dry-run=client", "--output=yaml")
		var failed strings.Builder
		cmd.Stderr = &failed
		text, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("kubectl create secret: %w: %s", err, failed.String())
		}
		all.Write(text)
		all.WriteString("---\n")
	}
	return all.String(), nil
}
