package security

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// nodesDir holds the identities of single nodes, below the directory that [Make] was given.
const nodesDir = "nodes"

// nodeURI begins the name of a node in its certificate, a URI.
const nodeURI = "/node/"

// nodeName is the form of a name that can be a directory.
var nodeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,254}$`)

// NodeDir is the directory of a node's own identity.
func NodeDir(dir, name string) string { return filepath.Join(dir, nodesDir, name) }

// CheckNodeName returns an error for a name that a node in a cluster with controllers cannot have.
func CheckNodeName(name string) error {
	if nodeName.MatchString(name) {
		return nil
	}
	return fmt.Errorf("node name %q: letters, digits, dots, colons, dashes and underscores are wanted", name)
}

// MakeNode makes an identity of one node with the authority in dir. Nothing that exists is replaced.
func MakeNode(dir, name string, valid time.Duration) error {
	if err := CheckNodeName(name); err != nil {
		return err
	}
	if _, err := os.Stat(NodeDir(dir, name)); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists already: `netcraq certs renew %s` makes a new certificate", NodeDir(dir, name), dir)
	}
	a, err := openAuthority(dir)
	if err != nil {
		return err
	}
	if err := a.issueNode(dir, name, valid); err != nil {
		return err
	}
	return Revoke(dir, nil) // the list as it is, for the new identity too
}

func (a *authority) issueNode(dir, name string, valid time.Duration) error {
	uri := &url.URL{Scheme: "netcraq", Path: nodeURI + name}
	return a.issueTo(NodeDir(dir, name), Node, &x509.Certificate{URIs: []*url.URL{uri}}, valid)
}

// namedNodes lists the nodes that have identities of their own below dir.
func namedNodes(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, nodesDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// nodeOf is the name of the only node that may use a certificate; empty: any node may, or it is one of another role.
func nodeOf(cert *x509.Certificate) string {
	for _, uri := range cert.URIs {
		if uri.Scheme == "netcraq" && strings.HasPrefix(uri.Path, nodeURI) {
			return strings.TrimPrefix(uri.Path, nodeURI)
		}
	}
	return ""
}

// NodeOf is the name in the certificate of the other side of a call; empty: there is none. The certificate was verified when the
// connection was made, and by the checks of the call.
func NodeOf(ctx context.Context) string {
	cert := peerCertificate(ctx)
	if cert == nil {
		return ""
	}
	return nodeOf(cert)
}

// CheckNode returns an error if the certificate of the other side of a call is one of another node. A certificate without a
// node's name is one of any node. On the calling side of a stream it can be asked once something was received.
func CheckNode(ctx context.Context, name string) error {
	if is := NodeOf(ctx); is != "" && is != name {
		return fmt.Errorf("node %s has the certificate of node %s: give it one of its own, with `netcraq certs node DIRECTORY %s`",
			name, is, name)
	}
	return nil
}
