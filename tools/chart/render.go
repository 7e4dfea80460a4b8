package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
)

// The release that the plain manifests are.
const (
	release   = "netcraq"
	namespace = "netcraq"
	// kubernetes is the version that the chart is rendered for.
	kubernetes = "v1.36.0"
)

func readValues(path string) (map[string]any, error) { return chartutil.ReadValuesFile(path) }

// lintChart returns what Helm's lint objects to, but for advice.
func lintChart(dir string, values map[string]any) error {
	var errs []error
	version, err := chartutil.ParseKubeVersion(kubernetes)
	if err != nil {
		return err
	}
	for _, m := range lint.AllWithKubeVersion(dir, values, namespace, version).Messages {
		if m.Severity >= support.WarningSev {
			errs = append(errs, m)
		}
	}
	return errors.Join(errs...)
}

// render makes one text of all manifests, in the order of their templates, after their namespace. The values are checked
// against the schema.
func render(dir string, values map[string]any) ([]byte, error) {
	text, err := renderOnly(dir, values, func(string) bool { return true })
	return append([]byte(header+namespaceObject), text...), err
}

// header begins every manifest.
const header = "# Rendered from deploy/chart with the values.yaml beside this file: change those and run `make chart`.\n"

// namespaceObject is not in the chart: Helm makes the namespace of a release, with --create-namespace. Nodes need the
// host's network and paths, which a cluster may refuse to namespaces that do not say so.
const namespaceObject = `---
apiVersion: v1
kind: Namespace
metadata:
  name: ` + namespace + `
  labels:
    app.kubernetes.io/name: netcraq
    pod-security.kubernetes.io/enforce: privileged
`

// staticPods are the templates of gateways, with the values that switch them on. They are no objects of the cluster, so
// each is rendered alone.
var staticPods = map[string]string{
	"gateway.yaml": "gateway", "memory.yaml": "memoryGateway", "keyspace.yaml": "keyspace",
}

func renderStaticPod(dir string, values map[string]any, template string) ([]byte, error) {
	section := staticPods[template]
	gateway, _ := values[section].(map[string]any)
	gateway = maps.Clone(gateway)
	if gateway == nil {
		gateway = make(map[string]any)
	}
	gateway["staticPod"] = true
	values = maps.Clone(values)
	values[section] = gateway
	text, err := renderOnly(dir, values, func(name string) bool { return path.Base(name) == template })
	return append([]byte(header), text...), err
}

// renderOnly renders the templates whose names are taken.
func renderOnly(dir string, values map[string]any, take func(string) bool) ([]byte, error) {
	chart, err := loader.LoadDir(dir)
	if err != nil {
		return nil, err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	version, err := chartutil.ParseKubeVersion(kubernetes)
	if err != nil {
		return nil, err
	}
	capabilities.KubeVersion = *version
	options := chartutil.ReleaseOptions{Name: release, Namespace: namespace, IsInstall: true, Revision: 1}
	all, err := chartutil.ToRenderValues(chart, values, options, capabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if path.Ext(name) != ".yaml" || !take(name) {
			continue
		}
		for _, object := range objects(rendered[name]) {
			fmt.Fprintf(&out, "---\n# %s\n%s\n", name, object)
		}
	}
	return out.Bytes(), nil
}

// objects splits a text at its separators. Parts without an object are left out.
func objects(text string) []string {
	var parts []string
	for part := range strings.SplitSeq("\n"+text, "\n---\n") {
		if part = strings.TrimSpace(part); strings.Contains(part, "kind:") {
			parts = append(parts, part)
		}
	}
	return parts
}

// own are kinds of others, whose types are not Kubernetes'.
var own = []string{"kind: ServiceMonitor", "kind: PodMonitor"}

// checkObjects returns an error for fields that Kubernetes does not know, and for values of another type.
func checkObjects(text []byte) error {
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme,
		json.SerializerOptions{Yaml: true, Strict: true})
	var errs []error
	for _, object := range objects(string(text)) {
		if slices.ContainsFunc(own, func(kind string) bool { return strings.Contains(object, kind) }) {
			continue
		}
		if _, _, err := decoder.Decode([]byte(object), nil, nil); err != nil {
			errs = append(errs, fmt.Errorf("%w in:\n%s", err, object))
		}
	}
	return errors.Join(errs...)
}
