package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	config "github.com/p4lang/p4runtime/go/p4/config/v1"
)

// The program of which the node for v1model has a P4Info of its own.
const (
	v1modelProgram  = "netcraq.p4"
	v1modelInfoName = "v1model/netcraq.p4info.txtpb"
	packetOutHeader = "packet_out_h" // of p4/v1model.p4
)

func v1modelFile(program string) string {
	return "v1model/" + strings.TrimSuffix(program, ".p4") + ".json"
}

// v1modelInfo is the P4Info of the node for v1model: that for SWX, with another header for packets from the controller.
func v1modelInfo(dir string) (*config.P4Info, error) {
	info, err := infoOf(dir, v1modelProgram)
	if err != nil {
		return nil, err
	}
	names, err := readNames(filepath.Join(dir, v1modelFile(v1modelProgram)))
	if err != nil {
		return nil, err
	}
	info.PkgInfo.Arch = "v1model"
	out := info.ControllerPacketMetadata[len(info.ControllerPacketMetadata)-1]
	out.Metadata = nil
	for _, h := range names.Headers {
		if h.Name != packetOutHeader {
			continue
		}
		for i, f := range h.Fields {
			name, bits := f[0].(string), f[1].(float64)
			out.Metadata = append(out.Metadata, &config.ControllerPacketMetadata_Metadata{
				Id: uint32(i + 1), Name: name, Bitwidth: int32(bits),
			})
		}
	}
	if len(out.Metadata) == 0 {
		return nil, fmt.Errorf("%s has no %s", v1modelFile(v1modelProgram), packetOutHeader)
	}
	return info, nil
}

// finishV1Model removes the positions in the sources, which would change with each comment.
func finishV1Model(compiled []byte) ([]byte, error) {
	var program any
	decoder := json.NewDecoder(bytes.NewReader(compiled))
	decoder.UseNumber()
	if err := decoder.Decode(&program); err != nil {
		return nil, err
	}
	removePositions(program)
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(program)
	return b.Bytes(), err
}

func removePositions(node any) {
	switch n := node.(type) {
	case []any:
		for _, inner := range n {
			removePositions(inner)
		}
	case map[string]any:
		delete(n, "source_info")
		for _, inner := range n {
			removePositions(inner)
		}
	}
}
