package papers

import "github.com/netcraq/netcraq/internal/figure"

// All lists the figures in the order of the report.
func All() []*figure.Spec {
	return []*figure.Spec{
		netcraqDistance(),
		netchainTransactions(),
		etcdMembers(),
		etcdPipeline(),
		etcdBatching(),
		peersOperations(),
		peersZipf(),
		publishedLosses(),
	}
}
