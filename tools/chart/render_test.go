package main

import (
	"maps"
	"strings"
	"testing"
)

const chartDir = "../../deploy/chart"

// minimal are values that the schema accepts, and nothing more.
func minimal() map[string]any {
	return map[string]any{
		"controllers": map[string]any{"members": []any{
			map[string]any{"name": "c1", "address": "192.0.2.1", "machine": "m1"}}},
		"node": map[string]any{"ports": []any{"eth0"}},
	}
}

// TestManifestsAreCurrent: the committed manifests are those of the chart.
func TestManifestsAreCurrent(t *testing.T) {
	if err := run("../..", true); err != nil {
		t.Error(err)
	}
}

// TestEveryValue renders what the manifests leave out.
func TestEveryValue(t *testing.T) {
	values := minimal()
	maps.Copy(values, map[string]any{
		"identityPath":   "/etc/netcraq/identity",
		"clientPolicy":   map[string]any{"enabled": true, "machines": []any{"192.0.2.0/24"}},
		"serviceMonitor": map[string]any{"enabled": true},
		"dashboard":      map[string]any{"enabled": true},
		"node":           map[string]any{"ports": []any{"eth0"}, "topologyLabels": true, "args": []any{"--objects=5"}},
	})
	values["controllers"].(map[string]any)["etcdEndpoints"] = []any{"192.0.2.9:2379"}
	text, err := render(chartDir, values)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkObjects(text); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"--etcd-endpoints=192.0.2.9:2379", "kind: ServiceMonitor", "kind: PodMonitor", "kind: NetworkPolicy",
		"netcraq.json: |", "--labels=zone=$(ZONE),rack=$(RACK)", "--objects=5", "path: /etc/netcraq/identity/node,",
		"path: /etc/netcraq/identity/controller,"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing", want)
		}
	}
	values["pods"] = map[string]any{"enabled": false}
	if text, err = render(chartDir, values); err != nil || strings.Contains(string(text), "--pod-addr") {
		t.Errorf("without pods: %v", err)
	}
}

// TestMonitors: programs whose pages Prometheus reaches are scraped, gateways in the pods that the kubelet starts.
func TestMonitors(t *testing.T) {
	values := minimal()
	values["serviceMonitor"] = map[string]any{"enabled": true}
	text, err := render(chartDir, values)
	if n := strings.Count(string(text), "kind: PodMonitor\n"); err != nil || n != 1 {
		t.Errorf("gateways' pages are on loopback, and there are %d monitors: %v", n, err)
	}
	for name, path := range map[string]string{"gateway": "/proxy/metrics", "memoryGateway": "/metrics", "keyspace": "/metrics"} {
		values[name] = map[string]any{"metricsListen": "0.0.0.0:9415", "staticPod": false}
		text, err := render(chartDir, values)
		want := "- {portNumber: 9415, path: " + path + ", interval: 15s}"
		if err != nil || !strings.Contains(string(text), want) || !strings.Contains(string(text), "matchNames: [kube-system]") {
			t.Errorf("%s: %v: %q is missing in\n%s", name, err, want, text)
		}
		delete(values, name)
	}
}

// TestNamespaceComesFirst: kubectl creates the objects of a file in their order, and needs the namespace before those in it.
func TestNamespaceComesFirst(t *testing.T) {
	text, err := render(chartDir, minimal())
	if err != nil {
		t.Fatal(err)
	}
	for i, object := range objects(string(text)) {
		if is := strings.Contains(object, "kind: Namespace\n"); is != (i == 0) {
			t.Errorf("object %d: %s", i, object)
		}
	}
	if !strings.Contains(objects(string(text))[0], "  name: netcraq\n") {
		t.Error("the namespace is another")
	}
}

// TestStaticPod renders the gateway alone, with the certificates of kubeadm or without any. Without staticPod it is not
// among the cluster's objects.
func TestStaticPod(t *testing.T) {
	values := minimal()
	text, err := renderStaticPod(chartDir, values, "gateway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := checkObjects(text); err != nil {
		t.Error(err)
	}
	if n := len(objects(string(text))); n != 1 || !strings.Contains(string(text), "--cert=/etc/kubernetes/pki/etcd/netcraq-gateway.crt") {
		t.Errorf("%d objects:\n%s", n, text)
	}
	for _, want := range []string{"add: [BPF, PERFMON]", "{name: bpf, mountPath: /sys/fs/bpf, readOnly: true}",
		"httpGet: {host: 127.0.0.1, port: 23791, path: /livez}"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("local reads and the probe: %q is missing", want)
		}
	}
	values["gateway"] = map[string]any{"localReads": false}
	text, err = renderStaticPod(chartDir, values, "gateway.yaml")
	if err != nil || strings.Contains(string(text), "bpf") || !strings.Contains(string(text), "- --pins=\n") {
		t.Errorf("without local reads: %v\n%s", err, text)
	}
	values["gateway"] = map[string]any{"pkiPath": "", "etcdEndpoints": []any{"192.0.2.9:2379"}, "args": []any{"--cache-bytes=0"}}
	values["identityPath"] = "/etc/netcraq/identity"
	if text, err = renderStaticPod(chartDir, values, "gateway.yaml"); err != nil || checkObjects(text) != nil {
		t.Errorf("%v:\n%s", err, text)
	}
	for _, want := range []string{"--etcd-endpoints=192.0.2.9:2379", "--cache-bytes=0", "--identity=/identity"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(string(text), "--cert") {
		t.Errorf("without certificates:\n%s", text)
	}
	if text, err = render(chartDir, values); err != nil || strings.Contains(string(text), "kind: Pod\n") {
		t.Errorf("among the cluster's objects: %v", err)
	}
}

// TestKeyspacePod renders a gateway of a keyspace on disks: it has its directory of the machine, and listens where
// kubeadm's etcd did.
func TestKeyspacePod(t *testing.T) {
	values := minimal()
	values["keyspace"] = map[string]any{"dataPath": "/disk"}
	text, err := renderStaticPod(chartDir, values, "keyspace.yaml")
	if err != nil || checkObjects(text) != nil {
		t.Errorf("%v:\n%s", err, text)
	}
	for _, want := range []string{"command: [/netcraq, keyspace]", "- --data-dir=/disk\n", "- --listen=0.0.0.0:2379\n",
		"{name: data, mountPath: /disk}", "hostPath: {path: /disk, type: DirectoryOrCreate}"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
}

// TestTags renders programs with certificates and tags: each with the certificate of its own role, which its API needs.
func TestTags(t *testing.T) {
	values := minimal()
	values["tags"] = true
	values["identitySecrets"] = map[string]any{"controller": "of-controllers", "node": "of-nodes"}
	text, err := render(chartDir, values)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkObjects(text); err != nil {
		t.Error(err)
	}
	for _, object := range objects(string(text)) {
		for kind, want := range map[string][]string{
			"kind: Deployment": {"- --tags", "- --identity=/identity",
				"secret: {secretName: of-controllers, defaultMode: 0400}"},
			"kind: DaemonSet": {"- --identity=/identity", "secret: {secretName: of-nodes, defaultMode: 0400}"},
		} {
			for _, line := range want {
				if strings.Contains(object, kind+"\n") && !strings.Contains(object, line) {
					t.Errorf("%q is missing in\n%s", line, object)
				}
			}
		}
	}
	for name := range staticPods {
		if _, err := renderStaticPod(chartDir, values, name); err == nil || !strings.Contains(err.Error(), "identityPath") {
			t.Errorf("%s without a directory for its certificate: %v", name, err)
		}
		values := maps.Clone(values)
		values["identityPath"] = "/certs"
		text, err := renderStaticPod(chartDir, values, name)
		if err != nil || checkObjects(text) != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		for _, line := range []string{"- --identity=/identity", "hostPath: {path: /certs/operator, type: Directory}"} {
			if !strings.Contains(string(text), line) {
				t.Errorf("%s: %q is missing in\n%s", name, line, text)
			}
		}
	}
}

// TestBadValues: the schema and the templates refuse what could not run.
func TestBadValues(t *testing.T) {
	for name, change := range map[string]func(map[string]any){
		"no controllers": func(v map[string]any) { delete(v, "controllers") },
		"unknown value":  func(v map[string]any) { v["contollers"] = 1 },
		"a host name":    func(v map[string]any) { v["pods"] = map[string]any{"address": "chain.local"} },
		"no ports":       func(v map[string]any) { delete(v, "node") },
		"open tags":      func(v map[string]any) { v["tags"] = true },
		"one secret":     func(v map[string]any) { v["identitySecrets"] = map[string]any{"node": "of-nodes"} },
	} {
		values := minimal()
		change(values)
		if _, err := render(chartDir, values); err == nil {
			t.Errorf("%s: rendered", name)
		}
	}
}

// TestWrongObjects: a field that Kubernetes does not know is found.
func TestWrongObjects(t *testing.T) {
	const wrong = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {port: 1}\n"
	if err := checkObjects([]byte(wrong)); err == nil || !strings.Contains(err.Error(), "port") {
		t.Errorf("an unknown field: %v", err)
	}
}
