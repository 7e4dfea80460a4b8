package memory

import (
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// calls counts the calls of clients and of other gateways, as etcd does.
type calls struct {
	handled *prometheus.CounterVec
	known   map[string]known
}

// known is a method that is counted. Others are not: a client could make metrics by calling them.
type known struct {
	okay                  prometheus.Counter // calls without an error
	kind, service, method string
}

func newCalls() *calls {
	return &calls{known: make(map[string]known), handled: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "grpc_server_handled_total",
		Help: "Calls that have ended, by method and code. Relayed writes are calls of the gateway that relays them.",
	}, []string{"grpc_type", "grpc_service", "grpc_method", "grpc_code"})}
}

// add makes the methods of a service known.
func (c *calls) add(service *grpc.ServiceDesc) {
	for _, m := range service.Methods {
		c.know("unary", service.ServiceName, m.MethodName)
	}
	for _, s := range service.Streams {
		kind := "server_stream"
		if s.ClientStreams {
			kind = "bidi_stream"
		}
		c.know(kind, service.ServiceName, s.StreamName)
	}
}

func (c *calls) know(kind, service, method string) {
	okay := c.handled.WithLabelValues(kind, service, method, codes.OK.String())
	c.known["/"+service+"/"+method] = known{okay, kind, service, method}
}

// ended counts a call.
func (c *calls) ended(method string, code codes.Code) {
	switch m, ok := c.known[method]; {
	case !ok:
	case code == codes.OK:
		m.okay.Inc()
	default:
		c.handled.WithLabelValues(m.kind, m.service, m.method, code.String()).Inc()
	}
}
