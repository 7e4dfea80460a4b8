// Package txn measures lock services with the application benchmark of NetChain's paper: new-order
// transactions as in TPC-C, each with ten exclusive locks. One lock is for a hot item, the others
// for items of a large set. The contention index is one divided by the number of hot items, so that
// at 1 all clients contend for one lock. Clients work in a closed loop: acquire all locks
// (two-phase locking), execute the order, release all locks.
//
// Every run also checks the locks. The orders change a ledger in this process that has no other
// protection. The ledger counts every lock held by two clients at once, every lost update, and
// every fencing token that decreased.
package txn
