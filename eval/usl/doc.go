// Package usl fits the Universal Scalability Law to measured throughput:
//
//	C(n) = lambda n / (1 + sigma (n-1) + kappa n (n-1))
//
// Lambda is the rate of one node, sigma the part of the work that nodes do one after the other,
// kappa the cost of coordination of each pair. With kappa throughput has a peak, and nodes beyond it
// make the system slower.
package usl
