package controller

import (
	"fmt"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cluster/controller/store"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/wire"
)

// TestMostControllers: nodes take leases from so many controllers and no more, so a cluster has no more.
func TestMostControllers(t *testing.T) {
	var f store.Formation
	for i := range wire.MaxGranters {
		f.Controllers.Members = append(f.Controllers.Members, reconfig.Controller{Address: fmt.Sprintf("10.0.0.%d:4413", i+1)})
	}
	if err := Check(&f); err != nil {
		t.Error(err)
	}
	f.Controllers.Members = append(f.Controllers.Members, reconfig.Controller{Address: "10.0.0.99:4413"})
	if err := Check(&f); err == nil || !strings.Contains(err.Error(), "at most 8") {
		t.Errorf("one more: %v", err)
	}
}
