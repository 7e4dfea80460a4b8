// Package p4runtime has the p4runtime-shell drive `netcraq switch`.
package p4runtime
