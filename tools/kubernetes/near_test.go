package kubernetes

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// Addresses of the gateway on a worker, and of the etcd beside it.
const (
	nearAddr    = "192.0.2.1:23790"
	nearMetrics = "192.0.2.1:23791"
	nearEtcd    = "127.0.0.1:23795"
)

// etcdPod is an etcd: the one in a controller, which has no nodes.
const etcdPod = `apiVersion: v1
kind: Pod
metadata: {name: etcd}
spec:
  nodeName: machine-1
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers:
    - name: etcd
      image: netcraq:latest
      imagePullPolicy: IfNotPresent
      command: [/netcraq, controller, --data-dir=/data, --listen=127.0.0.9, --etcd-client=` + nearEtcd + `]
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {}}]
---
`

// nearGateway runs the gateway's manifest on a machine with a node, with its rights and mounts, and reads a key until the
// node's memory has answered. admin has the certificate of that role.
func (c *cluster) nearGateway(admin string) {
	c.t.Helper()
	text, err := os.ReadFile("../../deploy/manifests/tags/gateway.yaml")
	if err != nil {
		c.t.Fatal(err)
	}
	const pki = `(?m)^.*(--(cacert|cert|key|cert-file|key-file|trusted-ca-file)=|name: pki|path: /etc/kubernetes).*\n`
	pod := regexp.MustCompile(pki).ReplaceAllString(string(text), "")
	for old, change := range map[string]string{
		"127.0.0.1:23790": nearAddr, "127.0.0.1:23791": nearMetrics, "host: 127.0.0.1": "host: 192.0.2.1",
		"https://127.0.0.1:2379\n": "http://" + nearEtcd + "\n        - --pin=\n",
		"namespace: kube-system":   "namespace: default",
		"  hostNetwork: true\n":    "  hostNetwork: true\n  nodeName: machine-1\n",
	} {
		if !strings.Contains(pod, old) {
			c.t.Fatalf("the manifest has no %q:\n%s", old, pod)
		}
		pod = strings.ReplaceAll(pod, old, change)
	}
	c.applyText(etcdPod + pod)
	c.kubectl("wait", "--for=condition=Ready", "pod/etcd", "pod/netcraq-gateway", limitFlag)
	// Every machine gets a copy of every object: the node may answer only from chains that it is in.
	out, err := exec.Command(netcraq, "replicas", "4", "--controllers", "192.0.2.1", "--identity", admin).CombinedOutput()
	if err != nil {
		c.t.Fatalf("netcraq replicas: %v\n%s", err, out)
	}
	key := base64.StdEncoding.EncodeToString([]byte("near"))
	c.await("the gateway", func() error { // the pod has no readiness probe
		_, err := post("/v3/kv/put", map[string]string{"key": key, "value": key})
		return err
	})
	hits := regexp.MustCompile(`(?m)^netcraq_gateway_nearby_hits_total ([1-9].*)$`)
	c.await("a read from the memory of the machine's node", func() error {
		got, err := post("/v3/kv/range", map[string]string{"key": key})
		if err != nil || !strings.Contains(got, key) {
			return fmt.Errorf("read %s: %w", got, err)
		}
		page, err := fetch(http.Get("http://" + nearMetrics + "/proxy/metrics"))
		if err == nil && !hits.MatchString(page) {
			err = errors.New("no read was answered by the machine's node")
		}
		return err
	})
}

// post makes a call of the gateway on a worker.
func post(path string, request any) (string, error) {
	text, err := json.Marshal(request)
	if err != nil {
		return "", err
	}
	return fetch(http.Post("http://"+nearAddr+path, "application/json", bytes.NewReader(text)))
}

func fetch(answer *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return string(text), err
}
