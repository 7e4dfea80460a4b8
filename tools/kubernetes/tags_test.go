package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestTaggedCluster runs the manifests with certificates and tags. Pods with a certificate use the chain, pods without
// one cannot.
func TestTaggedCluster(t *testing.T) {
	needRoot(t)
	if !inNamespaces(t, syscall.CLONE_NEWNET) {
		return
	}
	c := &cluster{t}
	t.Cleanup(c.down)
	c.lab("up", "--tags", "--memory-leases", "--manifests", "../../deploy/manifests/tags/netcraq.yaml")
	if is := c.status(); is.Store != "chain" || !is.MemoryLeases {
		t.Errorf("the gateway does not read from the chain, or leases are not in its memory: %+v", is)
	}
	certs := filepath.Join("/run/netcraq/kubernetes", clusterName, "certs")
	c.kubectl("create", "secret", "generic", "netcraq-operator", "--from-file", filepath.Join(certs, "operator"))
	c.applyText(withCertificate(t, "testdata/load.yaml"))
	c.progress()
	c.strangers()
	c.nearGateway(filepath.Join(certs, "admin"))
	c.progress()
	for _, pod := range loads {
		if seen, err := c.tally(pod); err != nil || seen.Errors > 0 || seen.Lost > 0 {
			t.Errorf("%s: %+v, %v", pod, seen, err)
		}
	}
}

// applyText applies objects.
func (c *cluster) applyText(text string) {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.kubectl("apply", "--filename", file)
}

// withCertificate gives the pods of a file the certificate of a Secret, as docs/kubernetes.md does.
func withCertificate(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const volumes = "  volumes:\n    - {name: identity, secret: {secretName: netcraq-operator, defaultMode: 0400}}\n"
	const container = "env: [{name: NETCRAQ_IDENTITY, value: /identity}], " +
		"volumeMounts: [{name: identity, mountPath: /identity, readOnly: true}]}"
	pods := strings.ReplaceAll(string(text), "  containers:\n", volumes+"  containers:\n")
	with := regexp.MustCompile(`(command: \[[^\]]*\])\}`).ReplaceAllString(pods, "$1, "+container)
	if strings.Count(with, container) != len(loads) {
		t.Fatalf("%s has not the form that this test knows:\n%s", file, with)
	}
	return with
}

// strangers are pods without a certificate. Nodes do not answer their messages, and controllers refuse them.
func (c *cluster) strangers() {
	c.t.Helper()
	text, err := os.ReadFile("testdata/load.yaml")
	if err != nil {
		c.t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n---\n")
	first = strings.ReplaceAll(first, "{name: load-1, labels: {app: load}}", "{name: stranger}")
	c.applyText(strings.ReplaceAll(first, "spec:\n", "spec:\n  restartPolicy: Never\n"))
	c.kubectl("wait", "--for=jsonpath={.status.phase}=Failed", "pod/stranger", limitFlag)
	if log := c.kubectl("logs", "stranger"); strings.Contains(log, "writes") {
		c.t.Errorf("a pod without a certificate uses the chain: %s", log)
	}
	before := c.badTags()
	c.kubectl("apply", "--filename", "testdata/pods.yaml")
	c.await("messages of pods without a tag at the pods' address", func() error {
		if now := c.badTags(); now <= before {
			return fmt.Errorf("nodes dropped %d of them", now-before)
		}
		return nil
	})
	if done := c.kubectl("get", "job/stable", "--output=jsonpath={.status.succeeded}"); done != "" && done != "0" {
		c.t.Errorf("%s pods without a certificate used the chain by the pods' address", done)
	}
	c.kubectl("delete", "--filename", "testdata/pods.yaml", "--wait=false")
}

// badTags counts the messages that the nodes dropped for their tag.
func (c *cluster) badTags() (sum int) {
	c.t.Helper()
	names := c.kubectl("--namespace=netcraq", "get", "pods", "--selector=app.kubernetes.io/component=node",
		"--no-headers", "--output=custom-columns=NAME:.metadata.name,NODE:.status.hostIP")
	for row := range strings.Lines(names) {
		name, node, _ := strings.Cut(strings.TrimSpace(row), " ")
		text := c.kubectl("--namespace=netcraq", "exec", name, "--container=node", "--", "/netcraq", "inspect", "--json",
			"--identity=/identity", "--api="+strings.TrimSpace(node)+":4412")
		for _, found := range regexp.MustCompile(`"outcome": "bad_tag",\s*"messages": (\d+)`).FindAllStringSubmatch(text, -1) {
			var n int
			if _, err := fmt.Sscan(found[1], &n); err != nil {
				c.t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}
