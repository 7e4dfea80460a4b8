package gateway

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestStaticPod parses the arguments of the static pod, which the chart renders.
func TestStaticPod(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/manifests/gateway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	for line := range strings.Lines(string(text)) {
		if arg, ok := strings.CutPrefix(strings.TrimSpace(line), "- --"); ok {
			args = append(args, "--"+arg)
		}
	}
	c := newGatewayCommand()
	if err := c.ParseFlags(args); err != nil || !slices.Contains(args, "--log-format=json") {
		t.Fatalf("%q: %v", args, err)
	}
	if ca, err := c.Flags().GetString("trusted-ca-file"); err != nil || ca == "" {
		t.Errorf("the gateway serves clients without a certificate: %q, %v", args, err)
	}
}
