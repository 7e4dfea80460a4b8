package main

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
)

func TestConformanceOnSockets(t *testing.T) {
	var out bytes.Buffer
	if err := runConformance(t.Context(), &out, io.Discard, &conformanceFlags{plane: "soft", packets: 1000, seed: 1, json: true}); err != nil {
		t.Fatal(err)
	}
	var r conformanceResult
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Passed == 0 || r.Failed != 0 || r.RandomPackets != 1000 {
		t.Errorf("%+v", r)
	}
}

func TestConformanceRefusesUnknownPlanes(t *testing.T) {
	var out bytes.Buffer
	err := runConformance(t.Context(), &out, io.Discard, &conformanceFlags{plane: "p4"})
	if exitStatus(err, true) != exitUsage || out.Len() != 0 {
		t.Errorf("%v, %q", err, out.String())
	}
}

func TestConformanceRefusesNegativeCounts(t *testing.T) {
	var out bytes.Buffer
	err := runConformance(t.Context(), &out, io.Discard, &conformanceFlags{plane: "soft", packets: -5})
	if exitStatus(err, true) != exitUsage || out.Len() != 0 {
		t.Errorf("%v, %q", err, out.String())
	}
}
