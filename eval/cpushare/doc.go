// Package cpushare limits the CPU time of processes with control groups, of version 1 or 2, depending on which of them has
// the cpu controller. With it many members of a cluster run on one machine as if each had a small machine of its own.
package cpushare
