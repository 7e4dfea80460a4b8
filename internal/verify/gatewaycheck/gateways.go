package gatewaycheck

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Gateways are clients of gateways, one of each.
type Gateways struct{ clients []*clientv3.Client }

const (
	// pingEvery and pingWithin are how clients notice that a gateway is away. etcd's servers take no more pings than these.
	pingEvery  = 6 * time.Second
	pingWithin = 3 * time.Second
	// tryWithin bounds one attempt of [Gateways.Ready], and the read of a page.
	tryWithin = 3 * time.Second
)

// Of makes gateways of clients that are open.
func Of(clients ...*clientv3.Client) *Gateways { return &Gateways{clients} }

// Connect opens a client of each gateway.
func Connect(addresses []string) (*Gateways, error) {
	g := new(Gateways)
	for _, address := range addresses {
		c, err := connect(address)
		if err != nil {
			g.Close()
			return nil, err
		}
		g.clients = append(g.clients, c)
	}
	return g, nil
}

func connect(addresses ...string) (*clientv3.Client, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints: addresses, DialKeepAliveTime: pingEvery, DialKeepAliveTimeout: pingWithin,
		Logger: zap.NewNop(), // errors are part of the record
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", strings.Join(addresses, ", "), err)
	}
	return c, nil
}

// Close closes the clients.
func (g *Gateways) Close() {
	for _, c := range g.clients {
		_ = c.Close() // its error only reports that the connection is gone
	}
}

// Ready waits until every gateway answers a read.
func (g *Gateways) Ready(ctx context.Context) error {
	for i, c := range g.clients {
		for {
			within, cancel := context.WithTimeout(ctx, tryWithin)
			_, err := c.Get(within, "ready")
			cancel()
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("gateway %d does not answer: %w", i, errors.Join(err, ctx.Err()))
			}
		}
	}
	return nil
}

// ReadHistoryFrom reads all changes below a prefix from etcd's members.
func ReadHistoryFrom(ctx context.Context, members []string, prefix string) (*History, error) {
	c, err := connect(members...)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return ReadHistory(ctx, c, prefix)
}

// Counters of a gateway: of reads that the chain answered, and of those among them that used no network.
const (
	HitsMetric       = "netcraq_gateway_hits_total"
	nearbyHitsMetric = "netcraq_gateway_nearby_hits_total"
)

// Hits counts reads that a gateway has answered from the chain since its start.
type Hits struct {
	All    uint64
	Nearby uint64 // of these: by a node on the gateway's machine, without the network
}

// ReadHits reads a gateway's counters.
func ReadHits(ctx context.Context, address string) (h Hits, err error) {
	ctx, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/proxy/metrics", nil)
	if err != nil {
		return h, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return h, err
	}
	defer answer.Body.Close()
	missing := map[string]*uint64{HitsMetric: &h.All, nearbyHitsMetric: &h.Nearby}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() && len(missing) > 0 {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if missing[name] == nil {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return h, err
		}
		*missing[name] = uint64(n)
		delete(missing, name)
	}
	if len(missing) > 0 {
		return h, errors.Join(lines.Err(), fmt.Errorf("the gateway's metrics do not contain %v", slices.Sorted(maps.Keys(missing))))
	}
	return h, nil
}
