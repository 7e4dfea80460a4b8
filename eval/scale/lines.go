package scale

import "fmt"

// Lines are operations per second of chains of nodes that stand in a line and share one CPU with the
// load generator, so that the times of all packets of an operation add up: lines of two and of three
// nodes of a protocol, and how costly it is to pass packets on, which every node does alike.
type Lines struct {
	Read       float64 // clean reads, the client beside the node that answers
	DirtyHead  float64 // reads of dirty objects at the head of three nodes, the client beside it; not of NetChain
	WriteTwo   float64 // writes to two nodes, the client beside the head
	WriteThree float64 // the same to three
	Transit    float64 // packets passed on: see [TransitRate]
}

// TransitRate returns the rate at which a node forwards packets. It compares reads from a client
// beside the head of a line of three nodes with reads from one beside the tail, which answers: the
// former forward four more packets.
func TransitRate(readsNear, readsFar float64) (float64, error) {
	const more = 4
	if !(readsFar > 0) || !(readsNear > readsFar) {
		return 0, fmt.Errorf("%g reads per second near and %g far: want far ones to be slower", readsNear, readsFar)
	}
	return more / (1/readsFar - 1/readsNear), nil
}

// Rates derives rates of single steps from the lines' times. The generator's own time counts as
// the answering node's, for every protocol. ACKs count as forwarded packets; their remaining cost
// is part of the write's, which the same node bears.
func (l Lines) Rates(p Protocol) (Rates, error) {
	for _, rate := range []float64{l.Read, l.WriteTwo, l.WriteThree, l.Transit} {
		if !(rate > 0) {
			return Rates{}, fmt.Errorf("lines of %s: %+v: want rates above 0", p, l)
		}
	}
	transit, read := 1/l.Transit, 1/l.Read
	rates := Rates{Transit: l.Transit, Read: l.Read, Ack: l.Transit}
	// The third node writes and passes the answer on. With ACKs it takes one, and passes the head's on.
	node := 1/l.WriteThree - 1/l.WriteTwo - transit
	if p == NetChain {
		rates.Write = 1 / max(node, transit)
		rates.Commit = 1 / max(1/l.WriteTwo-1/rates.Write-transit, transit)
		return rates, nil
	}
	rates.Write = 1 / max(node-2*transit, transit)
	rates.Commit = 1 / max(1/l.WriteTwo-1/rates.Write-2*transit,
		transit) // the head has passed the answer on and taken the ACK
	rates.Forward = l.Transit
	if l.DirtyHead > 0 { // passed on by the node between, read by the tail, and the answer passed on by two
		rates.Forward = 1 / max(1/l.DirtyHead-read-3*transit, transit)
	}
	return rates, nil
}
