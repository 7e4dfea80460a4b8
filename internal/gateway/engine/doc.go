// Package engine runs a gateway: it does for internal/gateway/core what that decides, with a real etcd and a real chain.
//
// A linearizable read of one placed key is answered from the chain ([Engine.Range]). Writes pass through [Engine.Write], which
// sets and clears the gateway's bits in the objects around etcd's transaction. Everything else goes to etcd as it is, and
// its answer waits in [Engine.Reveal] until the chain has its revision. Reads go to etcd whenever the chain cannot answer.
package engine
