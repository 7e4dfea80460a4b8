package gatewaycheck

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Gateways are clients of gateways, or of members of etcd, one of each.
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
				return fmt.Errorf("server %d does not answer: %w", i, errors.Join(err, ctx.Err()))
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
	NearbyHitsMetric = "netcraq_gateway_nearby_hits_total"
)

// Hits counts reads that a gateway has answered from the chain since its start.
type Hits struct {
	All    uint64
	Nearby uint64 // of these: by a node on the gateway's machine, without the network
}

// ReadHits reads a gateway's counters.
func ReadHits(ctx context.Context, address string) (Hits, error) {
	m, err := ReadMetrics(ctx, "http://"+address+"/proxy/metrics", HitsMetric, NearbyHitsMetric)
	return Hits{All: uint64(m[HitsMetric]), Nearby: uint64(m[NearbyHitsMetric])}, err
}

// ReadMetrics reads the metrics of a server whose names, with labels, begin with one of the prefixes. One for each
// prefix must be there.
func ReadMetrics(ctx context.Context, page string, prefixes ...string) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	metrics, missing := make(map[string]float64), slices.Clone(prefixes)
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		end := strings.LastIndexByte(lines.Text(), ' ')
		begins := func(prefix string) bool { return strings.HasPrefix(lines.Text(), prefix) }
		if end < 0 || !slices.ContainsFunc(prefixes, begins) {
			continue
		}
		n, err := strconv.ParseFloat(lines.Text()[end+1:], 64)
		if err != nil {
			return nil, err
		}
		metrics[lines.Text()[:end]] = n
		missing = slices.DeleteFunc(missing, begins)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%s does not contain %v", page, missing)
	}
	return metrics, nil
}
