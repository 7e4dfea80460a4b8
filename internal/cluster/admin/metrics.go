package admin

import (
	"context"

	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/api/controllerv1"
)

// MetricsPage asks a controller, which need not lead, for its metrics.
func MetricsPage(ctx context.Context, address string, dial ...grpc.DialOption) ([]byte, error) {
	conn, err := grpc.NewClient("passthrough:///"+address, dial...)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	answer, err := controllerv1.NewControllerClient(conn).Metrics(ctx, &controllerv1.MetricsRequest{})
	return answer.GetPage(), err
}
