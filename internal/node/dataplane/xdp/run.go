package xdp

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
)

// Results of an XDP program.
const (
	xdpDrop     = 1
	xdpPass     = 2
	xdpTX       = 3
	xdpRedirect = 4
)

const (
	maxFrame      = 2048
	contextLength = 24 // of struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex
)

// runOnce executes a program on a frame as if it had come in by the device, and returns the action and the frame then.
// A redirect is only said, not done.
func runOnce(program *ebpf.Program, frame []byte, ifindex int) (action uint32, out []byte, err error) {
	var context [contextLength]byte
	binary.NativeEndian.PutUint32(context[4:], uint32(len(frame)))
	binary.NativeEndian.PutUint32(context[12:], uint32(ifindex))
	run := ebpf.RunOptions{Data: frame, DataOut: make([]byte, maxFrame), Context: context[:]}
	action, err = program.Run(&run)
	if err != nil {
		return 0, nil, fmt.Errorf("running the program: %w", err)
	}
	return action, run.DataOut, nil
}
