// Package cpushare limits processes to a share of the machine's CPU time with control groups, of version 1 or 2, whichever
// has the cpu controller. It lets many members of a cluster run on one machine as if each had a small machine of its own.
package cpushare
