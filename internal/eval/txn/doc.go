// Package txn measures lock services by the application benchmark of NetChain's paper: new-order transactions as in TPC-C,
// each of which needs ten exclusive locks. One of them is for a hot item, the others for items of a large set; the
// contention index is one by the number of hot items, so that at 1 all clients want the same lock. Clients work in a closed loop:
// take all locks (two-phase locking), do the order, give all locks back.
//
// Every run is checked, not only timed. The orders are done on a ledger in this process that nothing but the locks
// protects: it counts every lock held by two at once, every update that got lost, and every fencing token that went back.
package txn
