package papers

import "github.com/netcraq/netcraq/eval/figure"

// All lists the figures in the order of the report. To list them they need no tools.
func All(tools Tools) []*figure.Spec {
	return []*figure.Spec{
		netcraqDistance(),
		netcraqLatency(),
		netcraqCongestion(),
		netcraqMixed(),
		netcraqLength(),
		netcraqDistanceP4(),
		netcraqLengthP4(),
		kubernetesPods(tools),
		netchainValueSize(),
		netchainStoreSize(),
		netchainWriteShare(),
		netchainLoss(),
		netchainLatency(),
		netchainFailover(tools),
		netchainTransactions(),
		netchainScaling(),
		etcdMembers(),
		etcdPipeline(),
		etcdBatching(),
		peersOperations(),
		peersZipf(),
		peersLoss(),
		publishedLosses(),
	}
}
