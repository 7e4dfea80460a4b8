package serve

import (
	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
	"github.com/netcraq/netcraq/internal/platform/memlimit"
)

const (
	// memoryShare is the part of the process's memory that requests and answers may take.
	memoryShare = 8
	// leastMemory has room for what one connection may send ahead: see docs/gateway.md#limits.
	leastMemory = 32 << 20
)

// RequestMemory bounds what the requests and answers of a gateway's clients take of the memory that the process may use.
func RequestMemory() *grpcserver.Memory {
	limit, _ := memlimit.Find()
	return grpcserver.NewMemory(requestMemory(limit))
}

// requestMemory returns the bound for a memory limit. 0: the limit is not known.
func requestMemory(limit int64) int {
	if limit == 0 {
		return grpcserver.DefaultMemory
	}
	return int(min(max(limit/memoryShare, leastMemory), grpcserver.DefaultMemory))
}
