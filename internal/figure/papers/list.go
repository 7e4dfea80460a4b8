package papers

import "github.com/netcraq/netcraq/internal/figure"

// All lists the figures in the order of the report. To list them they need no tools.
func All(tools Tools) []*figure.Spec {
	return []*figure.Spec{
		netcraqDistance(),
		netcraqMixed(),
		netcraqLength(),
		netchainValueSize(),
		netchainStoreSize(),
		netchainWriteShare(),
		netchainLoss(),
		netchainFailover(tools),
		netchainTransactions(),
		etcdMembers(),
		etcdPipeline(),
		etcdBatching(),
		peersOperations(),
		peersZipf(),
		publishedLosses(),
	}
}
